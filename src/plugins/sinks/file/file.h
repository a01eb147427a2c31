// Append-only file with rotation by size and age: path is the current file, path.1 the previous one, up to
// path.N.
//
// An append is complete or has no effect: a write that a full disk cuts off is undone. A file that was moved
// or deleted by others (logrotate) is created again at the next write. A symbolic link, a device or another
// kind of file at `path` is refused, and so is a file that does not hold JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "delivery/record.h"

namespace gpulens {

// Not thread-safe. Append waits for the disk.
class LogFile {
 public:
  struct Options {
    std::string path;
    uint64_t rotate_size = 64 << 20;               // 0: never
    Duration rotate_age = std::chrono::hours(24);  // 0: never
    int keep = 5;                                  // rotated files; 0: none
    SyncPolicy sync = SyncPolicy::kNone;
    Duration sync_interval = std::chrono::seconds(5);  // of kInterval
  };

  explicit LogFile(Options options) : options_(std::move(options)) {}

  // Opens the file. kUnavailable without its folder, which is not created.
  Status Open(Instant now);
  // Appends complete lines. kExhausted without room (disk, quota, file size limit); the file is then
  // unchanged.
  Status Append(std::string_view lines, Instant now);
  // Writes appended lines to the disk.
  Status SyncNow();

 private:
  bool StillThere() noexcept;
  Status CheckContent();
  Status MendEnd();
  void RotateIfDue(size_t coming, Instant now);
  Status Rotate();
  Status WriteWhole(std::string_view lines);
  std::string Numbered(int number) const { return options_.path + "." + std::to_string(number); }

  const Options options_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  int64_t begun_unix_ns_ = 0;
  int64_t synced_boot_ns_ = 0;
  bool torn_ = false;  // the end could not be removed yet
};

}  // namespace gpulens
