// The files of a request log: segments that only grow at their end and are removed as a whole.
//
// Ids are consecutive over all segments, and a segment's name is the id of its first record, so what is
// missing is known by its id, however the files look. Who has read what is not known here: request_log.h. In
// memory are the segments (96 bytes each) and one writer: no record, no index of records.
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
#include "delivery/record_age.h"
#include "delivery/segment_file.h"

namespace gpulens {

struct LogTotals {
  uint64_t records = 0, items = 0, bytes = 0;

  void Add(const LogTotals& other) noexcept;
  void Subtract(const LogTotals& other) noexcept;  // never below zero
};

// Where one reader stands in the files. Of one DiskLog, until it is closed.
struct DiskPlace {
  std::optional<SegmentReader> file;
  uint64_t segment = 0;  // the first id of the one that is open
};

// Not thread-safe.
class DiskLog {
 public:
  struct Segment {
    uint64_t first_id = 0, end_id = 0;
    uint64_t file_bytes = 0;
    LogTotals all;  // with whole heads
    bool readable = true;
  };

  // Takes over what is in the folder. Reads the heads of all records in it, no bodies. Ids go on behind what
  // is there, and not below `least_id`. kUnavailable when another process has the folder.
  static Result<std::unique_ptr<DiskLog>> Open(const RequestLogOptions& options, uint64_t least_id,
                                               Instant now);
  ~DiskLog();

  // The record gets next_id(). After an error nothing was taken.
  Status Append(std::string_view bytes, uint32_t items, Instant now);
  uint64_t next_id() const noexcept { return next_id_; }
  // Ids below are somewhere else.
  void SkipTo(uint64_t id);
  const std::deque<Segment>& segments() const noexcept { return segments_; }
  // Ids of segments whose header was found destroyed, and that go on from next_id(), are not used again:
  // readers find that they are missing.
  void SkipDestroyed();
  // The next Append begins a new segment.
  void Seal();
  // Removes the segments all of whose ids are below. One that grows is kept while it is small.
  void RemoveBelow(uint64_t id);

  // The first record from `from` on, whose head is whole. Nothing when there is none; not ok: what is there
  // cannot be read just now.
  Result<std::optional<SegmentReader::Record>> Find(DiskPlace& place, uint64_t from);
  // Of the record that Find found last. kDataLoss when it is not what was written.
  Status Read(DiskPlace& place, const SegmentReader::Record& record, std::string& bytes);
  RecordStamp StampAt(const DiskPlace& place, const SegmentReader::Record& record) const noexcept;
  // What the segment holds before `id`.
  LogTotals CountBelow(const Segment& segment, uint64_t id) const;

  // Files whose sync is due by the policy kInterval. The caller syncs them, without holding up the others,
  // and says when it failed.
  std::array<UniqueFd, 2> DueSync(Instant now);
  // That something besides segments has to be synced.
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
  std::vector<std::pair<uint64_t, uint64_t>> destroyed_;  // first and end, as far as one can guess
  int64_t synced_boot_ns_ = 0;
  bool dirty_ = false;
};

// The machine's start as a number: from its text, or from the kernel where that is empty. Zeros when unknown.
BootId BootIdOf(const std::string& text);

}  // namespace gpulens
