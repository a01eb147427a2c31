// Files of a request log: segments that are appended to and removed as a whole. Readers are in request_log.h.
//
// Ids are consecutive over all segments, and the name of a segment is the id of its first record, so that
// missing records are known by id. Memory: 96 bytes for each segment and one writer; no index of records.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "delivery/log_folder.h"
#include "delivery/record.h"
#include "delivery/segment_file.h"

namespace gpulens {

struct LogTotals {
  uint64_t records = 0, items = 0, bytes = 0;

  void Add(const LogTotals& other) noexcept;
  void Subtract(const LogTotals& other) noexcept;  // never below zero
};
inline LogTotals TotalsOf(const RecordHead& head) noexcept { return {1, head.items, head.size()}; }

// Read position of one reader in one DiskLog.
struct DiskPlace {
  std::optional<SegmentReader> file;
  uint64_t segment = 0;  // first id of the open one
};

// Not thread-safe.
class DiskLog {
 public:
  struct Segment {
    uint64_t first_id = 0, end_id = 0;
    uint64_t file_bytes = 0;
    LogTotals all;  // records with valid heads
    bool readable = true;
  };

  // Reads the heads of all records in the folder. Ids continue after them, at `least_id` or above.
  // kUnavailable when another process holds the folder.
  static Result<std::unique_ptr<DiskLog>> Open(const RequestLogOptions& options, uint64_t least_id,
                                               Instant now);
  ~DiskLog();

  // Appends a record with the id next_id(), or fails without a change.
  Status Append(std::string_view bytes, uint32_t items, Instant now);
  uint64_t next_id() const noexcept { return next_id_; }
  // Skips ids below `id`, which are used elsewhere.
  void SkipTo(uint64_t id);
  const std::deque<Segment>& segments() const noexcept { return segments_; }
  // Skips the ids of segments with destroyed headers that follow next_id(), so that readers count them as
  // missing.
  void SkipDestroyed();
  // The next Append begins a new segment.
  void Seal();
  // Removes segments with only ids below `id`. The one that is appended to is kept while it is small.
  void RemoveBelow(uint64_t id);

  // The first record at or after `from` with a valid head. Nothing when there is none; an error when it
  // cannot be read now.
  Result<std::optional<SegmentReader::Record>> Find(DiskPlace& place, uint64_t from);
  // The body of the record that Find returned last. kDataLoss when it is damaged.
  Status Read(DiskPlace& place, const SegmentReader::Record& record, std::string& bytes);
  RecordStamp StampAt(const DiskPlace& place, const SegmentReader::Record& record) const noexcept;
  // The totals of the segment before `id`.
  LogTotals CountBelow(const Segment& segment, uint64_t id) const;

  // Files to sync now by the policy kInterval. The caller syncs them without locks and reports SyncFailed.
  std::array<UniqueFd, 2> DueSync(Instant now);
  // Another file of the folder needs a sync.
  void MarkDirty() noexcept { dirty_ = true; }
  void SyncFailed();
  LogFolder& folder() noexcept { return folder_; }
  const BootId& boot_id() const noexcept { return boot_id_; }

 private:
  DiskLog(const RequestLogOptions& options, LogFolder folder, Instant now);
  Status Load(uint64_t least_id);
  Status FindSegments();
  Status Scan(Segment& segment, uint64_t id_limit);

  Status Write(const RecordHead& head, std::string_view bytes);
  Status Begin();
  Status SyncWritten(bool new_file);
  bool Growing(const Segment& segment) const noexcept;

  const RequestLogOptions options_;
  const uint64_t segment_bytes_;
  const BootId boot_id_;
  LogFolder folder_;
  std::deque<Segment> segments_;                          // oldest first
  std::optional<SegmentWriter> writer_;                   // of segments_.back()
  uint64_t next_id_ = 1;                                  // of the next Append
  std::vector<std::pair<uint64_t, uint64_t>> destroyed_;  // first and estimated end
  int64_t synced_boot_ns_ = 0;
  bool dirty_ = false;
};

// The boot id in `text`, or the kernel's where that is empty. Zeros when unknown.
BootId BootIdOf(const std::string& text);

}  // namespace gpulens
