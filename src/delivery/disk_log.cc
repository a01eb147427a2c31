#include "delivery/disk_log.h"

#include <sys/random.h>

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

constexpr uint64_t kSmallestSegment = 4096;
constexpr uint64_t kSegmentsInLog = 8;  // a full log drops one of so many at once

uint64_t SegmentBytesOf(const RequestLogOptions& options) {
  const uint64_t most = std::max(kSmallestSegment, options.max_bytes / kSegmentsInLog);
  return std::clamp(options.segment_bytes, kSmallestSegment, most);
}

}  // namespace

void LogTotals::Add(const LogTotals& other) noexcept {
  records += other.records;
  items += other.items;
  bytes += other.bytes;
}

// Saturates: a file that was changed while it is open may have other heads than those counted.
void LogTotals::Subtract(const LogTotals& other) noexcept {
  records -= std::min(records, other.records);
  items -= std::min(items, other.items);
  bytes -= std::min(bytes, other.bytes);
}

DiskLog::~DiskLog() {
  if (options_.sync != SyncPolicy::kNone && writer_ && dirty_) (void)writer_->Sync();
}

bool DiskLog::Growing(const Segment& segment) const noexcept {
  return writer_ && segment.first_id == segments_.back().first_id;
}

Status DiskLog::Append(std::string_view bytes, uint32_t items, Instant now) {
  RecordHead head;
  head.id = next_id_;
  head.length = static_cast<uint32_t>(bytes.size());
  head.items = items;
  head.unix_ns = now.unix_ns;
  head.boot_ns = now.boot_ns;
  Status status = Write(head, bytes);
  if (!status && writer_ && writer_->at_file_limit()) {
    Seal();  // the limit is on the size of one file
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
  if (status && options_.sync == SyncPolicy::kAlways) {
    status = SyncWritten(before == 0);
    unsynced = !status;
    if (unsynced) writer_->TakeBack(before);
  }
  if (!status) {
    // After a failed sync the kernel has discarded the data: start a new file.
    if (unsynced || before == 0) writer_.reset();
    if (before == 0) static_cast<void>(folder_.Remove(NameOfSegment(next_id_).data()));
    return status;
  }
  if (before == 0) segments_.emplace_back().first_id = next_id_;
  Segment& segment = segments_.back();
  segment.end_id = ++next_id_;
  segment.file_bytes += writer_->size() - before;
  segment.all.Add(TotalsOf(head));
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
  // A failure here breaks no promise of the policy.
  if (writer_ && dirty_ && options_.sync == SyncPolicy::kInterval) static_cast<void>(SyncWritten(true));
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
    // The file may still take records.
    if (Growing(front) && !writer_->broken() && front.file_bytes < segment_bytes_ / 4) return;
    if (Growing(front)) Seal();
    static_cast<void>(folder_.Remove(NameOfSegment(front.first_id).data()));
    segments_.pop_front();
  }
}

