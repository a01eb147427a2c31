#include "delivery/request_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "delivery/segments/position_file.h"

namespace gpulens {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
// A log that begins without its folder cannot know which ids were used there. It numbers from the seconds of
// wall time times this, and a gap as large is no loss.
constexpr uint64_t kNumbersASecond = uint64_t{1} << 30;

// "otlp/b" is in the file "position.otlp.b".
std::string PositionName(const std::string& reader, const std::string& owner) {
  if (reader == owner) return kPositionName;
  std::string name = std::string(kPositionName) + "." + reader;
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

std::string ReaderOf(const std::string& file, const std::string& owner) {
  if (file == kPositionName) return owner;
  std::string name = file.substr(std::min(file.size(), std::string_view(kPositionName).size() + 1));
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

}  // namespace

struct RequestLog::Reader {
  struct UnderWay {
    uint64_t id = 0, items = 0, bytes = 0;
    RecordStamp stamp;
    bool done = false;
    std::optional<RecordLoss> lost;  // dropped meanwhile; it counts only if it is not delivered
  };

  std::string name;
  bool attached = false, leaves = false;
  ReaderBounds bounds;
  std::function<void()> on_ready;
  std::optional<PositionFile> position;
  uint64_t low = 1;    // all ids below are done
  uint64_t ahead = 1;  // all ids below are done or under way
  std::vector<UnderWay> under_way;
  // Of the position that was taken up: bit i says that mask_from + 1 + i is done.
  uint64_t mask_from = 0, mask = 0;
  // Ids that were given out while the folder could not be used: not again.
  uint64_t jump_from = 0, jump_to = 0;

  DiskPlace place;
  std::optional<SegmentReader::Record> next;  // the first on disk from `ahead` on, where it is known
  uint64_t taken_segment = 0;                 // `taken` is what was given out of it
  LogTotals taken;
  LogTotals on_disk, in_memory;                   // not given out
  uint64_t held_on_disk = 0, held_in_memory = 0;  // of the files and the memory from `low` on
  uint64_t segment_end = 0;                       // of the segment that holds `low`
  std::array<uint64_t, kRecordLosses> lost_records{}, lost_items{}, logged_records{}, logged_items{};

  // Under state_mutex_.
  LogReader::Stats shown;
  std::optional<RecordStamp> oldest;
  bool ready = false;

  bool OnDisk() const noexcept { return next && next->head.id == ahead; }
  uint64_t held() const noexcept { return held_on_disk + held_in_memory; }
  bool IsUnderWay(uint64_t id) const noexcept {
    return std::any_of(under_way.begin(), under_way.end(),
                       [id](const UnderWay& one) { return one.id == id && !one.done && !one.lost; });
  }
  bool MarkedDone(uint64_t id) const noexcept {
    return mask != 0 && id > mask_from && id - mask_from <= 64 && ((mask >> (id - mask_from - 1)) & 1) != 0;
  }
  uint64_t MarkedIn(uint64_t from, uint64_t to) const noexcept {
    uint64_t count = 0;
    if (mask == 0) return 0;
    for (uint64_t id = std::max(from, mask_from + 1); id < std::min(to, mask_from + 65); ++id)
      count += MarkedDone(id);
    return count;
  }
  // Of the 64 ids behind `low`: what was given out and is not under way is done, or lost and counted.
  uint64_t DoneMask() const noexcept {
    uint64_t bits = 0;
    if (ahead <= low + 1 && mask == 0) return bits;
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t id = low + 1 + i;
      if (id < ahead ? !IsUnderWay(id) : MarkedDone(id)) bits |= uint64_t{1} << i;
    }
    return bits;
  }
};

RequestLog::RequestLog(RequestLogOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), ages_(clock.Now()) {}

RequestLog::~RequestLog() = default;

std::shared_ptr<RequestLog> RequestLog::Open(RequestLogOptions options, const Clock& clock) {
  std::shared_ptr<RequestLog> log(new RequestLog(std::move(options), clock));
  if (!log->options_.folder.empty()) {
    std::lock_guard lock(log->mutex_);
    log->OpenDisk(clock.Now());
    log->PublishDisk();
  }
  return log;
}

// --- The folder ---

void RequestLog::OpenDisk(Instant now) {
  tried_boot_ns_ = now.boot_ns;
  const bool first = next_id_ == 1;
  auto opened = DiskLog::Open(options_, next_id_, now);
  std::vector<std::string> positions;
  Status status = opened ? Ok() : opened.error();
  if (opened) {
    auto listed = (*opened)->folder().ListPositions();
    if (listed) positions = *std::move(listed);
    else status = listed.error();
  }
  if (!status) {
    if (disk_status_) {
      Log(LogLevel::kWarn, "delivery", "queue_in_memory",
          status.detail + ". What waits is kept in memory, at most " + std::to_string(options_.memory_bytes) +
              " bytes, until the folder can be used.",
          options_.folder);
    }
    disk_status_ = std::move(status);
    if (!first) return;
    next_id_ = static_cast<uint64_t>(std::max<int64_t>(now.unix_ns / 1'000'000'000, 1)) * kNumbersASecond;
    first_away_ = next_id_;
    return;
  }
  disk_ = *std::move(opened);
  if (!disk_status_)
    Log(LogLevel::kInfo, "delivery", "queue_on_disk", "the folder can be used again", options_.folder);
  disk_status_ = Ok();
  for (const std::string& file : positions) {
    const std::string name = ReaderOf(file, options_.owner);
    if (name.empty() || Find(name)) continue;
    readers_.push_back(std::make_unique<Reader>());
    readers_.back()->name = name;
    readers_.back()->bounds.max_bytes = options_.max_bytes;
    readers_.back()->low = readers_.back()->ahead = 0;  // as its position says
  }
  for (const auto& reader : readers_) {
    if (Status opened_position = OpenPosition(*reader); !opened_position) disk_status_ = opened_position;
    if (reader->position) disk_->SkipTo(reader->position->last().value_or(0));
  }
  disk_->SkipDestroyed();
  next_id_ = disk_->next_id();
  for (const auto& reader : readers_) TakeUp(*reader);
  first_away_ = 0;
}

Status RequestLog::OpenPosition(Reader& reader) {
  const std::string name = PositionName(reader.name, options_.owner);
  auto file = PositionFile::Open(disk_->folder().fd(), name, disk_->boot_id());
  if (file && file->foreign()) {
    RETURN_IF_ERROR(disk_->folder().SetAside(
        name.c_str(), "it does not say how far was delivered; what is here is sent again"));
    file = PositionFile::Open(disk_->folder().fd(), name, disk_->boot_id());
    // As if it had never been written: from the beginning, also for a reader that is not the owner.
    const auto& segments = disk_->segments();
    if (file)
      RETURN_IF_ERROR(file->Write(segments.empty() ? disk_->next_id() : segments.front().first_id, 0));
  }
  if (!file) return file.error();
  reader.position.emplace(*std::move(file));
  return Ok();
}

// Where the reader goes on in the files. What it was given from memory since the folder went away is not
// given out again.
void RequestLog::TakeUp(Reader& reader) {
  const uint64_t first = disk_->segments().empty() ? disk_->next_id() : disk_->segments().front().first_id;
  const bool owner = reader.name == options_.owner;
  std::optional<uint64_t> last = reader.position ? reader.position->last() : std::nullopt;
  uint64_t from = last.value_or(owner ? first : next_id_);
  if (last && *last < first && !reader.position->of_this_boot()) {
    Log(LogLevel::kWarn, "delivery", "missing",
        "the first " + std::to_string(first - *last) +
            " records that were not known to be delivered are not here. They may have been delivered just "
            "before the machine went down.",
        options_.folder);
    from = first;
  }
  if (first_away_ != 0 && reader.ahead >= first_away_) {
    reader.jump_from = first_away_;
    reader.jump_to = reader.ahead;
    from = std::min(from, reader.ahead);
    if (from >= first_away_) from = reader.ahead;
  }
  reader.mask_from = last.value_or(0);
  reader.mask = reader.position ? reader.position->done() : 0;
  reader.ahead = from;
  reader.place = {};
  reader.next.reset();
  reader.taken_segment = 0;
  Moved(reader);
  WritePosition(reader);
  RecountDisk(reader);
  RecountMemory(reader);
  if (reader.on_disk.records > 0)
    Log(LogLevel::kInfo, "delivery", "taken_over",
        std::to_string(reader.on_disk.records) + " records of an earlier run wait for " + reader.name,
        options_.folder);
  Publish(reader);
}

// The folder is gone, with what was in it.
void RequestLog::LoseDisk(Status why) {
  for (const auto& reader : readers_) {
    for (const DiskLog::Segment& segment : disk_->segments()) {
      if (segment.end_id <= reader->ahead) continue;
      LogTotals rest = segment.all;
      rest.Subtract(TakenFrom(*reader, segment));
      Lose(*reader, RecordLoss::kDamaged, rest.records, rest.items);
    }
    reader->position.reset();
    reader->place = {};
    reader->next.reset();
    reader->taken_segment = 0;
  }
  for (const DiskLog::Segment& segment : disk_->segments())
    gone_.emplace_back(segment.first_id, segment.end_id);
  std::sort(gone_.begin(), gone_.end());
  disk_.reset();
  first_away_ = next_id_;
  disk_status_ = std::move(why);
  Log(LogLevel::kWarn, "delivery", "queue_in_memory",
      disk_status_.detail + ". What waits is kept in memory, at most " +
          std::to_string(options_.memory_bytes) + " bytes, until the folder can be used.",
      options_.folder);
  for (const auto& reader : readers_) RecountDisk(*reader), Publish(*reader);
}

// Whether the folder is still there, or is there again.
void RequestLog::CheckFolder(Instant now) {
  if (options_.folder.empty() || closed_) return;
  if (disk_ && disk_->folder().vanished())
    LoseDisk({Code::kUnavailable, "the folder " + options_.folder + " was removed"});
  if (!disk_) OpenDisk(now);
  tried_boot_ns_ = now.boot_ns;
  if (!disk_) return;
  // A reader's position that somebody removed says that it will not come back.
  std::erase_if(readers_, [&](const auto& reader) {
    return !reader->attached && !disk_->folder().Has(PositionName(reader->name, options_.owner).c_str());
  });
}

RequestLog::Reader* RequestLog::Find(const std::string& name) const {
  for (const auto& reader : readers_) {
    if (reader->name == name) return reader.get();
  }
  return nullptr;
}

// --- In at the end ---

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
        if (reader->attached) Lose(*reader, RecordLoss::kTooLarge, 1, items), Publish(*reader);
      }
      return Status{Code::kInvalidArgument,
                    "a record of " + std::to_string(bytes.size()) + " bytes is larger than the queue"};
    }
    for (const auto& reader : readers_) {
      LoseOld(*reader, now);
      MakeRoom(*reader, size);
    }
    Trim(calls);
    Status status = AppendToDisk(bytes, items, now);
    if (!status) kept = AppendToMemory(bytes, items, now, status, std::move(outcome));
    Trim(calls);
    if (!options_.folder.empty()) {
      if (!status && disk_status_ && disk_)
        Log(LogLevel::kWarn, "delivery", "queue_in_memory", status.detail + ". It is kept in memory.",
            options_.folder);
      if (disk_ && status && !disk_status_)
        Log(LogLevel::kInfo, "delivery", "queue_on_disk", "the folder can be used again", options_.folder);
      disk_status_ = std::move(status);
    }
    for (const auto& reader : readers_) Publish(*reader);
    PublishDisk();
    if (kept) NotifyAll(calls);
  }
  for (const auto& call : calls) call();
  SyncIfDue(now);
  return kept;
}

