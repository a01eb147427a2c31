#include "delivery/request_log.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "delivery/request_log_internal.h"

namespace gpulens {

const RequestLog::InMemory* RequestLog::MemoryFrom(uint64_t id) const {
  auto at = std::lower_bound(memory_.begin(), memory_.end(), id,
                             [](const InMemory& one, uint64_t wanted) { return one.id < wanted; });
  return at == memory_.end() ? nullptr : &*at;
}

const DiskLog::Segment* RequestLog::SegmentFrom(uint64_t id) const {
  if (!disk_) return nullptr;
  const auto& segments = disk_->segments();
  auto at = std::upper_bound(
      segments.begin(), segments.end(), id,
      [](uint64_t wanted, const DiskLog::Segment& segment) { return wanted < segment.end_id; });
  return at == segments.end() ? nullptr : &*at;
}

LogTotals& RequestLog::TakenFrom(Reader& reader, const DiskLog::Segment& segment) {
  if (reader.taken_segment != segment.first_id) {
    SettleItems(reader);
    reader.taken_segment = segment.first_id;
    reader.taken = disk_->CountBelow(segment, std::min(reader.ahead, segment.end_id));
  }
  return reader.taken;
}

// Counts the items of damaged records of the segment that the reader leaves.
void RequestLog::SettleItems(Reader& reader) {
  const DiskLog::Segment* left = SegmentFrom(reader.taken_segment);
  if (!left || left->first_id != reader.taken_segment || left->end_id > reader.ahead) return;
  if (left->all.items > reader.taken.items)
    CountDropped(reader, RecordDropReason::kDamaged, 0, left->all.items - reader.taken.items);
  reader.taken = left->all;
}

void RequestLog::CountDropped(Reader& reader, RecordDropReason reason, uint64_t records, uint64_t items) {
  reader.dropped_records[static_cast<size_t>(reason)] += records;
  reader.dropped_items[static_cast<size_t>(reason)] += items;
}

bool RequestLog::IsGone(uint64_t id) const {
  return std::ranges::any_of(gone_,
                             [id](const auto& range) { return range.first <= id && id < range.second; });
}

// Skips the ids from `ahead` to before `end`. Records that exist count as dropped for `reason`, others as
// damaged.
void RequestLog::PassOver(Reader& reader, uint64_t end, RecordDropReason reason) {
  while (reader.ahead < end) {
    const DiskLog::Segment* segment = SegmentFrom(reader.ahead);
    const InMemory* memory = MemoryFrom(reader.ahead);
    uint64_t there = end;
    if (segment) there = std::min(there, std::max(segment->first_id, reader.ahead));
    if (memory) there = std::min(there, memory->id);
    if (there > reader.ahead) {
      uint64_t missing = there - reader.ahead - reader.MarkedIn(reader.ahead, there);
      for (const auto& [from, to] : gone_) {  // counted before
        const uint64_t first = std::max(from, reader.ahead), last = std::min(to, there);
        if (first < last) missing -= last - first - reader.MarkedIn(first, last);
      }
      if (there - reader.ahead < kNumbersASecond)
        CountDropped(reader, RecordDropReason::kDamaged, missing, 0);
      reader.ahead = there;
    } else if (memory && memory->id == reader.ahead) {
      CountDropped(reader, reason, 1, memory->items);
      reader.in_memory.Subtract(memory->totals());
      ++reader.ahead;
    } else {
      LogTotals& taken = TakenFrom(reader, *segment);
      const uint64_t stop = std::min(segment->end_id, end);
      const uint64_t ids = stop - reader.ahead - reader.MarkedIn(reader.ahead, stop);
      LogTotals rest = segment->all;
      rest.Subtract(taken);
      if (stop == segment->end_id) {
        const uint64_t known = std::min(rest.records, ids);
        CountDropped(reader, reason, known, rest.items);
        CountDropped(reader, RecordDropReason::kDamaged, ids - known, 0);
        reader.on_disk.Subtract(rest);
        taken = segment->all;
      } else {
        // Damaged heads: their items are counted at the end of the segment.
        CountDropped(reader, RecordDropReason::kDamaged, ids, 0);
        const LogTotals unknown{std::min(rest.records, ids), 0, 0};
        reader.on_disk.Subtract(unknown);
        taken.Add(unknown);
      }
      reader.ahead = stop;
    }
  }
}

// Whether there is a record at `ahead`, on disk or in memory. Passes missing and done records.
bool RequestLog::Peek(Reader& reader) {
  while (true) {
    if (reader.ahead >= reader.jump_from && reader.ahead < reader.jump_to) {
      reader.ahead = reader.jump_to;
      RecountMemory(reader);
      RecountDisk(reader);
    }
    if (reader.next && reader.next->head.id < reader.ahead) reader.next.reset();
    const InMemory* memory = MemoryFrom(reader.ahead);
    const bool in_memory = memory && memory->id == reader.ahead;
    if (reader.OnDisk() || in_memory) {
      if (!reader.MarkedDone(reader.ahead)) return true;
      if (in_memory) Take(reader, memory->totals());
      else Take(reader, TotalsOf(reader.next->head));
      Moved(reader);
      continue;
    }
    if (!reader.next && disk_) {
      auto found = disk_->Find(reader.place, reader.ahead);
      if (!found) {
        access_status_ = found.error();
        return false;
      }
      access_status_ = Ok();
      reader.next = *found;
    }
    uint64_t id =
        std::min({reader.next ? reader.next->head.id : kNoId, memory ? memory->id : kNoId, next_id_});
    if (reader.ahead < reader.jump_from && id > reader.jump_from) id = std::min(id, reader.jump_from);
    if (id == reader.ahead) {
      if (id == next_id_) return false;
      continue;
    }
    PassOver(reader, id, RecordDropReason::kDamaged);
    Moved(reader);
    WritePosition(reader);  // so that the next process does not count them again
  }
}

// Moves past the record at `ahead`.
void RequestLog::Take(Reader& reader, const LogTotals& one) {
  if (reader.OnDisk()) {
    if (const DiskLog::Segment* segment = SegmentFrom(reader.ahead)) TakenFrom(reader, *segment).Add(one);
    reader.on_disk.Subtract(one);
  } else {
    reader.in_memory.Subtract(one);
  }
  ++reader.ahead;
}

// Updates `low` after records were done.
void RequestLog::Moved(Reader& reader) {
  uint64_t low = reader.ahead;
  for (const Reader::InFlight& one : reader.in_flight) {
    if (!one.done && !one.dropped) low = std::min(low, one.id);
  }
  for (auto at = std::lower_bound(memory_.begin(), memory_.end(), reader.low,
                                  [](const InMemory& one, uint64_t id) { return one.id < id; });
       at != memory_.end() && at->id < low; ++at)
    reader.held_in_memory -= at->size();
  const bool back = low < reader.low;
  reader.low = low;
  if (low > reader.mask_from + 64) reader.mask = 0;
  std::erase_if(reader.in_flight, [&](const Reader::InFlight& one) { return one.done && one.id < low; });
  if (back) RecountMemory(reader);
  if (disk_ && (back || low >= reader.segment_end)) RecountDisk(reader);
}

void RequestLog::RecountDisk(Reader& reader) {
  reader.on_disk = {};
  reader.held_on_disk = reader.segment_end = 0;
  if (!disk_) return;
  SettleItems(reader);
  for (const DiskLog::Segment& segment : disk_->segments()) {
    if (segment.end_id <= reader.low) continue;
    if (reader.segment_end == 0) reader.segment_end = segment.end_id;
    reader.held_on_disk += segment.file_bytes;
    if (segment.end_id <= reader.ahead) continue;
    LogTotals rest = segment.all;
    if (segment.first_id < reader.ahead) rest.Subtract(TakenFrom(reader, segment));
    reader.on_disk.Add(rest);
  }
}

void RequestLog::RecountMemory(Reader& reader) {
  reader.in_memory = {};
  reader.held_in_memory = 0;
  for (const InMemory& one : memory_) {
    if (one.id >= reader.low) reader.held_in_memory += one.size();
    if (one.id >= reader.ahead) reader.in_memory.Add(one.totals());
  }
}

void RequestLog::WritePosition(Reader& reader) {
  if (!reader.position || !disk_) return;
  const uint64_t done = reader.DoneMask();
  if (reader.position->last() == reader.low && reader.position->done() == done) return;
  Status status = reader.position->Write(reader.low, done);
  if (status && options_.sync == SyncPolicy::kAlways) status = reader.position->Sync();
  disk_->MarkDirty();
  access_status_ = std::move(status);
}

// Updates the stats after each access, under mutex_. `ready`: whether Next has a record; nothing: unknown.
void RequestLog::Publish(Reader& reader, std::optional<bool> ready) {
  if (!reader.attached) return;
  const bool there = ready.value_or(Peek(reader));
  std::optional<RecordStamp> oldest;
  LogTotals all = reader.on_disk;
  all.Add(reader.in_memory);
  for (const Reader::InFlight& one : reader.in_flight) {
    if (one.done || one.dropped) continue;
    if (!oldest) oldest = one.stamp;
    all.Add({1, one.items, one.bytes});
  }
  if (!oldest && there) {
    const InMemory* memory = reader.OnDisk() ? nullptr : MemoryFrom(reader.ahead);
    if (!memory) oldest = disk_->StampAt(reader.place, *reader.next);
    else oldest = memory->stamp;
  }
  LogDrops(reader);
  PublishDisk();
  std::lock_guard lock(state_mutex_);
  reader.shown = {.records = all.records,
                  .items = all.items,
                  .bytes = all.bytes,
                  .held_bytes = reader.held(),
                  .max_bytes = reader.bounds.max_bytes,
                  .oldest_age = {},
                  .dropped_records = reader.dropped_records,
                  .dropped_items = reader.dropped_items};
  reader.oldest = oldest;
  reader.ready = there && reader.in_flight.size() < LogReader::kMaxInFlight;
}

void RequestLog::LogDrops(Reader& reader) {
  for (size_t i = 0; i < kRecordDropReasons; ++i) {
    const uint64_t records = reader.dropped_records[i] - reader.logged_records[i],
                   items = reader.dropped_items[i] - reader.logged_items[i];
    if (records == 0 && items == 0) continue;
    const std::string where = options_.folder.empty() ? "a queue in memory" : "the queue " + options_.folder;
    Log(LogLevel::kWarn, "delivery", RecordDropReasonName(static_cast<RecordDropReason>(i)),
        where + " lost " + std::to_string(records) + " records for " + reader.name + ", " +
            std::to_string(items) + " items in them",
        where + reader.name);
  }
  reader.logged_records = reader.dropped_records;
  reader.logged_items = reader.dropped_items;
}

LogReader::LogReader(std::shared_ptr<RequestLog> log, RequestLog::Reader* reader)
    : log_(std::move(log)), reader_(reader) {}

LogReader::~LogReader() {
  Rewind();
  RequestLog::Calls calls;
  {
    std::lock_guard lock(log_->mutex_);
    reader_->attached = false;
    reader_->on_ready = nullptr;
    log_->WritePosition(*reader_);  // if an earlier write failed
    reader_->place = {};
    reader_->next.reset();
    if (reader_->leaves) log_->ForgetReader(*reader_);  // immediately: a log without readers may be closed
    log_->Trim(calls);
  }
  RequestLog::Run(calls);
}

std::optional<LogRecord> LogReader::Next() {
  std::lock_guard lock(log_->mutex_);
  RequestLog::Reader& reader = *reader_;
  if (reader.in_flight.size() >= kMaxInFlight) return std::nullopt;
  log_->DropOld(reader, log_->clock_.Now());
  std::optional<LogRecord> record;
  while (!record && log_->Peek(reader)) {
    record.emplace();
    RequestLog::Reader::InFlight one;
    if (reader.OnDisk()) {
      const RecordHead& head = reader.next->head;
      Status read = log_->disk_->Read(reader.place, *reader.next, record->bytes);
      one = {head.id, head.items, head.size(), log_->disk_->StampAt(reader.place, *reader.next), false, {}};
      if (!read) {
        log_->CountDropped(reader, RecordDropReason::kDamaged, 1, head.items);
        log_->Take(reader, {1, one.items, one.bytes});
        log_->Moved(reader);
        log_->WritePosition(reader);
        record.reset();
        continue;
      }
    } else {
      const RequestLog::InMemory& memory = *log_->MemoryFrom(reader.ahead);
      one = {memory.id, memory.items, memory.size(), memory.stamp, false, {}};
      record->bytes = memory.bytes;
      record->once = memory.outcome != nullptr;
    }
    record->id = one.id;
    record->items = static_cast<uint32_t>(one.items);
    record->appended_unix_ns = one.stamp.unix_ns;
    reader.in_flight.push_back(one);
    log_->Take(reader, {1, one.items, one.bytes});
  }
  log_->Publish(reader);
  return record;
}

bool LogReader::IsPending(uint64_t id) {
  std::lock_guard lock(log_->mutex_);
  log_->DropOld(*reader_, log_->clock_.Now());
  for (const auto& one : reader_->in_flight) {
    if (one.id == id) return !one.dropped;
  }
  return false;
}

void LogReader::Done(uint64_t id, bool delivered) { End(id, delivered ? Fate::kDelivered : Fate::kFailed); }

void LogReader::Skip(uint64_t id) { End(id, Fate::kSkipped); }

void LogReader::End(uint64_t id, Fate fate) {
  RequestLog::Calls calls;
  const Instant now = log_->clock_.Now();
  {
    std::lock_guard lock(log_->mutex_);
    auto& in_flight = reader_->in_flight;
    auto at = std::ranges::find_if(in_flight, [&](const auto& one) { return one.id == id; });
    if (at == in_flight.end()) return;
    auto* memory = const_cast<RequestLog::InMemory*>(log_->MemoryFrom(id));
    if (memory && memory->id == id) {
      memory->delivered |= fate == Fate::kDelivered;
      memory->skips += fate == Fate::kSkipped;
      // One delivery is enough; other readers may have a backlog.
      if (fate == Fate::kDelivered && memory->outcome)
        calls.push_back([outcome = std::exchange(memory->outcome, nullptr)] { outcome(Ok()); });
    }
    if (at->dropped) in_flight.erase(at);
    else at->done = true;
    log_->Moved(*reader_);
    log_->WritePosition(*reader_);
    log_->Trim(calls);
    log_->Publish(*reader_);
  }
  RequestLog::Run(calls);
  log_->SyncIfDue(now);
}

void LogReader::GiveUp(uint64_t id) {
  {
    std::lock_guard lock(log_->mutex_);
    for (const auto& one : reader_->in_flight) {
      if (one.id == id && !one.done)
        log_->CountDropped(*reader_, one.dropped.value_or(RecordDropReason::kNotKept), 1, one.items);
    }
  }
  Done(id, false);
}

void LogReader::Rewind() {
  std::lock_guard lock(log_->mutex_);
  RequestLog::Reader& reader = *reader_;
  const uint64_t mask = reader.DoneMask();
  for (const auto& one : reader.in_flight) {
    if (one.dropped) log_->CountDropped(reader, *one.dropped, 1, one.items);
    else if (!one.done && log_->IsGone(one.id))
      log_->CountDropped(reader, RecordDropReason::kDamaged, 1, one.items);
    else if (!one.done && one.id >= reader.jump_from && one.id < reader.jump_to) reader.jump_to = one.id;
  }
  reader.mask_from = reader.low;
  reader.mask = mask;
  reader.in_flight.clear();
  reader.ahead = reader.low;
  reader.place = {};
  reader.next.reset();
  reader.taken_segment = 0;
  log_->RecountDisk(reader);
  log_->RecountMemory(reader);
  log_->Publish(reader);
}

void LogReader::SetBounds(const ReaderBounds& bounds) {
  RequestLog::Calls calls;
  {
    std::lock_guard lock(log_->mutex_);
    reader_->bounds = bounds;
    log_->MakeRoom(*reader_, 0);
    log_->Trim(calls);
    log_->Publish(*reader_);
  }
  RequestLog::Run(calls);
}

void LogReader::ForgetOnDetach() {
  std::lock_guard lock(log_->mutex_);
  reader_->leaves = true;
}

bool LogReader::HasRoom(uint64_t bytes) const {
  std::lock_guard lock(log_->state_mutex_);
  return reader_->shown.held_bytes + bytes <= reader_->shown.max_bytes / 4 * 3;
}

LogReader::Stats LogReader::stats() const {
  const Instant now = log_->clock_.Now();
  std::lock_guard lock(log_->state_mutex_);
  Stats stats = reader_->shown;
  if (reader_->oldest) stats.oldest_age = log_->ages_.Of(*reader_->oldest, now);
  return stats;
}

bool LogReader::ready() const {
  std::lock_guard lock(log_->state_mutex_);
  return reader_->ready;
}

const std::string& LogReader::name() const noexcept { return reader_->name; }

}  // namespace gpulens
