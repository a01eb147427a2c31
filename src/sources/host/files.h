// Repeated reads of many small files of /proc and /sys below a root that can be moved: "/" on a machine,
// "/host" in a container that has the host's root mounted, a folder of a test.
//
// Not for files that can block (network mounts): reads are plain system calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// The names in one directory, the shorter ones first, then by bytes (node2, node10). Keeps its memory between
// listings. Not thread-safe.
class NameList {
 public:
  size_t size() const noexcept { return spans_.size(); }
  bool empty() const noexcept { return spans_.empty(); }
  std::string_view operator[](size_t i) const noexcept {
    return std::string_view(bytes_).substr(spans_[i].begin, spans_[i].size);
  }

 private:
  friend class HostFiles;
  struct Span {
    uint32_t begin, size;
  };
  std::string bytes_;
  std::vector<Span> spans_;
};

// A file that stays open, relative to the root. For /proc and /sys a read at offset 0 makes the kernel print
// it again, so the path is resolved only once; after an error it is opened again.
struct KeptFile {
  explicit KeptFile(std::string file_path) : path(std::move(file_path)) {}
  std::string path;
  UniqueFd fd;
};

// Not thread-safe: one per worker. A returned text lives in the one buffer of this object until the next
// call. A steady read allocates nothing; the Status of a failure does, so files that are often absent have
// the Find calls, which do not.
//
// Failures: kUnavailable (not there, not supported by the kernel, device or process gone),
// kPermissionDenied, kExhausted (longer than 4 MiB; more than `limit` names), kIo.
class HostFiles {
 public:
  static Result<HostFiles> Open(std::string root);

  // As given to Open, without a trailing slash: "" for "/".
  const std::string& root() const noexcept { return root_; }
  // "proc/net", or "proc/1/net" below another root: there /proc/self is this process, which sees its
  // container's network and mounts and not the host's. Mounts are those of process 1 also where that is
  // systemd. Set up by Open.
  std::string_view net() const noexcept { return net_; }
  std::string_view mountinfo() const noexcept { return mountinfo_; }

  // Joins the parts of a path, relative to the root. Valid until the next call of Path.
  const char* Path(std::initializer_list<std::string_view> parts);

  Status Read(const char* path, std::string_view& text);
  Status Read(KeptFile& file, std::string_view& text);
  // The same for files that are often absent: false for any failure.
  bool Find(const char* path, std::string_view& text) { return ReadPath(path, text) == 0; }
  bool Find(KeptFile& file, std::string_view& text) { return ReadKept(file, text) == 0; }
  // The number in a file; no value when it cannot be read (absent, not supported, not permitted). kDataLoss
  // when the file can be read and is not a number.
  Status FindNumber(const char* path, std::optional<uint64_t>& value);
  // The trimmed text of a file; no value when it cannot be read.
  std::optional<std::string_view> FindText(const char* path);
  bool Exists(const char* path) const noexcept;
  // The last component of a symbolic link's target, in the buffer; no value when it is not a link.
  std::optional<std::string_view> FindLinkName(const char* path);

  // Names beginning with `prefix`, without "." and "..".
  Status List(const char* path, std::string_view prefix, NameList& out, size_t limit = 4096);
  // Counts the names of a directory.
  Status Count(const char* path, uint64_t& count, size_t limit = 1 << 20);

  // Gives memory back after a rare, large file.
  void Shrink();

 private:
  HostFiles(std::string root, UniqueFd root_fd);
  // Errno of the failure, 0 for success.
  int ReadAll(int fd, std::string_view& text);
  int ReadPath(const char* path, std::string_view& text);
  int ReadKept(KeptFile& file, std::string_view& text);
  template <class Visit>
  Status ForEachName(const char* path, Visit visit);

  std::string root_;
  UniqueFd root_fd_;
  std::string net_ = "proc/net";
  std::string mountinfo_ = "proc/self/mountinfo";
  std::string path_;
  std::string buffer_;
};

}  // namespace gpulens
