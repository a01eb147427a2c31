#include "delivery/request_log.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "delivery/request_log_internal.h"

namespace gpulens {

RequestLog::RequestLog(RequestLogOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), ages_(clock.Now()) {}

std::shared_ptr<RequestLog> RequestLog::Open(RequestLogOptions options, const Clock& clock) {
  std::shared_ptr<RequestLog> log(new RequestLog(std::move(options), clock));
  if (!log->options_.folder.empty()) {
    std::lock_guard lock(log->mutex_);
    log->OpenDisk(clock.Now());
    log->PublishDisk();
  }
  return log;
}

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
    if (disk_status_) LogInMemory(status);
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
    const std::string name = ReaderOfPosition(file, options_.owner);
    if (name.empty() || Find(name)) continue;
    readers_.push_back(std::make_unique<Reader>());
    readers_.back()->name = name;
    readers_.back()->bounds.max_bytes = options_.max_bytes;
    readers_.back()->low = readers_.back()->ahead = 0;  // see TakeUp
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
  const std::string name = PositionNameOf(reader.name, options_.owner);
  auto file = PositionFile::Open(disk_->folder().fd(), name, disk_->boot_id());
  if (file && file->foreign()) {
    RETURN_IF_ERROR(disk_->folder().SetAside(
        name.c_str(), "it does not contain the delivered position; all stored records are sent again"));
    file = PositionFile::Open(disk_->folder().fd(), name, disk_->boot_id());
    // All records are sent again, also for a reader that is not the owner.
    const auto& segments = disk_->segments();
    if (file)
      RETURN_IF_ERROR(file->Write(segments.empty() ? disk_->next_id() : segments.front().first_id, 0));
  }
  if (!file) return file.error();
  reader.position.emplace(*std::move(file));
  return Ok();
}

// Sets the read position in the files. Skips records that the reader had from memory while the folder was
// unusable.
void RequestLog::TakeUp(Reader& reader) {
  const uint64_t first = disk_->segments().empty() ? disk_->next_id() : disk_->segments().front().first_id;
  const bool owner = reader.name == options_.owner && !disk_->folder().Has(kOwnerGoneName);
  std::optional<uint64_t> last = reader.position ? reader.position->last() : std::nullopt;
  uint64_t from = last.value_or(owner ? first : next_id_);
  if (last && *last < first && !reader.position->of_this_boot()) {
    Log(LogLevel::kWarn, "delivery", "missing",
        "the first " + std::to_string(first - *last) +
            " unacknowledged records are missing. They may have been delivered just before the machine went "
            "down.",
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
  if (reader.name == options_.owner) UnmarkOwnerGone(reader);
  RecountDisk(reader);
  RecountMemory(reader);
  if (reader.on_disk.records > 0)
    Log(LogLevel::kInfo, "delivery", "taken_over",
        std::to_string(reader.on_disk.records) + " records of an earlier run wait for " + reader.name,
        options_.folder);
  Publish(reader);
}

void RequestLog::LogInMemory(const Status& why) const {
  Log(LogLevel::kWarn, "delivery", "queue_in_memory",
      why.detail + ". Queued data is kept in memory, at most " + std::to_string(options_.memory_bytes) +
          " bytes, until the folder can be used.",
      options_.folder);
}

// Continues in memory after the folder was removed with its records.
void RequestLog::AbandonDisk(Status why) {
  for (const auto& reader : readers_) {
    for (const DiskLog::Segment& segment : disk_->segments()) {
      if (segment.end_id <= reader->ahead) continue;
      LogTotals rest = segment.all;
      rest.Subtract(TakenFrom(*reader, segment));
      CountDropped(*reader, RecordDropReason::kDamaged, rest.records, rest.items);
    }
    reader->position.reset();
    reader->place = {};
    reader->next.reset();
    reader->taken_segment = 0;
  }
  for (const DiskLog::Segment& segment : disk_->segments())
    gone_.emplace_back(segment.first_id, segment.end_id);
  std::ranges::sort(gone_);
  disk_.reset();
  first_away_ = next_id_;
  disk_status_ = std::move(why);
  LogInMemory(disk_status_);
  for (const auto& reader : readers_) RecountDisk(*reader), Publish(*reader);
}

// Checks whether the folder disappeared or can be used again.
void RequestLog::CheckFolder(Instant now) {
  if (options_.folder.empty() || closed_) return;
  if (disk_ && disk_->folder().vanished())
    AbandonDisk({Code::kUnavailable, "the folder " + options_.folder + " was removed"});
  if (!disk_) OpenDisk(now);
  tried_boot_ns_ = now.boot_ns;
  if (!disk_) return;
  CheckPositions();
}

// A removed position file (`gpulens queue drop`) removes a reader that is not attached; an attached one gets
// its file again.
void RequestLog::CheckPositions() {
  for (auto at = readers_.begin(); at != readers_.end();) {
    Reader& reader = **at;
    if (!PositionRemoved(reader)) {
      ++at;
    } else if (reader.attached) {
      reader.position.reset();
      if (Status opened = OpenPosition(reader); !opened) disk_status_ = std::move(opened);
      WritePosition(reader);
      if (reader.name == options_.owner) UnmarkOwnerGone(reader);
      ++at;
    } else {
      Log(LogLevel::kInfo, "delivery", "dropped",
          "the data queued for " + reader.name + " was dropped: " + std::to_string(reader.on_disk.records) +
              " records",
          options_.folder);
      if (reader.name == options_.owner) static_cast<void>(disk_->folder().Mark(kOwnerGoneName));
      at = readers_.erase(at);
    }
  }
}

// Removes the mark of a removed owner, once the owner has a position again.
void RequestLog::UnmarkOwnerGone(const Reader& owner) {
  if (!owner.position || !owner.position->last() || !disk_->folder().Has(kOwnerGoneName)) return;
  static_cast<void>(disk_->folder().Remove(kOwnerGoneName));
}

bool RequestLog::PositionRemoved(const Reader& reader) const {
  return disk_ && reader.position &&
         disk_->folder().Misses(PositionNameOf(reader.name, options_.owner).c_str());
}

RequestLog::Reader* RequestLog::Find(const std::string& name) const {
  const auto found = std::ranges::find(readers_, name, &Reader::name);
  return found == readers_.end() ? nullptr : found->get();
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
      DropOld(*reader, now);
      WritePosition(*reader);  // if an earlier write failed
      Publish(*reader);
    }
    Trim(calls);
  }
  Run(calls);
  const bool syncs = options_.sync == SyncPolicy::kInterval && !options_.folder.empty();
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
      std::ranges::count_if(readers_, [](const auto& reader) { return reader->attached; }));
}