Status RequestLog::AppendToDisk(std::string_view bytes, uint32_t items, Instant now) {
  if (!disk_) return options_.folder.empty() ? Status{Code::kUnavailable, "in memory"} : disk_status_;
  disk_->SkipTo(next_id_);
  const DiskLog::Segment last = disk_->segments().empty() ? DiskLog::Segment() : disk_->segments().back();
  Status status = disk_->Append(bytes, items, now);
  if (status.code == Code::kExhausted && !disk_->segments().empty()) {
    uint64_t least = kNone;
    for (const auto& reader : readers_) least = std::min(least, reader->low);
    if (least >= disk_->segments().back().end_id) {
      disk_->Seal();  // what is delivered need not hold the room
      RemoveBelow(least);
      for (const auto& reader : readers_) RecountDisk(*reader);
      status = disk_->Append(bytes, items, now);
    }
  }
  if (!status) {
    if (disk_->folder().vanished()) LoseDisk(status);
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
  const uint64_t size = made.size();
  if (size > options_.memory_bytes) return why;
  if (made.outcome && memory_used_ + size > options_.memory_bytes)
    return Status{Code::kExhausted, "there is no room for what is not delivered yet"};
  while (memory_used_ + size > options_.memory_bytes && !memory_.empty()) {
    InMemory& oldest = memory_.front();
    for (const auto& reader : readers_) {
      if (reader->low <= oldest.id) reader->held_in_memory -= oldest.size();
      if (reader->ahead <= oldest.id) {
        Lose(*reader, RecordLoss::kFull, 1, oldest.items);
        reader->in_memory.Subtract({1, oldest.items, oldest.size()});
      }
      for (Reader::UnderWay& one : reader->under_way) {
        if (one.id == oldest.id && !one.done && !one.lost) one.lost = RecordLoss::kFull;
      }
    }
    if (!gone_.empty() && gone_.back().second == oldest.id) gone_.back().second = oldest.id + 1;
    else gone_.emplace_back(oldest.id, oldest.id + 1);
    memory_used_ -= oldest.size();
    if (oldest.outcome) late_.push_back(std::move(oldest.outcome));
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

void RequestLog::MakeRoom(Reader& reader, uint64_t bytes) {
  while (reader.held() + bytes > reader.bounds.max_bytes && DropOldest(reader, RecordLoss::kFull)) {
  }
}

// Moves the reader over the oldest segment, or record in memory, that it is not past. False: there is none.
bool RequestLog::DropOldest(Reader& reader, RecordLoss reason) {
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
  for (Reader::UnderWay& one : reader.under_way) {
    if (one.id < end && !one.done && !one.lost) one.lost = reason;
  }
  PassOver(reader, end, reason);
  Moved(reader);
  WritePosition(reader);
  RecountDisk(reader);
  if (disk_) {
    uint64_t least = kNone;
    for (const auto& other : readers_) least = std::min(least, other->low);
    RemoveBelow(least);
  }
  return true;
}

// --- Out, for one reader ---

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

// What damage took from the segment that the reader leaves: the items of records whose heads are gone.
void RequestLog::SettleItems(Reader& reader) {
  const DiskLog::Segment* left = SegmentFrom(reader.taken_segment);
  if (!left || left->first_id != reader.taken_segment || left->end_id > reader.ahead) return;
  if (left->all.items > reader.taken.items)
    Lose(reader, RecordLoss::kDamaged, 0, left->all.items - reader.taken.items);
  reader.taken = left->all;
}

void RequestLog::Lose(Reader& reader, RecordLoss reason, uint64_t records, uint64_t items) {
  reader.lost_records[static_cast<size_t>(reason)] += records;
  reader.lost_items[static_cast<size_t>(reason)] += items;
}

// All ids from `ahead` to below `end` are not given out: they are lost, for `reason` where the record is
// there, else as damaged.
void RequestLog::PassOver(Reader& reader, uint64_t end, RecordLoss reason) {
  while (reader.ahead < end) {
    const DiskLog::Segment* segment = SegmentFrom(reader.ahead);
    const InMemory* memory = MemoryFrom(reader.ahead);
    uint64_t there = end;
    if (segment) there = std::min(there, std::max(segment->first_id, reader.ahead));
    if (memory) there = std::min(there, memory->id);
    if (there > reader.ahead) {
      uint64_t missing = there - reader.ahead - reader.MarkedIn(reader.ahead, there);
      for (const auto& [from, to] : gone_) {  // those are counted already
        const uint64_t first = std::max(from, reader.ahead), last = std::min(to, there);
        if (first < last) missing -= last - first;
      }
      if (there - reader.ahead < kNumbersASecond) Lose(reader, RecordLoss::kDamaged, missing, 0);
      reader.ahead = there;
    } else if (memory && memory->id == reader.ahead) {
      Lose(reader, reason, 1, memory->items);
      reader.in_memory.Subtract({1, memory->items, memory->size()});
      ++reader.ahead;
    } else {
      LogTotals& taken = TakenFrom(reader, *segment);
      const uint64_t stop = std::min(segment->end_id, end);
      const uint64_t ids = stop - reader.ahead - reader.MarkedIn(reader.ahead, stop);
      LogTotals rest = segment->all;
      rest.Subtract(taken);
      if (stop == segment->end_id) {
        const uint64_t known = std::min(rest.records, ids);
        Lose(reader, reason, known, rest.items);
        Lose(reader, RecordLoss::kDamaged, ids - known, 0);
        reader.on_disk.Subtract(rest);
        taken = segment->all;
      } else {
        // Heads that cannot be read: what was in them is counted at the end of the segment.
        Lose(reader, RecordLoss::kDamaged, ids, 0);
        const LogTotals unknown{std::min(rest.records, ids), 0, 0};
        reader.on_disk.Subtract(unknown);
        taken.Add(unknown);
      }
      reader.ahead = stop;
    }
  }
}

// Whether there is a record at `ahead`, on disk or in memory. Passes what is missing or was done before.
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
      if (in_memory) Take(reader, {1, memory->items, memory->size()});
      else Take(reader, {1, reader.next->head.items, reader.next->head.size()});
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
        std::min({reader.next ? reader.next->head.id : kNone, memory ? memory->id : kNone, next_id_});
    if (reader.ahead < reader.jump_from && id > reader.jump_from) id = std::min(id, reader.jump_from);
    if (id == reader.ahead) {
      if (id == next_id_) return false;
      continue;
    }
    PassOver(reader, id, RecordLoss::kDamaged);
    Moved(reader);
    WritePosition(reader);  // so that the next run does not count them again
  }
}

// The record at `ahead` is given out, or passed.
void RequestLog::Take(Reader& reader, const LogTotals& one) {
  if (reader.OnDisk()) {
    if (const DiskLog::Segment* segment = SegmentFrom(reader.ahead)) TakenFrom(reader, *segment).Add(one);
    reader.on_disk.Subtract(one);
  } else {
    reader.in_memory.Subtract(one);
  }
  ++reader.ahead;
}

void RequestLog::LoseOld(Reader& reader, Instant now) {
  if (reader.bounds.max_age.count() <= 0) return;
  for (Reader::UnderWay& one : reader.under_way) {
    if (!one.done && !one.lost && ages_.Of(one.stamp, now) > reader.bounds.max_age)
      one.lost = RecordLoss::kOld;
  }
  bool moved = false;
  while (Peek(reader)) {
    const InMemory* memory = reader.OnDisk() ? nullptr : MemoryFrom(reader.ahead);
    const RecordStamp stamp = memory ? memory->stamp : disk_->StampAt(reader.place, *reader.next);
    if (ages_.Of(stamp, now) <= reader.bounds.max_age) break;
    const LogTotals one = memory ? LogTotals{1, memory->items, memory->size()}
                                 : LogTotals{1, reader.next->head.items, reader.next->head.size()};
    Lose(reader, RecordLoss::kOld, 1, one.items);
    Take(reader, one);
    moved = true;
  }
  Moved(reader);
  if (moved) WritePosition(reader);
}

// `low` follows what is done.
void RequestLog::Moved(Reader& reader) {
  uint64_t low = reader.ahead;
  for (const Reader::UnderWay& one : reader.under_way) {
    if (!one.done && !one.lost) low = std::min(low, one.id);
  }
  for (auto at = std::lower_bound(memory_.begin(), memory_.end(), reader.low,
                                  [](const InMemory& one, uint64_t id) { return one.id < id; });
       at != memory_.end() && at->id < low; ++at)
    reader.held_in_memory -= at->size();
  const bool back = low < reader.low;
  reader.low = low;
  if (low > reader.mask_from + 64) reader.mask = 0;
  std::erase_if(reader.under_way, [&](const Reader::UnderWay& one) { return one.done && one.id < low; });
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
    if (one.id >= reader.ahead) reader.in_memory.Add({1, one.items, one.size()});
  }
}

