#include "delivery/disk_log.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace gpulens {

void LogTotals::Add(const LogTotals& other) noexcept {
  records += other.records;
  items += other.items;
  bytes += other.bytes;
}

// A file that was changed while we have it may hold other heads than those that were counted.
void LogTotals::Subtract(const LogTotals& other) noexcept {
  records -= std::min(records, other.records);
  items -= std::min(items, other.items);
  bytes -= std::min(bytes, other.bytes);
}

DiskLog::~DiskLog() {
  if (options_.sync != LogSync::kNone && writer_ && dirty_) (void)writer_->Sync();
}

bool DiskLog::Growing(const Segment& segment) const noexcept {
  return writer_ && segment.first_id == segments_.back().first_id;
}

// --- In at the end ---

Status DiskLog::Append(std::string_view bytes, uint32_t items, Instant now) {
  RecordHead head;
  head.id = next_id_;
  head.length = static_cast<uint32_t>(bytes.size());
  head.items = items;
  head.unix_ns = now.unix_ns;
  head.boot_ns = now.boot_ns;
  Status status = Write(head, bytes);
  if (!status && writer_ && writer_->at_file_limit()) {
    Seal();  // a new file may take what this one may not
    status = Write(head, bytes);
  }
  if (!status) status.detail += " of " + options_.folder;
  return status;
}

Status DiskLog::Write(const RecordHead& head, std::string_view bytes) {
  if (writer_ && (writer_->broken() || writer_->size() + head.size() > segment_bytes_)) Seal();
  if (!writer_) RETURN_IF_ERROR(Begin());
  const uint64_t before = writer_->size();
  Status status = writer_->Append(head, bytes);
  bool unsynced = false;
  if (status && options_.sync == LogSync::kAlways) {
    status = SyncWritten(before == 0);
    unsynced = !status;
    if (unsynced) writer_->TakeBack(before);
  }
  if (!status) {
    // After a failed sync the kernel has forgotten what it could not write: begin with a fresh file.
    if (unsynced || before == 0) writer_.reset();
    if (before == 0) static_cast<void>(folder_.Remove(NameOfSegment(next_id_).data()));
    return status;
  }
  if (before == 0) segments_.emplace_back().first_id = next_id_;
  Segment& segment = segments_.back();
  segment.end_id = ++next_id_;
  segment.file_bytes += writer_->size() - before;
  segment.all.Add({1, head.items, head.size()});
  dirty_ = true;
  return Ok();
}

Status DiskLog::Begin() {
  SegmentHeader header;
  header.first_id = next_id_;
  header.boot_id = boot_id_;
  if (::getrandom(&header.salt, sizeof header.salt, GRND_NONBLOCK) != sizeof header.salt)
    header.salt = static_cast<uint32_t>(next_id_ * 0x9E3779B9u);
  ASSIGN_OR_RETURN(SegmentWriter made,
                   SegmentWriter::Create(folder_.fd(), NameOfSegment(next_id_).data(), header));
  writer_.emplace(std::move(made));
  return Ok();
}

Status DiskLog::SyncWritten(bool new_file) {
  RETURN_IF_ERROR(writer_->Sync());
  return new_file ? folder_.Sync() : Ok();
}

void DiskLog::Seal() {
  // What cannot be synced here was not promised to be.
  if (writer_ && dirty_ && options_.sync == LogSync::kInterval) static_cast<void>(SyncWritten(true));
  writer_.reset();
}

void DiskLog::SkipTo(uint64_t id) {
  if (id <= next_id_) return;
  Seal();
  next_id_ = id;
}

void DiskLog::SkipDestroyed() {
  for (const auto& [first, end] : destroyed_) {
    if (first <= next_id_) SkipTo(end);
  }
  destroyed_.clear();
}

void DiskLog::RemoveBelow(uint64_t id) {
  while (!segments_.empty() && segments_.front().end_id <= id) {
    const Segment& front = segments_.front();
    // All of it is delivered, and more may come into this file.
    if (Growing(front) && !writer_->broken() && front.file_bytes < segment_bytes_ / 4) return;
    if (Growing(front)) Seal();
    static_cast<void>(folder_.Remove(NameOfSegment(front.first_id).data()));
    segments_.pop_front();
  }
}

// --- Out, for readers ---

Result<std::optional<SegmentReader::Record>> DiskLog::Find(DiskPlace& place, uint64_t from) {
  auto at = std::upper_bound(segments_.begin(), segments_.end(), from,
                             [](uint64_t id, const Segment& segment) { return id < segment.end_id; });
  for (; at != segments_.end(); ++at) {
    Segment& segment = *at;
    if (!segment.readable) continue;
    if (!place.file || place.segment != segment.first_id) {
      place.file.reset();
      auto opened = SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data());
      // No descriptor left, or no permission: it is still there, and may be read later.
      if (!opened && opened.error().code != Code::kUnavailable) return std::move(opened).error();
      segment.readable =
          opened.ok() &&
          opened->ReadHeader(Growing(segment) ? kMaxRecordId : segment.end_id) == SegmentVerdict::kGood;
      if (!segment.readable) {
        if (Growing(segment)) Seal();
        continue;
      }
      place.file.emplace(*std::move(opened));
      place.segment = segment.first_id;
    }
    place.file->set_end(segment.file_bytes);
    while (auto record = place.file->Next()) {
      if (record->head.id >= from) return record;
    }
    // Somebody cut it off while we write: what comes goes to another file.
    if (Growing(segment)) Seal();
  }
  return std::optional<SegmentReader::Record>();
}

Status DiskLog::Read(DiskPlace& place, const SegmentReader::Record& record, std::string& bytes) {
  return place.file->ReadBody(record, bytes);
}

RecordStamp DiskLog::StampAt(const DiskPlace& place, const SegmentReader::Record& record) const noexcept {
  const BootId& boot_id = place.file->header().boot_id;
  return {record.head.unix_ns, record.head.boot_ns, boot_id == boot_id_ && boot_id != BootId{}};
}

LogTotals DiskLog::CountBelow(const Segment& segment, uint64_t id) const {
  LogTotals totals;
  if (id <= segment.first_id || !segment.readable) return totals;
  auto reader = SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data());
  if (!reader || reader->ReadHeader(id) != SegmentVerdict::kGood) return totals;
  reader->set_end(segment.file_bytes);
  while (auto record = reader->Next()) totals.Add({1, record->head.items, record->head.size()});
  return totals;
}

// --- What the disk knows ---

std::array<UniqueFd, 2> DiskLog::DueSync(Instant now) {
  const bool due = options_.sync == LogSync::kInterval && dirty_ &&
                   now.boot_ns - synced_boot_ns_ >= options_.sync_interval.count();
  if (!due) return {};
  dirty_ = false;
  synced_boot_ns_ = now.boot_ns;
  return {writer_ ? writer_->Duplicate() : UniqueFd(), folder_.Duplicate()};
}

void DiskLog::SyncFailed() { writer_.reset(); }

}  // namespace gpulens
