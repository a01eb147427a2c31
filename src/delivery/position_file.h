// Position of a reader in a request log: the first id that is not done, and which of the 64 after it are
// done. Written in place, in two slots in turn, each with a checksum: a torn write leaves the previous
// position. With no valid slot, everything left in the segments is delivered again.
//
//   slot = magic[8] next_id:64 checksum:32 zero:32  boot_id[16] checksum:32  zero:32 done:64 checksum:32
//
// The last checksum covers magic, next_id and done. The second and third part are optional, for older
// versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gpulens/status.h>

#include "base/fd.h"
#include "delivery/segment_file.h"

namespace gpulens {

inline constexpr const char* kPositionName = "position";
// An empty file: the owner of the log was removed. Without it, a log without `position` is undelivered to its
// owner as a whole.
inline constexpr const char* kOwnerGoneName = "owner_gone";

// The file of a reader: "position" of the owner, "position.otlp.b" of another that is called "otlp/b".
std::string PositionNameOf(const std::string& reader, const std::string& owner);
// The reader of a position file; empty for the owner's file of a log without an owner.
std::string ReaderOfPosition(const std::string& file, const std::string& owner);

// Not thread-safe.
class PositionFile {
 public:
  // Opens or creates the file `name` in `folder`. The caller sets foreign files aside first. `boot_id`: of
  // this start of the machine; zeros: unknown.
  static Result<PositionFile> Open(int folder, const std::string& name, const BootId& boot_id);
  // Read-only: creates nothing, and Write fails. kUnavailable when it is missing or not a regular file.
  static Result<PositionFile> OpenToRead(int folder, const std::string& name);

  // Whether the content is not a position: of another version, or damaged.
  bool foreign() const noexcept { return foreign_; }
  // The id of the first record that is not done; nothing when none was written or it is unreadable.
  std::optional<uint64_t> last() const noexcept { return last_; }
  // Bit i: the record last() + 1 + i is done.
  uint64_t done() const noexcept { return done_; }
  // Whether it was written since the machine started. After a power failure the disk may have the removal of
  // a segment without the position that was written before it.
  bool of_this_boot() const noexcept { return of_this_boot_; }

  // One write of 60 bytes, without allocation. A failed one may be retried with a later id.
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
  unsigned slot_ = 0;  // of the next Write
  bool foreign_ = false;
  bool of_this_boot_ = false;
};

}  // namespace gpulens