void RequestLog::WritePosition(Reader& reader) {
  if (!reader.position || !disk_) return;
  const uint64_t done = reader.DoneMask();
  if (reader.position->last() == reader.low && reader.position->done() == done) return;
  Status status = reader.position->Write(reader.low, done);
  if (status && options_.sync == LogSync::kAlways) status = reader.position->Sync();
  disk_->MarkDirty();
  access_status_ = std::move(status);
}

// A file that is removed and still open would go on taking its room.
void RequestLog::RemoveBelow(uint64_t id) {
  disk_->RemoveBelow(id);
  const uint64_t first = disk_->segments().empty() ? kNone : disk_->segments().front().first_id;
  for (const auto& reader : readers_) {
    if (reader->place.file && reader->place.segment < first) reader->place = {};
  }
}

// What all are past goes; who waits for an outcome hears of it.
void RequestLog::Trim(Calls& calls) {
  uint64_t all = kNone, attached = kNone;
  for (const auto& reader : readers_) {
    all = std::min(all, reader->low);
    // Without a folder nothing but the memory keeps it for a reader that comes back.
    if (reader->attached || options_.folder.empty()) attached = std::min(attached, reader->low);
  }
  while (!memory_.empty() && memory_.front().id < attached) {
    InMemory& front = memory_.front();
    memory_used_ -= front.size();
    if (front.outcome) {
      Status status;
      const bool unwanted = !readers_.empty() && front.skips >= readers_.size();
      if (!front.delivered && !unwanted)
        status = {Code::kExhausted, "the disk cannot keep it, and no receiver took it"};
      calls.push_back([outcome = std::move(front.outcome), status] { outcome(status); });
    }
    memory_.pop_front();
  }
  for (Outcome& outcome : late_)
    calls.push_back([outcome = std::move(outcome)] {
      outcome({Code::kExhausted, "the disk cannot keep it, and no receiver took it in time"});
    });
  late_.clear();
  std::erase_if(gone_, [&](const auto& range) { return range.second <= all; });
  if (disk_ && all != kNone) RemoveBelow(all);
}

