// Folder of a request log, and the names in it. Created with mode 0700, locked by one process at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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

// Calls `visit` for each name in the folder until it returns false.
Status ForEachName(int folder, const std::function<bool(std::string_view)>& visit);

// Not thread-safe. The lock is released with the object or the process.
class LogFolder {
 public:
  // kUnavailable, with the process id if known, when another process holds it.
  static Result<LogFolder> Open(const std::string& path);

  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }

  // First ids of all segments, ascending. Other names are ignored.
  Result<std::vector<uint64_t>> ListSegments() const;
  // Names that begin with "position".
  Result<std::vector<std::string>> ListPositions() const;
  bool Has(const char* name) const noexcept;
  // Whether there is certainly no such name; false when the folder cannot be read.
  bool Misses(const char* name) const noexcept;
  // Creates an empty file unless the name exists.
  Status Mark(const char* name) const;
  // Whether the path no longer leads to this folder.
  bool vanished() const noexcept;
  // Renames to NAME.unknown (or .unknown.N) without overwriting, and logs it.
  Status SetAside(const char* name, std::string_view why) const;
  Status Remove(const char* name) const;
  // Removes the folder with its positions and lock. False when it contains anything else.
  bool RemoveAll() const;
  // Syncs new names to disk.
  Status Sync() const;
  UniqueFd Duplicate() const noexcept;

 private:
  LogFolder() = default;
  Status Lock();
  Result<std::vector<std::string>> List() const;

  std::string path_;
  UniqueFd fd_, lock_;
};

// Returns the process that holds the lock of a folder (a descriptor); 0: a process of another namespace;
// nothing: none, or unknown without /proc. Reads the kernel's list of locks: trying the lock would hold it
// for a moment, and an agent that starts then would find the folder in use.
std::optional<int64_t> LockHolder(int folder);

}  // namespace gpulens
