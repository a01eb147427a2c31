// Reads and writes small files as a whole: /proc, /sys, configuration, certificates.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// The Code of an errno: kUnavailable for ENOENT and similar, kPermissionDenied for EACCES.
Code CodeOfErrno(int error) noexcept;
// "open /proc/stat: permission denied".
Status ErrnoStatus(std::string_view what, int error);

// Reads a file into `out`, whose capacity is kept. kExhausted when it is longer than `limit`; kUnavailable
// when absent.
Status ReadFile(const char* path, std::string& out, size_t limit = 1 << 20);
Result<std::string> ReadFile(const std::string& path, size_t limit = 1 << 20);

// The same of a file that is written in place by who locks it with flock(2) meanwhile. kTimeout: it is
// locked.
Status ReadUnlockedFile(const std::string& path, std::string& out, size_t limit);

struct WriteOptions {
  unsigned mode = 0644;  // of a new file, less the umask; a replaced file keeps its own
  bool sync = true;      // on disk when it returns
};
// Writes a temporary file of a random name next to `path` and renames it over `path`: readers see the old
// bytes or the new ones. Replaces a symbolic link at `path`.
Status WriteFileAtomically(const std::string& path, std::string_view bytes, const WriteOptions& options = {});

// Creates the missing folders above the file `path`, with mode 0755.
Status MakeFoldersAbove(const std::string& path);

// Calls `visit` with each name in a folder but "." and "..", in no order, until it returns false.
// kUnavailable, kPermissionDenied or kIo when the folder cannot be opened.
Status ForEachName(const std::string& folder, const std::function<bool(std::string_view name)>& visit);

// Path at which an agent of this process makes its socket NAME: below /run/gpulens for root, in the runtime
// folder of a service, below XDG_RUNTIME_DIR for others. Empty: none of these exists.
std::string OwnAgentSocket(std::string_view name);
// Path at which programs find the agent's socket NAME: below /run/gpulens, or below XDG_RUNTIME_DIR where
// only an agent of this user is. It may change when another agent starts.
std::string FindAgentSocket(std::string_view name);

// Identifies a state of a file, to detect changes. The time alone is too coarse: it has the kernel's ticks.
struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;  // -1: absent or not accessible
  int64_t modified_ns = 0;

  bool there() const noexcept { return size >= 0; }
  bool operator==(const FileMark&) const = default;
};

// Follows links. Thread-safe.
inline FileMark MarkOf(const std::string& path) noexcept {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  int64_t ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return {info.st_dev, info.st_ino, info.st_size, ns};
}

}  // namespace gpulens