// --- What others see ---

// Under mutex_, after each access. `ready`: whether there is something to give out; nothing: look.
void RequestLog::Publish(Reader& reader, std::optional<bool> ready) {
  if (!reader.attached) return;
  const bool there = ready.value_or(Peek(reader));
  std::optional<RecordStamp> oldest;
  LogTotals all = reader.on_disk;
  all.Add(reader.in_memory);
  for (const Reader::UnderWay& one : reader.under_way) {
    if (one.done || one.lost) continue;
    if (!oldest) oldest = one.stamp;
    all.Add({1, one.items, one.bytes});
  }
  if (!oldest && there) {
    const InMemory* memory = reader.OnDisk() ? nullptr : MemoryFrom(reader.ahead);
    if (!memory) oldest = disk_->StampAt(reader.place, *reader.next);
    else oldest = memory->stamp;
  }
  LogLosses(reader);
  PublishDisk();
  std::lock_guard lock(state_mutex_);
  reader.shown.records = all.records;
  reader.shown.items = all.items;
  reader.shown.bytes = all.bytes;
  reader.shown.held_bytes = reader.held();
  reader.shown.max_bytes = reader.bounds.max_bytes;
  reader.shown.lost_records = reader.lost_records;
  reader.shown.lost_items = reader.lost_items;
  reader.oldest = oldest;
  reader.ready = there && reader.under_way.size() < LogReader::kMostUnderWay;
}

