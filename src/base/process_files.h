// Files in /proc of other processes that the kernel shows only to who may trace them. A confined process
// may not, even one of root: the launcher (base/sandbox/launcher.h) opens them for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// Reads PROC/PID/environ or PROC/1/root/etc/passwd, up to `most` bytes. Errors as those of ReadFile.
// Thread-safe.
Status ReadProcessFile(const std::string& path, std::string& into, size_t most);

// Returns the inodes of the sockets that a process has open, by its folder PROC/PID/fd; at most `most`
// descriptors are looked at. Thread-safe.
Result<std::vector<uint64_t>> SocketsOfProcess(const std::string& folder, size_t most);

// The same without the launcher's help.
Result<std::vector<uint64_t>> ListProcessSockets(const std::string& folder, size_t most);

// Returns what the link PROC/PID/ns/net points to: "net:[4026531840]". Thread-safe.
Result<std::string> ReadProcessLink(const std::string& path);

// Requests such a file of another process. `question` is 'f' (a file), 's' (inodes of a folder's sockets, one
// in each line) or 'l' (a link), then the path. Returns a descriptor to be read.
class ProcessFileOpener {
 public:
  virtual Result<UniqueFd> Open(std::string_view question) = 0;

 protected:
  ~ProcessFileOpener() = default;
};
// Used from then on where this process is refused; null: none. Call it before there are threads.
void OpenProcessFilesBy(ProcessFileOpener* opener) noexcept;

}  // namespace gpulens
