// How far a queue was delivered: one number in a small file, written in place for each parcel that is done.
//
// It stands in one of two slots in turn, each with a checksum, so that a write that was cut short leaves the
// number before it. When neither slot is whole, what is left in the segments is delivered again.
#pragma once

#include <cstdint>
#include <optional>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

inline constexpr const char* kPositionName = "position";

// Not thread-safe.
class PositionFile {
 public:
  // Opens or makes the file in `folder`. What is there and not ours is for the caller to set aside first.
  static Result<PositionFile> Open(int folder);

  // True when the file holds something that is no position: of another version, or damaged.
  bool foreign() const noexcept { return foreign_; }
  // The id of the first parcel that is not done; nothing when none was ever written or it is not readable.
  std::optional<uint64_t> last() const noexcept { return last_; }

  // One write of 24 bytes; no allocation when it works. A failed one may be tried again with a later number.
  Status Write(uint64_t next_id);
  Status Sync();
  UniqueFd Duplicate() const noexcept;

 private:
  explicit PositionFile(UniqueFd fd) : fd_(std::move(fd)) {}
  void Load() noexcept;

  UniqueFd fd_;
  std::optional<uint64_t> last_;
  unsigned slot_ = 0;  // where the next one goes
  bool foreign_ = false;
};

}  // namespace gpulens