void RequestLog::PublishDisk() {
  std::lock_guard lock(state_mutex_);
  shown_disk_ = disk_status_ ? access_status_ : disk_status_;
}

void RequestLog::NotifyAll(Calls& calls) {
  for (const auto& reader : readers_) {
    if (reader->attached && reader->on_ready) calls.push_back(reader->on_ready);
  }
}

void RequestLog::LogLosses(Reader& reader) {
  for (size_t i = 0; i < kRecordLosses; ++i) {
    const uint64_t records = reader.lost_records[i] - reader.logged_records[i],
                   items = reader.lost_items[i] - reader.logged_items[i];
    if (records == 0 && items == 0) continue;
    const std::string where = options_.folder.empty() ? "a queue in memory" : "the queue " + options_.folder;
    Log(LogLevel::kWarn, "delivery", RecordLossName(static_cast<RecordLoss>(i)),
        where + " lost " + std::to_string(records) + " records for " + reader.name + ", " +
            std::to_string(items) + " items in them",
        where + reader.name);
  }
  reader.logged_records = reader.lost_records;
  reader.logged_items = reader.lost_items;
}

// Without mutex_ while the disk works: an Append of another thread need not wait for this.
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

Duration RequestLog::Maintain() {
  const Instant now = clock_.Now();
  SyncIfDue(now);
  Calls calls;
  {
    std::lock_guard lock(mutex_);
    if (!options_.folder.empty() && now.boot_ns - tried_boot_ns_ >= options_.retry_interval.count()) {
      CheckFolder(now);
      PublishDisk();
      NotifyAll(calls);
    }
    for (const auto& reader : readers_) {
      LoseOld(*reader, now);
      Publish(*reader);
    }
    Trim(calls);
  }
  for (const auto& call : calls) call();
  const bool syncs = options_.sync == LogSync::kInterval && !options_.folder.empty();
  return syncs ? std::min(options_.sync_interval, options_.retry_interval) : options_.retry_interval;
}

