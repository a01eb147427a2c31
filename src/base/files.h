// Small files read whole: /proc, /sys, configuration, certificates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// The Code that fits an errno: ENOENT and its like are kUnavailable, EACCES kPermissionDenied.
Code CodeOfErrno(int error) noexcept;
// A Status made of errno: "open /proc/stat: permission denied".
Status ErrnoStatus(std::string_view what, int error);

// Reads at most `limit` bytes into `out` (cleared first, capacity kept, so that a steady reader
// does not allocate). kExhausted when the file is longer. kUnavailable when it is not there.
Status ReadFile(const char* path, std::string& out, size_t limit = 1 << 20);
Result<std::string> ReadFile(const std::string& path, size_t limit = 1 << 20);

struct WriteOptions {
  unsigned mode = 0644;  // of a new file, less the umask; one that is replaced leaves its own
  bool sync = true;      // on the disk when it returns: survives the loss of power
};
// Writes a temporary file beside `path`, of a name that nobody can foresee, then renames it over `path`:
// readers see the old bytes or the new, never a part. A symbolic link at `path` is replaced, never followed.
Status WriteFileAtomically(const std::string& path, std::string_view bytes, const WriteOptions& options = {});

// Makes each folder on the way to the file `path`, with mode 0755. Folders that are there stay as they are.
Status MakeFoldersAbove(const std::string& path);

}  // namespace gpulens
