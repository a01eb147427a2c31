// The folder of a request log: made with mode 0700, held by one process at a time, and the names in it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// "00000000000000000012.seg": the id of the segment's first record.
using SegmentName = std::array<char, 32>;
SegmentName NameOfSegment(uint64_t first_id) noexcept;
std::optional<uint64_t> IdOfSegmentName(std::string_view name) noexcept;
inline constexpr const char* kLockName = "lock";

// Not thread-safe. The lock goes with the object, or with the process.
class LogFolder {
 public:
  // kUnavailable, with the holder's process id where it is known, when another has it.
  static Result<LogFolder> Open(const std::string& path);

  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }

  // First ids of all segments, ascending. Other names are not looked at.
  Result<std::vector<uint64_t>> ListSegments() const;
  // Names that begin with "position".
  Result<std::vector<std::string>> ListPositions() const;
  bool Has(const char* name) const noexcept;
  // It is certain that there is no such name: a folder that cannot be looked at misses nothing.
  bool Misses(const char* name) const noexcept;
  // Makes an empty file, where there is none.
  Status Mark(const char* name) const;
  // Whether the path leads to another folder by now, or to none.
  bool vanished() const noexcept;
  // Renames to NAME.unknown, never over something, and says so in the log.
  Status SetAside(const char* name, std::string_view why) const;
  Status Remove(const char* name) const;
  // Removes the folder with the positions and the lock. False when something else is in it.
  bool RemoveAll() const;
  // New names in the folder are on the disk when this returns ok.
  Status Sync() const;
  UniqueFd Duplicate() const noexcept;

 private:
  LogFolder() = default;
  Status Lock();
  Result<std::vector<std::string>> List() const;

  std::string path_;
  UniqueFd fd_, lock_;
};

}  // namespace gpulens