Status RequestLog::disk() const {
  std::lock_guard lock(state_mutex_);
  return shown_disk_;
}

std::vector<RequestLog::Leftover> RequestLog::leftovers() const {
  std::lock_guard lock(mutex_);
  std::vector<Leftover> found;
  for (const auto& reader : readers_)
    if (!reader->attached) found.push_back({reader->name, reader->on_disk.records, reader->on_disk.bytes});
  return found;
}

std::vector<std::string> RequestLog::readers() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& reader : readers_) names.push_back(reader->name);
  return names;
}

size_t RequestLog::attached() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(readers_.begin(), readers_.end(), [](const auto& reader) { return reader->attached; }));
}

bool RequestLog::HasReader(const std::string& folder, const std::string& name, const std::string& owner) {
  return ::access((folder + "/" + PositionName(name, owner)).c_str(), F_OK) == 0;
}

bool RequestLog::Knows(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return Find(name) != nullptr;
}

// --- Readers come and go ---

std::shared_ptr<LogReader> RequestLog::Attach(const std::string& name, const ReaderBounds& bounds,
                                              std::function<void()> on_ready) {
  std::lock_guard lock(mutex_);
  Reader* reader = Find(name);
  if (reader && reader->attached) return nullptr;
  if (!reader) {
    readers_.push_back(std::make_unique<Reader>());
    reader = readers_.back().get();
    reader->name = name;
    reader->low = reader->ahead = next_id_;
    if (disk_) {
      if (Status opened = OpenPosition(*reader); !opened) disk_status_ = std::move(opened);
      TakeUp(*reader);
    }
  }
  reader->under_way.reserve(LogReader::kMostUnderWay);
  reader->attached = true;
  reader->bounds = bounds;
  reader->on_ready = std::move(on_ready);
  LoseOld(*reader, clock_.Now());
  MakeRoom(*reader, 0);
  Publish(*reader);
  return std::shared_ptr<LogReader>(new LogReader(shared_from_this(), reader));
}