bool RequestLog::HasReader(const std::string& folder, const std::string& name, const std::string& owner) {
  return ::access((folder + "/" + PositionNameOf(name, owner)).c_str(), F_OK) == 0;
}

bool RequestLog::Knows(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return Find(name) != nullptr;
}

std::shared_ptr<LogReader> RequestLog::Attach(const std::string& name, const ReaderBounds& bounds,
                                              std::function<void()> on_ready) {
  std::lock_guard lock(mutex_);
  Reader* reader = Find(name);
  if (reader && reader->attached) return nullptr;
  if (reader && PositionRemoved(*reader)) {  // its records were dropped: it starts as a new reader
    CheckPositions();
    reader = nullptr;
  }
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
  reader->in_flight.reserve(LogReader::kMaxInFlight);
  reader->attached = true;
  reader->bounds = bounds;
  reader->on_ready = std::move(on_ready);
  DropOld(*reader, clock_.Now());
  MakeRoom(*reader, 0);
  Publish(*reader);
  return std::shared_ptr<LogReader>(new LogReader(shared_from_this(), reader));
}

void RequestLog::Forget(const std::string& name) {
  Calls calls;
  {
    std::lock_guard lock(mutex_);
    Reader* reader = Find(name);
    if (!reader || reader->attached) return;
    ForgetReader(*reader);
    Trim(calls);
  }
  Run(calls);
}

// Without the mark, a missing position of the owner would mean that nothing was delivered. If the mark cannot
// be created, the position is moved to the end instead.
void RequestLog::ForgetReader(Reader& reader) {
  if (disk_ && (reader.name != options_.owner || disk_->folder().Mark(kOwnerGoneName)))
    static_cast<void>(disk_->folder().Remove(PositionNameOf(reader.name, options_.owner).c_str()));
  else if (disk_ && reader.position) static_cast<void>(reader.position->Write(next_id_, 0));
  std::erase_if(readers_, [&](const auto& one) { return one.get() == &reader; });
}

bool RequestLog::RemoveIfDone() {
  std::lock_guard lock(mutex_);
  CheckPositions();
  if (!readers_.empty()) return false;
  closed_ = true;
  if (!disk_) return options_.folder.empty();
  disk_->Seal();
  disk_->RemoveBelow(kNoId);
  const bool removed = disk_->folder().RemoveAll();
  disk_.reset();
  return removed;
}

}  // namespace gpulens
