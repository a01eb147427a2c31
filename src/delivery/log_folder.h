// Folder of a request log: the names in it, its lock, and the positions of readers. Created with mode 0700,
// locked by one process at a time.
//
// A position is the first id that is not done, and which of the 64 after it are done. It is written in place,
// in two slots in turn, each with a checksum: a torn write leaves the previous position. With no valid slot,
// everything left in the segments is delivered again.
//
//   slot = magic[8] next_id:64 checksum:32 zero:32  boot_id[16] checksum:32  zero:32 done:64 checksum:32
//
// The last checksum covers magic, next_id and done. The second and third part are optional, for older
// versions.
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
#include "delivery/segment_file.h"

namespace gpulens {

inline constexpr const char* kPositionName = "position";
// Marks, as an empty file, that the owner of the log was removed. Without it, a log without `position` is
// undelivered to its owner as a whole.
inline constexpr const char* kOwnerGoneName = "owner_gone";

// The file of a reader: "position" of the owner, "position.otlp.b" of another that is called "otlp/b".
std::string PositionNameOf(const std::string& reader, const std::string& owner);
// The reader of a position file; empty for the owner's file of a log without an owner.
std::string ReaderOfPosition(const std::string& file, const std::string& owner);

// Position of one reader. Not thread-safe.
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