void RequestLog::Forget(const std::string& name) {
  Calls calls;
  {
    std::lock_guard lock(mutex_);
    const Reader* reader = Find(name);
    if (!reader || reader->attached) return;
    if (disk_) static_cast<void>(disk_->folder().Remove(PositionName(name, options_.owner).c_str()));
    std::erase_if(readers_, [&](const auto& one) { return one.get() == reader; });
    Trim(calls);
  }
  for (const auto& call : calls) call();
}

bool RequestLog::RemoveIfDone() {
  std::lock_guard lock(mutex_);
  if (!readers_.empty()) return false;
  closed_ = true;
  if (!disk_) return options_.folder.empty();
  disk_->Seal();
  disk_->RemoveBelow(kNone);
  const bool removed = disk_->folder().RemoveAll();
  disk_.reset();
  return removed;
}

LogReader::LogReader(std::shared_ptr<RequestLog> log, RequestLog::Reader* reader)
    : log_(std::move(log)), reader_(reader) {}

LogReader::~LogReader() {
  Rewind();
  RequestLog::Calls calls;
  bool forget = false;
  std::string name;
  {
    std::lock_guard lock(log_->mutex_);
    reader_->attached = false;
    forget = reader_->leaves;
    name = reader_->name;
    reader_->on_ready = nullptr;
    reader_->place = {};
    reader_->next.reset();
    log_->Trim(calls);
  }
  for (const auto& call : calls) call();
  if (forget) log_->Forget(name);
}

