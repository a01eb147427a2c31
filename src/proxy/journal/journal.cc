#include "proxy/journal/journal.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "delivery/disk_log.h"

namespace gpulens {
namespace {

constexpr uint64_t kSmallestJournalSegment = 4096;
// Requests that are open for so many segments are written again, so that old segments can go.
constexpr size_t kSegmentsBeforeCarry = 4;
constexpr int64_t kStalledNs = 1'000'000'000;
constexpr size_t kMostIdempotent = 1'000'000;
constexpr size_t kMostWriteBytes = 4 << 20;  // of one write(2)
constexpr int kNamesTried = 1000;

std::string ErrnoText(std::string_view what, int error) { return ErrnoStatus(what, error).detail; }

int64_t SaturatedSum(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

}  // namespace

int JournalDisk::Create(int folder, const char* name, UniqueFd& out) {
  out.reset(::openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600));
  return out ? 0 : errno;
}

int JournalDisk::Write(int file, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int JournalDisk::Truncate(int file, uint64_t size) {
  return ::ftruncate(file, static_cast<off_t>(size)) == 0 ? 0 : errno;
}
int JournalDisk::SyncFile(int file) { return ::fdatasync(file) == 0 ? 0 : errno; }
int JournalDisk::SyncFolder(int folder) { return ::fsync(folder) == 0 ? 0 : errno; }
int JournalDisk::Remove(int folder, const char* name) {
  return ::unlinkat(folder, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

size_t Journal::IdHash::operator()(const RequestId& id) const noexcept {
  uint64_t word;  // the random part
  std::memcpy(&word, id.data() + 8, sizeof word);
  return static_cast<size_t>(word ^ word >> 32);
}

Journal::Journal(JournalOptions options, LogFolder folder)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      disk_(options_.disk ? options_.disk : std::make_shared<JournalDisk>()) {}

Result<std::unique_ptr<Journal>> Journal::Open(JournalOptions options) {
  options.segment_bytes = std::max(options.segment_bytes, kSmallestJournalSegment);
  options.max_bytes = std::max(options.max_bytes, 2 * options.segment_bytes);
  ASSIGN_OR_RETURN(LogFolder folder, LogFolder::Open(options.folder));
  std::unique_ptr<Journal> journal(new Journal(std::move(options), std::move(folder)));
  RETURN_IF_ERROR(journal->Load());
  journal->SettleCutRequests();
  Journal* self = journal.get();
  const SignalsBlocked blocked;
  RETURN_IF_ERROR(StartThread(journal->writer_, [self] { self->RunWriter(); }));
  if (journal->options_.sync == SyncPolicy::kInterval)
    RETURN_IF_ERROR(StartThread(journal->syncer_, [self] { self->RunSyncer(); }));
  return journal;
}

Journal::~Journal() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_writer_.notify_all();
  wake_readers_.notify_all();
  if (writer_.joinable()) writer_.join();
  {
    std::lock_guard lock(mutex_);
    stop_sync_ = true;
  }
  wake_syncer_.notify_all();
  if (syncer_.joinable()) syncer_.join();
  for (const auto& file : unsynced_) static_cast<void>(disk_->SyncFile(file->get()));
}

// ---------------------------------------------------------------------------------------------- what is
// there

Status Journal::Load() {
  const BootId boot_id = BootIdOf("");
  for (const std::string& name : options_.stores) {
    StorePlace place;
    ASSIGN_OR_RETURN(PositionFile file, PositionFile::Open(folder_.fd(), PositionNameOf(name, ""), boot_id));
    place.file = std::make_unique<PositionFile>(std::move(file));
    if (place.file->foreign()) {
      // What is in the store already is ignored there.
      Log(LogLevel::kWarn, "journal", "position_unreadable",
          "the position of the store " + name + " is unreadable: the journal is written to it again",
          folder_.path());
    }
    place.next_id = std::max<uint64_t>(place.file->last().value_or(1), 1);
    next_id_ = std::max(next_id_, place.next_id);
    places_.push_back(std::move(place));
  }
  ASSIGN_OR_RETURN(const std::vector<uint64_t> ids, folder_.ListSegments());
  for (size_t i = 0; i < ids.size(); ++i)
    RETURN_IF_ERROR(LoadSegment(ids[i], i + 1 < ids.size() ? ids[i + 1] : kMaxRecordId));
  for (const Segment& segment : segments_) stats_.disk_bytes += segment.bytes;
  return Ok();
}

Status Journal::LoadSegment(uint64_t first_id, uint64_t id_limit) {
  const std::string name = NameOfSegment(first_id).data();
  ASSIGN_OR_RETURN(SegmentReader reader, SegmentReader::Open(folder_.fd(), name.c_str()));
  const SegmentState state = reader.ReadHeader(id_limit);
  if (state == SegmentState::kForeign)
    return folder_.SetAside(name.c_str(), "it is no segment of this version");
  Segment segment{first_id, first_id, reader.end()};
  // Numbers below the place of a store are there. So a power cut that took the last records, and left a place
  // behind them, is no damage.
  uint64_t expected =
      segments_.empty() ? first_id : std::max(segments_.back().end_id, segments_.back().first_id + 1);
  for (const StorePlace& place : places_) expected = std::max(expected, place.next_id);
  const uint64_t damaged_before = found_.damaged;
  if (first_id > expected) found_.damaged += first_id - expected;
  if (state == SegmentState::kTorn) {
    ++found_.torn;
  } else if (state == SegmentState::kDamaged) {
    ++found_.damaged_files;
    segment.end_id = std::min(reader.GuessEnd(first_id), id_limit);
    found_.damaged += segment.end_id - first_id;
    Log(LogLevel::kError, "journal", "segment_damaged",
        name + " has no readable head: up to " + std::to_string(segment.end_id - first_id) +
            " records of charges are lost. Check the disk",
        folder_.path());
  } else {
    std::string body;
    uint64_t next = first_id, good_bytes = kSegmentHeaderBytes;
    while (const auto record = reader.Next()) {
      good_bytes = record->offset + record->head.size();
      found_.damaged += record->head.id - next;
      next = record->head.id + 1;
      if (!reader.ReadBody(*record, body)) {
        ++found_.damaged;
        continue;
      }
      const auto head = HeadOfEntry(body);
      if (!head) {
        const Status why = DecodeEntry(body).status();
        if (why.code == Code::kUnavailable) return why;
        ++found_.damaged;
        continue;
      }
      ++found_.records;
      if (head->kind == JournalKind::kBegin) {
        OpenRequest& open = open_[head->id];
        // Written again, when it was open for long: the first one may have gone.
        if (open.begin.empty()) open.first_id = record->head.id;
        open.begin = body;
      } else if (head->kind == JournalKind::kProgress) {
        const auto open = open_.find(head->id);
        if (open != open_.end()) open->second.progress = body;
      } else {
        open_.erase(head->id);
        LoadEntry(body);
      }
    }
    segment.end_id = next;
    if (reader.tail() == SegmentReader::Tail::kTorn) {
      // Its number is used again, so the next start must not see it.
      ++found_.torn;
      const UniqueFd file(::openat(folder_.fd(), name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
      if (file && disk_->Truncate(file.get(), good_bytes) == 0) segment.bytes = good_bytes;
    }
    if (reader.tail() == SegmentReader::Tail::kDamaged) ++found_.damaged;
  }
  if (found_.damaged > damaged_before)
    Log(LogLevel::kError, "journal", "records_damaged",
        name + ": " + std::to_string(found_.damaged - damaged_before) +
            " records in it or before it are damaged or missing; their requests may be unsettled. Check the "
            "disk",
        name);
  // A name is not used twice.
  next_id_ = std::max(next_id_, std::max(segment.end_id, first_id + 1));
  segments_.push_back(segment);
  return Ok();
}

void Journal::LoadEntry(const std::string& body) {
  const auto entry = DecodeEntry(body);
  if (!entry || !entry->record.idempotency || found_.idempotent.size() >= kMostIdempotent) return;
  const ChargeRecord& record = entry->record;
  if (record.settled_unix_ns < options_.clock->Now().unix_ns - options_.idempotency.count()) return;
  found_.idempotent.push_back(
      {record.key, *record.idempotency, record.id, record.settled_unix_ns, record.status});
}

// Each request that was cut gets its Settle, so that what follows is as for every other one. When this is
// cut, too, the next start finds the rest.
void Journal::SettleCutRequests() {
  std::vector<std::pair<RequestId, OpenRequest>> cut(open_.begin(), open_.end());
  open_.clear();
  std::ranges::sort(cut, {}, &std::pair<RequestId, OpenRequest>::first);
  const int64_t now = options_.clock->Now().unix_ns;
  std::vector<Item> items;
  for (auto& [id, open] : cut) {
    auto begin = DecodeEntry(open.begin);
    if (!begin) {
      ++found_.damaged;
      continue;
    }
    ChargeRecord row = std::move(begin->record);
    row.settled_unix_ns = now;
    row.outcome = ChargeOutcome::kUnsettled;
    row.counted_by = CountedBy::kUnsettled;
    row.usage = {};
    row.list_pico = row.charged_pico = 0;
    const auto progress = open.progress.empty() ? Status{Code::kUnavailable, ""} : DecodeEntry(open.progress);
    if (progress) {
      const ChargeProgress& last = progress->progress;
      row.usage = last.usage;
      row.list_pico = last.list_pico;
      row.ttft_ns = last.ttft_ns;
      if (!last.model_answered.empty()) row.model_answered = last.model_answered;
      if (!last.tier.empty()) row.tier = last.tier;
      if (!last.price_version.empty()) row.price_version = last.price_version, row.price_row = last.price_row;
      row.events = last.events;
      row.answer_bytes = last.answer_bytes;
    }
    if (options_.on_crash == JournalOptions::OnCrash::kReserve) {
      row.charged_pico = row.reserved_pico;
      row.counted_by = CountedBy::kRecovered;
    } else if (options_.on_crash == JournalOptions::OnCrash::kPartial && progress) {
      row.charged_pico = progress->progress.charged_pico;
      row.counted_by = CountedBy::kRecovered;
    }
    ++found_.unsettled;
    found_.unsettled_bound_pico = SaturatedSum(found_.unsettled_bound_pico, row.reserved_pico);
    found_.recovered_pico = SaturatedSum(found_.recovered_pico, row.charged_pico);
    if (row.idempotency && found_.idempotent.size() < kMostIdempotent)
      found_.idempotent.push_back({row.key, *row.idempotency, row.id, row.settled_unix_ns, row.status});
    items.push_back({.kind = Kind::kRecord,
                     .id = row.id,
                     .body = EncodeEntry(JournalKind::kSettle, row),
                     .done = {},
                     .pico = row.charged_pico});
  }
  if (!items.empty()) Handle(items);
  if (options_.sync == SyncPolicy::kInterval && file_) {
    static_cast<void>(disk_->SyncFile(file_->get()));
    static_cast<void>(disk_->SyncFolder(folder_.fd()));
  }
  if (found_.unsettled + found_.damaged + found_.damaged_files + found_.torn == 0) return;
  Log(LogLevel::kWarn, "journal", "recovered",
      "the journal was not closed: " + std::to_string(found_.unsettled) +
          " requests were under way and are unsettled; " + std::to_string(found_.damaged) +
          " records are damaged, " + std::to_string(found_.torn) + " files were cut off",
      folder_.path());
}

// ------------------------------------------------------------------------------------------------- handing
// over

void Journal::Begin(ChargeRecord record, Done done, Waking waking) {
  Clean(record);
  Enqueue({.kind = Kind::kBegin,
           .id = record.id,
           .body = EncodeEntry(JournalKind::kBegin, record),
           .done = std::move(done)},
          waking);
}

void Journal::Progress(ChargeProgress progress) {
  ChargeRecord texts;  // the same bounds as those of a row
  texts.model_answered = std::move(progress.model_answered);
  texts.tier = std::move(progress.tier);
  texts.price_version = std::move(progress.price_version);
  texts.usage = progress.usage;
  Clean(texts);
  progress.model_answered = std::move(texts.model_answered);
  progress.tier = std::move(texts.tier);
  progress.price_version = std::move(texts.price_version);
  progress.usage = texts.usage;
  Enqueue({.kind = Kind::kProgress, .id = progress.id, .body = EncodeEntry(progress), .done = {}},
          Waking::kNow);
}

void Journal::Settle(ChargeRecord record, Done done, Waking waking) {
  Clean(record);
  if (record.settled_unix_ns == 0) record.settled_unix_ns = options_.clock->Now().unix_ns;
  Enqueue({.kind = Kind::kSettle,
           .id = record.id,
           .body = EncodeEntry(JournalKind::kSettle, record),
           .done = std::move(done),
           .pico = record.charged_pico},
          waking);
}

void Journal::Record(ChargeRecord record, Done done) {
  Clean(record);
  if (record.settled_unix_ns == 0) record.settled_unix_ns = options_.clock->Now().unix_ns;
  Enqueue({.kind = Kind::kRecord,
           .id = record.id,
           .body = EncodeEntry(JournalKind::kSettle, record),
           .done = std::move(done),
           .pico = record.charged_pico},
          Waking::kNow);
}

void Journal::Enqueue(Item item, Waking waking) {
  std::unique_lock lock(mutex_);
  // A disk that hangs. Rows get twice the room of what begins, so that open requests can end.
  const bool row = item.kind == Kind::kSettle || item.kind == Kind::kRecord;
  if (queued_bytes_ + item.body.size() <= options_.held_bytes * (row ? 2 : 1)) {
    const bool wake = waking == Waking::kNow && !std::exchange(woken_, true);
    queued_bytes_ += item.body.size();
    ++enqueued_;
    queue_.push_back(std::move(item));
    lock.unlock();
    if (wake) wake_writer_.notify_one();
    return;
  }
  Kept kept = Kept::kIgnored;
  if (item.kind == Kind::kBegin) {
    ++stats_.refused;
    kept = Kept::kRefused;
  } else if (row) {
    ++stats_.unrecorded;
    stats_.unrecorded_pico += item.pico;
    kept = Kept::kUnrecorded;
  }
  lock.unlock();
  if (item.done) item.done(kept);
}

void Journal::Wake() {
  {
    std::lock_guard lock(mutex_);
    if (queue_.empty() || std::exchange(woken_, true)) return;
  }
  wake_writer_.notify_one();
}

bool Journal::admits() const noexcept {
  if (options_.on_failure == JournalOptions::OnFailure::kOpen) return true;
  if (failing_.load(std::memory_order_relaxed)) return false;
  const int64_t since = writing_since_ns_.load(std::memory_order_relaxed);
  return since == 0 || options_.clock->Now().boot_ns - since < kStalledNs;
}

JournalStats Journal::stats() const {
  std::lock_guard lock(mutex_);
  JournalStats stats = stats_;
  stats.segments = segments_.size();
  return stats;
}

void Journal::Flush() {
  Wake();
  std::unique_lock lock(mutex_);
  const uint64_t wanted = enqueued_;
  flushed_.wait(lock, [&] { return handled_ >= wanted; });
}

// ------------------------------------------------------------------------------------------------ the writer
// thread

void Journal::RunWriter() {
  std::vector<Item> batch;
  auto next_retry = std::chrono::steady_clock::now();
  for (;;) {
    bool stop = false, moved = false;
    {
      std::unique_lock lock(mutex_);
      writing_since_ns_ = 0;
      const auto ready = [this] { return woken_ || stopping_ || places_moved_ || sync_failed_; };
      if (failing_) wake_writer_.wait_for(lock, options_.retry_interval, ready);
      else wake_writer_.wait(lock, ready);
      batch.swap(queue_);
      woken_ = false;
      queued_bytes_ = 0;
      stop = stopping_ && batch.empty();
      moved = std::exchange(places_moved_, false);
    }
    writing_since_ns_ = options_.clock->Now().boot_ns;
    if (sync_failed_.exchange(false)) {
      // What the kernel could not write it has forgotten, and a second sync would succeed: begin a new file.
      AbandonSegment(file_bytes_);
      failing_ = true;
    }
    if (const auto now = std::chrono::steady_clock::now(); failing_ && (stop || moved || now >= next_retry)) {
      RetryDisk();
      next_retry = now + options_.retry_interval;
    }
    if (!batch.empty()) Handle(batch);
    if (moved || std::exchange(rotated_, false)) RemoveFolded();
    if (!batch.empty()) {
      {
        std::lock_guard lock(mutex_);
        handled_ += batch.size();
      }
      flushed_.notify_all();
    }
    batch.clear();
    if (stop) return;
  }
}

// Whether the record is to be written. The table of open requests is as if it were.
bool Journal::Admit(Item& item) {
  const auto ignore = [&] {
    item.kept = Kept::kIgnored;
    return false;
  };
  switch (item.kind) {
    case Kind::kBegin: {
      const auto [open, fresh] = open_.try_emplace(item.id);
      if (!fresh) return ignore();
      open->second.begin = item.body;
      return true;
    }
    case Kind::kProgress: {
      const auto open = open_.find(item.id);
      if (open == open_.end()) return ignore();
      open->second.progress = item.body;
      return true;
    }
    case Kind::kSettle: return open_.erase(item.id) > 0 ? true : ignore();
    case Kind::kRecord: return true;
  }
  return true;
}

// Of a record that could not be written.
void Journal::Fail(Item& item) {
  if (item.kind == Kind::kProgress) return;  // its request has it in memory
  if (item.kind == Kind::kBegin) {
    if (options_.on_failure == JournalOptions::OnFailure::kOpen) {
      item.kept = Kept::kInMemory;
      return;
    }
    open_.erase(item.id);
    item.kept = Kept::kRefused;
    return;
  }
  std::lock_guard lock(mutex_);
  if (stats_.held_bytes + item.body.size() > options_.held_bytes) {
    item.kept = Kept::kUnrecorded;
    return;
  }
  item.kept = Kept::kInMemory;
  ++stats_.held;
  stats_.held_bytes += item.body.size();
  held_.push_back({.kind = item.kind, .id = item.id, .body = item.body, .done = {}, .pico = item.pico});
}

void Journal::Handle(std::vector<Item>& batch) {
  std::vector<std::string_view> bodies;
  std::vector<Item*> written;
  bodies.reserve(batch.size());
  written.reserve(batch.size());
  for (Item& item : batch) {
    if (!Admit(item)) continue;
    bodies.push_back(item.body);
    written.push_back(&item);
  }
  size_t count = 0;
  const uint64_t first_id = next_id_;
  int error = 0;
  if (!failing_ && !bodies.empty()) count = WriteBodies(bodies, error);
  for (size_t i = 0; i < written.size(); ++i) {
    if (i >= count) {
      Fail(*written[i]);
      continue;
    }
    written[i]->kept = Kept::kOnDisk;
    if (written[i]->kind != Kind::kBegin) continue;
    // Numbers may have been skipped for a new file, so this is at most the true one.
    const auto open = open_.find(written[i]->id);
    if (open != open_.end()) open->second.first_id = first_id;
  }
  {
    std::lock_guard lock(mutex_);
    for (const Item& item : batch) {
      if (item.kept == Kept::kIgnored && item.kind != Kind::kProgress) ++stats_.ignored;
      if (item.kept == Kept::kRefused) ++stats_.refused;
      if (item.kept == Kept::kUnrecorded) {
        ++stats_.unrecorded;
        stats_.unrecorded_pico += item.pico;
      }
    }
    stats_.open = open_.size();
  }
  for (Item& item : batch) {
    if (item.done && item.kept) item.done(*item.kept);
  }
}

// Writes bodies as records and returns how many are on disk, in order from the first. The file of a failure
// is left, and `error` set.
size_t Journal::WriteBodies(const std::vector<std::string_view>& bodies, int& error) {
  size_t done = 0;
  while (done < bodies.size()) {
    if (file_ && file_bytes_ >= options_.segment_bytes) file_.reset();
    if (!file_) {
      error = Rotate();
      if (error != 0) return NoteFailure("make a segment of the journal", error), done;
    }
    buffer_.clear();
    const bool fresh = file_bytes_ == 0;
    if (fresh) {
      std::array<char, kSegmentHeaderBytes> front{};
      EncodeSegmentHeader({.salt = salt_, .first_id = next_id_, .boot_id = BootIdOf("")}, front);
      buffer_.append(front.data(), front.size());
    }
    const Instant now = options_.clock->Now();
    size_t count = 0;
    for (; done + count < bodies.size(); ++count) {
      const std::string_view body = bodies[done + count];
      if (count > 0 &&
          (file_bytes_ + buffer_.size() >= options_.segment_bytes || buffer_.size() >= kMostWriteBytes))
        break;
      RecordHead head;
      head.id = next_id_ + count;
      head.length = static_cast<uint32_t>(body.size());
      head.items = 1;
      head.unix_ns = now.unix_ns;
      head.boot_ns = now.boot_ns;
      head.body_sum = ChecksumOf(salt_, body);
      std::array<char, kRecordHeadBytes> bytes{};
      EncodeRecordHead(head, salt_, bytes);
      buffer_.append(bytes.data(), bytes.size());
      buffer_.append(body);
    }
    error = disk_->Write(file_->get(), file_bytes_, buffer_);
    std::string_view what = "write the journal";
    if (error == 0 && options_.sync == SyncPolicy::kAlways) {
      what = "sync the journal";
      error = disk_->SyncFile(file_->get());
      if (error == 0 && fresh) error = disk_->SyncFolder(folder_.fd());
    }
    if (error != 0) {
      AbandonSegment(file_bytes_);
      NoteFailure(what, error);
      return done;
    }
    file_bytes_ += buffer_.size();
    next_id_ += count;
    done += count;
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      Segment& segment = segments_.back();
      segment.end_id = next_id_;
      segment.bytes = file_bytes_;
      stats_.disk_bytes += buffer_.size();
      stats_.written += count;
      ++stats_.batches;
      stats_.next_id = next_id_;
      if (options_.sync == SyncPolicy::kInterval && (unsynced_.empty() || unsynced_.back() != file_))
        unsynced_.push_back(file_);
      wake = std::ranges::any_of(places_, [this](const StorePlace& one) { return one.wake_id <= next_id_; });
    }
    if (wake) wake_readers_.notify_all();
  }
  return done;
}

// Makes the next segment. Its head is written with its first record.
int Journal::Rotate() {
  {
    std::lock_guard lock(mutex_);
    // Where the oldest may go, there will be room at once.
    if (stats_.disk_bytes + kSegmentHeaderBytes > options_.max_bytes && !FrontIsFolded()) return ENOSPC;
  }
  auto made = std::make_shared<UniqueFd>();
  int error = EEXIST;
  // A file of a failure before may have the name.
  for (int i = 0; i < kNamesTried && error == EEXIST; ++i) {
    error = disk_->Create(folder_.fd(), NameOfSegment(next_id_).data(), *made);
    if (error == EEXIST) ++next_id_;
  }
  if (error != 0) return error;
  if (::getrandom(&salt_, sizeof salt_, GRND_NONBLOCK) != sizeof salt_)
    salt_ = static_cast<uint32_t>(next_id_ * 0x9E3779B9u);
  file_ = std::move(made);
  file_bytes_ = 0;
  rotated_ = true;
  std::lock_guard lock(mutex_);
  segments_.push_back({next_id_, next_id_, 0});
  return 0;
}

// Leaves the file with its first `keep` bytes, which are confirmed. Records behind them have numbers that are
// used again.
void Journal::AbandonSegment(uint64_t keep) {
  if (!file_) return;
  const bool kept = disk_->Truncate(file_->get(), keep) == 0;
  std::lock_guard lock(mutex_);
  if (keep == 0 && kept) {
    static_cast<void>(disk_->Remove(folder_.fd(), NameOfSegment(segments_.back().first_id).data()));
    segments_.pop_back();
  }
  // A reader stops at the first number of the next segment, which is behind those that were not confirmed.
  if (!kept) next_id_ = std::max(next_id_, segments_.back().first_id + 1);
  file_.reset();
  file_bytes_ = 0;
}

void Journal::NoteFailure(std::string_view what, int error) {
  const bool first = !failing_.exchange(true);
  std::string text = ErrnoText(what, error);
  if (error == ENOSPC && what.starts_with("make"))
    text +=
        " (its limit is " + std::to_string(options_.max_bytes >> 20) + " MiB: is a store of charges away?)";
  {
    std::lock_guard lock(mutex_);
    ++stats_.write_failures;
    stats_.failing = true;
    stats_.failure = text;
  }
  if (first)
    Log(LogLevel::kError, "journal", "failing",
        text + (options_.on_failure == JournalOptions::OnFailure::kRefuse
                    ? ": new requests are refused until it works"
                    : ": requests are served, and charges wait in memory until it works"),
        folder_.path());
}

// Writes what waited: Begins of open requests that are not on disk, and rows.
void Journal::RetryDisk() {
  RemoveFolded();
  std::vector<std::string_view> bodies;
  std::vector<OpenRequest*> begins;
  for (auto& [id, open] : open_) {
    if (open.first_id != 0) continue;
    begins.push_back(&open);
    bodies.push_back(open.begin);
  }
  for (const Item& item : held_) bodies.push_back(item.body);
  const uint64_t first_id = next_id_;
  int error = 0;
  size_t count = 0;
  if (!bodies.empty()) {
    count = WriteBodies(bodies, error);
  } else if (!file_) {
    // The failed record has no owner any more: is there room for one?
    error = Rotate();
    if (error == 0) {
      const std::string probe(4096, '\0');
      error = disk_->Write(file_->get(), 0, probe);
      if (error == 0 && options_.sync != SyncPolicy::kNone) error = disk_->SyncFile(file_->get());
      AbandonSegment(0);
    }
    if (error != 0) NoteFailure("write the journal", error);
  }
  for (size_t i = 0; i < std::min(count, begins.size()); ++i) begins[i]->first_id = first_id;
  std::lock_guard lock(mutex_);
  for (size_t i = begins.size(); i < count; ++i) {
    --stats_.held;
    stats_.held_bytes -= held_.front().body.size();
    held_.pop_front();
  }
  if (error != 0) return;
  failing_ = false;
  stats_.failing = false;
  stats_.failure.clear();
  Log(LogLevel::kInfo, "journal", "works_again", "the journal is written again", folder_.path());
}

// Whether every store is past the oldest segment, and it does not grow. Under the mutex.
bool Journal::FrontIsFolded() const {
  if (segments_.empty() || (segments_.size() == 1 && file_)) return false;
  uint64_t folded = places_.empty() ? 0 : UINT64_MAX;
  for (const StorePlace& place : places_) folded = std::min(folded, place.next_id);
  return segments_.front().end_id <= folded;
}

// Removes the oldest segments that every store is past. Requests that are open since then are written again.
void Journal::RemoveFolded() {
  for (;;) {
    uint64_t end_id = 0;
    bool many = false;
    {
      std::lock_guard lock(mutex_);
      if (!FrontIsFolded()) return;
      end_id = segments_.front().end_id;
      many = segments_.size() > kSegmentsBeforeCarry || failing_;
    }
    std::vector<OpenRequest*> old;
    std::vector<std::string_view> bodies;
    for (auto& [id, open] : open_) {
      if (open.first_id == 0 || open.first_id >= end_id) continue;
      if (!many) return;
      old.push_back(&open);
      bodies.push_back(open.begin);
      if (!open.progress.empty()) bodies.push_back(open.progress);
    }
    if (!old.empty()) {
      const bool was_failing = failing_;
      uint64_t first_id = next_id_;
      int error = 0;
      if (WriteBodies(bodies, error) < bodies.size()) {
        if (!was_failing) return;
        // A disk that is full of what may go: RetryDisk writes them when there is room.
        first_id = 0;
      }
      for (OpenRequest* open : old) open->first_id = first_id;
    }
    std::lock_guard lock(mutex_);
    if (!FrontIsFolded()) return;
    const Segment segment = segments_.front();
    if (disk_->Remove(folder_.fd(), NameOfSegment(segment.first_id).data()) != 0) return;
    stats_.disk_bytes -= std::min(stats_.disk_bytes, segment.bytes);
    segments_.pop_front();
  }
}

void Journal::RunSyncer() {
  std::unique_lock lock(mutex_);
  while (!stop_sync_) {
    wake_syncer_.wait_for(lock, options_.sync_interval, [this] { return stop_sync_; });
    if (unsynced_.empty()) continue;
    const std::vector<std::shared_ptr<UniqueFd>> files = std::exchange(unsynced_, {});
    lock.unlock();
    int error = 0;
    for (const auto& file : files) {
      const int failed = disk_->SyncFile(file->get());
      if (failed != 0) error = failed;
    }
    const int failed = disk_->SyncFolder(folder_.fd());
    if (failed != 0) error = failed;
    lock.lock();
    if (error == 0) continue;
    ++stats_.sync_failures;
    stats_.failing = true;
    stats_.failure = ErrnoText("sync the journal", error);
    sync_failed_ = true;
    wake_writer_.notify_one();
  }
}

// -------------------------------------------------------------------------------------------------- the
// readers

JournalReader::JournalReader(Journal& journal, size_t store) : journal_(journal), store_(store) {
  std::lock_guard lock(journal_.mutex_);
  next_id_ = journal_.places_[store_].next_id;
}

Result<uint64_t> JournalReader::Read(size_t most, std::vector<ChargeRecord>& out) {
  uint64_t at = next_id_;
  while (out.size() < most) {
    Journal::Segment segment;
    bool last = false;
    {
      std::lock_guard lock(journal_.mutex_);
      const auto found = std::ranges::find_if(journal_.segments_,
                                              [&](const Journal::Segment& one) { return one.end_id > at; });
      if (found == journal_.segments_.end()) return at;
      segment = *found;
      last = std::next(found) == journal_.segments_.end();
    }
    at = std::max(at, segment.first_id);
    if (!file_ || file_first_id_ != segment.first_id) {
      file_.reset();
      const std::string name = NameOfSegment(segment.first_id).data();
      auto opened = SegmentReader::Open(journal_.folder_.fd(), name.c_str());
      if (!opened && opened.error().code != Code::kUnavailable) return opened.error();
      if (!opened || opened->ReadHeader(kMaxRecordId) != SegmentState::kGood) {
        Log(LogLevel::kError, "journal", "segment_lost",
            name + " is gone or damaged: its charges do not come to the stores", journal_.folder_.path());
        at = next_id_ = segment.end_id;
        continue;
      }
      file_ = *std::move(opened);
      file_first_id_ = segment.first_id;
    }
    file_->set_end(segment.bytes);
    bool ended = true;
    while (const auto record = file_->Next()) {
      if (record->head.id >= segment.end_id) break;
      at = std::max(at, record->head.id + 1);
      if (record->head.id < next_id_) continue;
      next_id_ = record->head.id + 1;
      if (!file_->ReadBody(*record, body_)) continue;
      const auto head = HeadOfEntry(body_);
      if (!head || head->kind != JournalKind::kSettle) continue;
      auto entry = DecodeEntry(body_);
      if (entry) out.push_back(std::move(entry->record));
      if (out.size() >= most) {
        ended = false;
        break;
      }
    }
    if (!ended) return at;
    at = next_id_ = std::max(next_id_, segment.end_id);
    if (last) return at;
    file_.reset();
  }
  return at;
}

Status JournalReader::Done(uint64_t place) {
  RETURN_IF_ERROR(journal_.places_[store_].file->Write(place, 0));
  {
    std::lock_guard lock(journal_.mutex_);
    journal_.places_[store_].next_id = place;
    // The writer looks only when a segment may go.
    if (journal_.segments_.size() < 2 || journal_.segments_.front().end_id > place) return Ok();
    journal_.places_moved_ = true;
  }
  journal_.wake_writer_.notify_one();
  return Ok();
}

void JournalReader::Wait(Duration longest, const std::atomic<bool>& stop, uint64_t records) {
  std::unique_lock lock(journal_.mutex_);
  uint64_t& wake_id = journal_.places_[store_].wake_id;
  wake_id = next_id_ + records;
  journal_.wake_readers_.wait_for(lock, longest, [&] {
    return stop || (!journal_.segments_.empty() && journal_.segments_.back().end_id >= wake_id);
  });
  wake_id = UINT64_MAX;
}

void JournalReader::Wake() {
  {
    std::lock_guard lock(journal_.mutex_);
  }
  journal_.wake_readers_.notify_all();
}

uint64_t JournalReader::behind() const {
  std::lock_guard lock(journal_.mutex_);
  const uint64_t place = journal_.places_[store_].next_id;
  const uint64_t end = journal_.segments_.empty() ? place : journal_.segments_.back().end_id;
  return end > place ? end - place : 0;
}

}  // namespace gpulens
