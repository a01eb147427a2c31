// How far a reader of a request log has got: a number in a small file, written in place for each record that
// is done, and which of the records right behind it are done already.
//
// It stands in one of two slots in turn, each with a checksum, so that a write that was cut short leaves the
// number before it. When neither slot is whole, what is left in the segments is delivered again.
//
//   slot = magic[8] next_id:64 checksum:32 zero:32  boot_id[16] checksum:32  zero:32 done:64 checksum:32
//
// The last checksum is of magic, next_id and done. The second and the third part came later: a file without
// them is read, and a program that does not know them reads the first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gpulens/status.h>

#include "base/fd.h"
#include "delivery/segment_format.h"

namespace gpulens {

inline constexpr const char* kPositionName = "position";
// An empty file: the owner of the log was removed. Without it, a log that has no `position` belongs whole to
// its owner: nothing of it is known to be delivered.
inline constexpr const char* kOwnerGoneName = "owner_gone";

// The file of a reader: "position" of the owner, "position.otlp.b" of another that is called "otlp/b".
std::string PositionNameOf(const std::string& reader, const std::string& owner);
// The reader whose file it is; empty when it is the owner's and there is no owner.
std::string ReaderOfPosition(const std::string& file, const std::string& owner);

// Not thread-safe.
class PositionFile {
 public:
  // Opens or makes the file `name` in `folder`. What is there and not ours is for the caller to set aside
  // first. `boot_id`: of the present start of the machine; zeros: not known.
  static Result<PositionFile> Open(int folder, const std::string& name, const BootId& boot_id);
  // Only to look: makes nothing, and Write fails. kUnavailable when it is not there or is no regular file.
  static Result<PositionFile> OpenToRead(int folder, const std::string& name);

  // True when the file holds something that is no position: of another version, or damaged.
  bool foreign() const noexcept { return foreign_; }
  // The id of the first record that is not done; nothing when none was ever written or it is not readable.
  std::optional<uint64_t> last() const noexcept { return last_; }
  // Bit i: the record last() + 1 + i is done.
  uint64_t done() const noexcept { return done_; }
  // It was written since the machine was started, so that it is as new as any other file that we left. After
  // a power cut the kernel may have kept the removal of a segment and not the number that was written before.
  bool of_this_boot() const noexcept { return of_this_boot_; }

  // One write of 60 bytes; no allocation when it works. A failed one may be tried again with a later number.
  Status Write(uint64_t next_id, uint64_t done);
  Status Sync();
  UniqueFd Duplicate() const noexcept;

 private:
  PositionFile(UniqueFd fd, const BootId& boot_id) : fd_(std::move(fd)), boot_id_(boot_id) {}
  void Load() noexcept;

  UniqueFd fd_;
  BootId boot_id_;
  std::optional<uint64_t> last_;
  uint64_t done_ = 0;
  unsigned slot_ = 0;  // where the next one goes
  bool foreign_ = false;
  bool of_this_boot_ = false;
};

}  // namespace gpulens