Result<std::optional<SegmentReader::Record>> DiskLog::Find(DiskPlace& place, uint64_t from) {
  auto at = std::upper_bound(segments_.begin(), segments_.end(), from,
                             [](uint64_t id, const Segment& segment) { return id < segment.end_id; });
  for (; at != segments_.end(); ++at) {
    Segment& segment = *at;
    if (!segment.readable) continue;
    if (!place.file || place.segment != segment.first_id) {
      place.file.reset();
      auto opened = SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data());
      // No descriptor left, or no permission: it may be readable later.
      if (!opened && opened.error().code != Code::kUnavailable) return std::move(opened).error();
      segment.readable =
          opened.ok() &&
          opened->ReadHeader(Growing(segment) ? kMaxRecordId : segment.end_id) == SegmentState::kGood;
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
    // Another process truncated it: further records go to a new file.
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
  if (!reader || reader->ReadHeader(id) != SegmentState::kGood) return totals;
  reader->set_end(segment.file_bytes);
  while (auto record = reader->Next()) totals.Add(TotalsOf(record->head));
  return totals;
}

std::array<UniqueFd, 2> DiskLog::DueSync(Instant now) {
  const bool due = options_.sync == SyncPolicy::kInterval && dirty_ &&
                   now.boot_ns - synced_boot_ns_ >= options_.sync_interval.count();
  if (!due) return {};
  dirty_ = false;
  synced_boot_ns_ = now.boot_ns;
  return {writer_ ? writer_->Duplicate() : UniqueFd(), folder_.Duplicate()};
}

void DiskLog::SyncFailed() { writer_.reset(); }

BootId BootIdOf(const std::string& text) {
  std::string digits = text.empty() ? ReadFile("/proc/sys/kernel/random/boot_id", 256).value_or("") : text;
  std::erase_if(digits, [](char c) { return c == '-' || c == '\n'; });
  BootId id{};
  if (digits.size() != 2 * id.size()) return id;
  for (size_t i = 0; i < id.size(); ++i) {
    auto byte = ParseInt<unsigned>(std::string_view(digits).substr(2 * i, 2), 16);
    if (!byte) return BootId{};
    id[i] = static_cast<char>(*byte);
  }
  return id;
}

DiskLog::DiskLog(const RequestLogOptions& options, LogFolder folder, Instant now)
    : options_(options),
      segment_bytes_(SegmentBytesOf(options)),
      boot_id_(BootIdOf(options.boot_id)),
      folder_(std::move(folder)),
      synced_boot_ns_(now.boot_ns) {}

Result<std::unique_ptr<DiskLog>> DiskLog::Open(const RequestLogOptions& options, uint64_t least_id,
                                               Instant now) {
  ASSIGN_OR_RETURN(LogFolder folder, LogFolder::Open(options.folder));
  std::unique_ptr<DiskLog> log(new DiskLog(options, std::move(folder), now));
  RETURN_IF_ERROR(log->Load(least_id));
  return log;
}

// Finds our segments and sets others aside, before ids are compared with names. For segments with a destroyed
// header the number of records is estimated.
Status DiskLog::FindSegments() {
  ASSIGN_OR_RETURN(std::vector<uint64_t> ids, folder_.ListSegments());
  size_t torn_at_end = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint64_t id = ids[i];
    SegmentName name = NameOfSegment(id);
    auto reader = SegmentReader::Open(folder_.fd(), name.data());
    if (!reader && reader.error().code != Code::kUnavailable) return reader.error();
    if (!reader) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "it is not a regular file"));
      continue;
    }
    const SegmentState state = reader->ReadHeader(kMaxRecordId);
    if (state == SegmentState::kForeign) {
      const uint64_t end = std::min(reader->GuessEnd(id), i + 1 < ids.size() ? ids[i + 1] : kMaxRecordId);
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "it has another version, or is not a segment"));
      destroyed_.emplace_back(id, end);
      torn_at_end = 0;
    } else if (state == SegmentState::kGood && reader->header().first_id != id) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "its name is not the number of its first record"));
    } else {
      Segment& segment = segments_.emplace_back();
      segment.first_id = id;
      segment.end_id = state == SegmentState::kDamaged ? reader->GuessEnd(id) : id + 1;
      segment.file_bytes = reader->end();
      segment.readable = state == SegmentState::kGood;
      torn_at_end = state == SegmentState::kTorn ? torn_at_end + 1 : 0;
    }
  }
  // Torn segments at the end never held a record; one before others did.
  for (; torn_at_end > 0; --torn_at_end) {
    RETURN_IF_ERROR(folder_.Remove(NameOfSegment(segments_.back().first_id).data()));
    segments_.pop_back();
  }
  return Ok();
}

// Counts the records of a segment and finds the end of its ids.
Status DiskLog::Scan(Segment& segment, uint64_t id_limit) {
  if (!segment.readable) return Ok();
  ASSIGN_OR_RETURN(SegmentReader reader,
                   SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data()));
  if (reader.ReadHeader(id_limit) != SegmentState::kGood) return Ok();
  segment.end_id = segment.first_id;
  while (auto record = reader.Next()) {
    segment.end_id = record->head.id + 1;
    segment.all.Add(TotalsOf(record->head));
  }
  // The number of damaged records is unknown.
  if (reader.tail() == SegmentReader::Tail::kDamaged) segment.end_id += 1;
  return Ok();
}

Status DiskLog::Load(uint64_t least_id) {
  RETURN_IF_ERROR(FindSegments());
  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    const bool last = i + 1 == segments_.size();
    RETURN_IF_ERROR(Scan(segment, last ? kMaxRecordId : segments_[i + 1].first_id));
    if (last && segment.end_id == segment.first_id) {
      // A header without a record: its name is needed for the next record.
      RETURN_IF_ERROR(folder_.Remove(NameOfSegment(segment.first_id).data()));
      next_id_ = std::max(next_id_, segment.first_id);
      segments_.pop_back();
      break;
    }
    if (!last) segment.end_id = std::min(segment.end_id, segments_[i + 1].first_id);
  }
  next_id_ = std::max(next_id_, least_id);
  if (!segments_.empty()) next_id_ = std::max(next_id_, segments_.back().end_id);
  return Ok();
}

}  // namespace gpulens
