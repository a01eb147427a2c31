// Appends to a RequestLog, and drops for space, age, and after delivery.

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "delivery/request_log_internal.h"

namespace gpulens {

Result<RequestLog::Kept> RequestLog::Append(std::string_view bytes, uint32_t items, Outcome outcome) {
  const Instant now = clock_.Now();
  Calls calls;
  Result<Kept> kept = Kept::kOnDisk;
  {
    std::lock_guard lock(mutex_);
    uint64_t largest = 0;
    for (const auto& reader : readers_)
      if (reader->attached) largest = std::max(largest, reader->bounds.max_bytes);
    if (largest == 0 || closed_) return Status{Code::kUnavailable, "the log has no reader"};
    const uint64_t size = bytes.size() + kRecordHeadBytes + kSegmentHeaderBytes;
    if (bytes.size() > kMaxRecordBytes || size > largest ||
        (options_.folder.empty() && size > options_.memory_bytes)) {
      for (const auto& reader : readers_) {
        if (reader->attached) CountDropped(*reader, RecordDropReason::kTooLarge, 1, items), Publish(*reader);
      }
      return Status{Code::kInvalidArgument,
                    "a record of " + std::to_string(bytes.size()) + " bytes is larger than the queue"};
    }
    for (const auto& reader : readers_) {
      DropOld(*reader, now);
      MakeRoom(*reader, size);
    }
    Trim(calls);
    Status status = AppendToDisk(bytes, items, now);
    if (!status) kept = AppendToMemory(bytes, items, now, status, std::move(outcome));
    Trim(calls);
    if (!options_.folder.empty()) {
      if (!status && disk_status_ && disk_)
        Log(LogLevel::kWarn, "delivery", "queue_in_memory", status.detail + ". The data is kept in memory.",
            options_.folder);
      if (disk_ && status && !disk_status_)
        Log(LogLevel::kInfo, "delivery", "queue_on_disk", "the folder can be used again", options_.folder);
      disk_status_ = std::move(status);
    }
    for (const auto& reader : readers_) Publish(*reader);
    PublishDisk();
    if (kept) NotifyAll(calls);
  }
  Run(calls);
  SyncIfDue(now);
  return kept;
}

Status RequestLog::AppendToDisk(std::string_view bytes, uint32_t items, Instant now) {
  if (!disk_) return options_.folder.empty() ? Status{Code::kUnavailable, "in memory"} : disk_status_;
  disk_->SkipTo(next_id_);
  const DiskLog::Segment last = disk_->segments().empty() ? DiskLog::Segment() : disk_->segments().back();
  Status status = disk_->Append(bytes, items, now);
  if (status.code == Code::kExhausted && !disk_->segments().empty()) {
    const uint64_t least = LeastLow();
    if (least >= disk_->segments().back().end_id) {
      disk_->Seal();  // delivered records need no space
      RemoveBelow(least);
      for (const auto& reader : readers_) RecountDisk(*reader);
      status = disk_->Append(bytes, items, now);
    }
  }
  if (!status) {
    if (disk_->folder().vanished()) AbandonDisk(status);
    return status;
  }
  next_id_ = disk_->next_id();
  const DiskLog::Segment& segment = disk_->segments().back();
  const bool same = segment.first_id == last.first_id;
  const LogTotals one{1, items, bytes.size() + kRecordHeadBytes};
  for (const auto& reader : readers_) {
    reader->on_disk.Add(one);
    reader->held_on_disk += segment.file_bytes - (same ? last.file_bytes : 0);
  }
  return Ok();
}

Result<RequestLog::Kept> RequestLog::AppendToMemory(std::string_view bytes, uint32_t items, Instant now,
                                                    const Status& why, Outcome outcome) {
  InMemory made{next_id_, std::string(bytes), items, {now.unix_ns, now.boot_ns, true}, std::move(outcome)};
  for (const auto& reader : readers_) made.readers += reader->attached;
  const uint64_t size = made.size();
  if (size > options_.memory_bytes) return why;
  if (made.outcome) {
    // Records that a sender still waits for are not dropped.
    uint64_t room = options_.memory_bytes - std::min(memory_used_, options_.memory_bytes);
    for (auto at = memory_.begin(); at != memory_.end() && room < size && !at->outcome; ++at)
      room += at->size();
    if (room < size) return Status{Code::kExhausted, "there is no space for undelivered data"};
  }
  while (memory_used_ + size > options_.memory_bytes && !memory_.empty()) {
    InMemory& oldest = memory_.front();
    for (const auto& reader : readers_) {
      if (reader->low <= oldest.id) reader->held_in_memory -= oldest.size();
      if (reader->ahead <= oldest.id) {
        CountDropped(*reader, RecordDropReason::kFull, 1, oldest.items);
        reader->in_memory.Subtract(oldest.totals());
      }
      for (Reader::InFlight& one : reader->in_flight) {
        if (one.id == oldest.id && !one.done && !one.dropped) one.dropped = RecordDropReason::kFull;
      }
    }
    if (!gone_.empty() && gone_.back().second == oldest.id) gone_.back().second = oldest.id + 1;
    else gone_.emplace_back(oldest.id, oldest.id + 1);
    memory_used_ -= oldest.size();
    if (oldest.outcome)
      late_.push_back(
          [outcome = std::move(oldest.outcome), status = oldest.outcome_status()] { outcome(status); });
    memory_.pop_front();
    for (const auto& reader : readers_) Moved(*reader);
  }
  ++next_id_;
  memory_used_ += size;
  memory_.push_back(std::move(made));
  for (const auto& reader : readers_) {
    reader->in_memory.Add({1, items, size});
    reader->held_in_memory += size;
  }
  return Kept::kInMemory;
}

RequestLog::~RequestLog() {
  for (const InMemory& one : memory_)
    if (one.outcome) one.outcome(one.outcome_status());
}

Status RequestLog::InMemory::outcome_status() const {
  if (delivered || (skips >= readers && readers != 0)) return Ok();
  return {Code::kExhausted, "it could not be written to disk, and no receiver accepted it"};
}

// All readers are past the ids below it. kNoId without readers.
uint64_t RequestLog::LeastLow() const {
  uint64_t least = kNoId;
  for (const auto& reader : readers_) least = std::min(least, reader->low);
  return least;
}

void RequestLog::MakeRoom(Reader& reader, uint64_t bytes) {
  while (reader.held() + bytes > reader.bounds.max_bytes && DropOldest(reader, RecordDropReason::kFull)) {
  }
}

// Moves the reader over its oldest segment or record in memory. False when there is none.
bool RequestLog::DropOldest(Reader& reader, RecordDropReason reason) {
  const DiskLog::Segment* segment = SegmentFrom(reader.low);
  const InMemory* memory = MemoryFrom(reader.low);
  if (!segment && !memory) return false;
  uint64_t end = 0;
  if (segment && (!memory || segment->first_id < memory->id)) {
    end = segment->end_id;
    if (end == disk_->next_id()) disk_->Seal();
  } else {
    end = memory->id + 1;
  }
  for (Reader::InFlight& one : reader.in_flight) {
    if (one.id < end && !one.done && !one.dropped) one.dropped = reason;
  }
  PassOver(reader, end, reason);
  Moved(reader);
  WritePosition(reader);
  RecountDisk(reader);
  if (disk_) RemoveBelow(LeastLow());
  return true;
}

void RequestLog::DropOld(Reader& reader, Instant now) {
  if (reader.bounds.max_age.count() <= 0) return;
  for (Reader::InFlight& one : reader.in_flight) {
    if (!one.done && !one.dropped && ages_.Of(one.stamp, now) > reader.bounds.max_age)
      one.dropped = RecordDropReason::kOld;
  }
  bool moved = false;
  while (Peek(reader)) {
    const InMemory* memory = reader.OnDisk() ? nullptr : MemoryFrom(reader.ahead);
    const RecordStamp stamp = memory ? memory->stamp : disk_->StampAt(reader.place, *reader.next);
    if (ages_.Of(stamp, now) <= reader.bounds.max_age) break;
    const LogTotals one = memory ? memory->totals() : TotalsOf(reader.next->head);
    CountDropped(reader, RecordDropReason::kOld, 1, one.items);
    Take(reader, one);
    moved = true;
  }
  Moved(reader);
  if (moved) WritePosition(reader);
}

// Closes removed files, which would still use space.
void RequestLog::RemoveBelow(uint64_t id) {
  disk_->RemoveBelow(id);
  const uint64_t first = disk_->segments().empty() ? kNoId : disk_->segments().front().first_id;
  for (const auto& reader : readers_) {
    if (reader->place.file && reader->place.segment < first) reader->place = {};
  }
}

// Removes records that all readers are past, and collects calls of their outcomes.
void RequestLog::Trim(Calls& calls) {
  const uint64_t all = LeastLow();
  uint64_t attached = kNoId;
  for (const auto& reader : readers_) {
    // Without a folder, only memory keeps records for a reader that returns.
    if (reader->attached || options_.folder.empty()) attached = std::min(attached, reader->low);
  }
  while (!memory_.empty() && memory_.front().id < attached) {
    InMemory& front = memory_.front();
    memory_used_ -= front.size();
    if (front.outcome)
      calls.push_back(
          [outcome = std::move(front.outcome), status = front.outcome_status()] { outcome(status); });
    memory_.pop_front();
  }
  calls.insert(calls.end(), std::move_iterator(late_.begin()), std::move_iterator(late_.end()));
  late_.clear();
  std::erase_if(gone_, [&](const auto& range) { return range.second <= all; });
  if (disk_ && all != kNoId) RemoveBelow(all);
}

// Syncs without mutex_, so that an Append of another thread does not wait.
void RequestLog::SyncIfDue(Instant now) {
  std::array<UniqueFd, 2> files;
  std::vector<UniqueFd> positions;
  {
    std::lock_guard lock(mutex_);
    if (!disk_) return;
    files = disk_->DueSync(now);
    if (!files[1]) return;
    for (const auto& reader : readers_)
      if (reader->position) positions.push_back(reader->position->Duplicate());
  }
  Status failed;
  for (const UniqueFd& file : files)
    if (file && ::fdatasync(file.get()) != 0) failed = ErrnoStatus("sync " + options_.folder, errno);
  for (const UniqueFd& file : positions)
    if (file && ::fdatasync(file.get()) != 0) failed = ErrnoStatus("sync " + options_.folder, errno);
  if (failed) return;
  std::lock_guard lock(mutex_);
  if (disk_) disk_->SyncFailed();
  disk_status_ = std::move(failed);
  PublishDisk();
}

}  // namespace gpulens
