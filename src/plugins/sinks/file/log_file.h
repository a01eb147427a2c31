// A file that only grows at its end, in whole pieces, and is rotated by size and age: path is the
// present file, path.1 the one before, up to path.N.
//
// A piece is wholly in the file or not at all: what a full disk cuts off is taken back. A file that was
// moved or deleted by others (logrotate) is made anew at the next write. A symbolic link, a device or
// another kind of file at `path` is refused, as is a file that does not hold JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "delivery/record.h"

namespace gpulens {

// Not thread-safe. Appending waits for the disk.
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

  // Opens what Append would open. kUnavailable when the folder is not there: none is made.
  Status Open(Instant now);
  // Appends whole lines. kExhausted when there is no room (disk, quota, file size limit); the file then
  // is as it was before.
  Status Append(std::string_view lines, Instant now);
  // What was appended is on the disk when this returns ok.
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
  bool torn_ = false;  // the end could not be taken back yet
};

}  // namespace gpulens