std::optional<LogRecord> LogReader::Next() {
  std::lock_guard lock(log_->mutex_);
  RequestLog::Reader& reader = *reader_;
  if (reader.under_way.size() >= kMostUnderWay) return std::nullopt;
  log_->LoseOld(reader, log_->clock_.Now());
  std::optional<LogRecord> record;
  while (!record && log_->Peek(reader)) {
    record.emplace();
    RequestLog::Reader::UnderWay one;
    LogTotals totals;
    if (reader.OnDisk()) {
      const RecordHead& head = reader.next->head;
      Status read = log_->disk_->Read(reader.place, *reader.next, record->bytes);
      one = {head.id, head.items, head.size(), log_->disk_->StampAt(reader.place, *reader.next), false, {}};
      if (!read) {
        log_->Lose(reader, RecordLoss::kDamaged, 1, head.items);
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
    reader.under_way.push_back(one);
    log_->Take(reader, {1, one.items, one.bytes});
  }
  log_->Publish(reader);
  return record;
}

bool LogReader::Wanted(uint64_t id) {
  std::lock_guard lock(log_->mutex_);
  log_->LoseOld(*reader_, log_->clock_.Now());
  for (const auto& one : reader_->under_way) {
    if (one.id == id) return !one.lost;
  }
  return false;
}

void LogReader::Done(uint64_t id, bool delivered) { End(id, delivered ? Fate::kDelivered : Fate::kNot); }

void LogReader::Skip(uint64_t id) { End(id, Fate::kSkipped); }

void LogReader::End(uint64_t id, Fate fate) {
  RequestLog::Calls calls;
  const Instant now = log_->clock_.Now();
  {
    std::lock_guard lock(log_->mutex_);
    auto& under_way = reader_->under_way;
    auto at = std::find_if(under_way.begin(), under_way.end(), [&](const auto& one) { return one.id == id; });
    if (at == under_way.end()) return;
    auto* memory = const_cast<RequestLog::InMemory*>(log_->MemoryFrom(id));
    if (memory && memory->id == id) {
      memory->delivered |= fate == Fate::kDelivered;
      memory->skips += fate == Fate::kSkipped;
    }
    if (at->lost) under_way.erase(at);
    else at->done = true;
    log_->Moved(*reader_);
    log_->WritePosition(*reader_);
    log_->Trim(calls);
    log_->Publish(*reader_);
  }
  for (const auto& call : calls) call();
  log_->SyncIfDue(now);
}

void LogReader::GiveUp(uint64_t id) {
  {
    std::lock_guard lock(log_->mutex_);
    for (const auto& one : reader_->under_way) {
      if (one.id == id && !one.done)
        log_->Lose(*reader_, one.lost.value_or(RecordLoss::kNotKept), 1, one.items);
    }
  }
  Done(id, false);
}

void LogReader::Rewind() {
  std::lock_guard lock(log_->mutex_);
  RequestLog::Reader& reader = *reader_;
  const uint64_t mask = reader.DoneMask();
  for (const auto& one : reader.under_way) {
    if (one.lost) log_->Lose(reader, *one.lost, 1, one.items);
    else if (!one.done && one.id >= reader.jump_from && one.id < reader.jump_to) reader.jump_to = one.id;
  }
  reader.mask_from = reader.low;
  reader.mask = mask;
  reader.under_way.clear();
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
  for (const auto& call : calls) call();
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
