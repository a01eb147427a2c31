// What a DiskLog does when it is opened.
#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "delivery/disk_log.h"

namespace gpulens {
namespace {

constexpr uint64_t kSmallestSegment = 4096;
constexpr uint64_t kSegmentsInLog = 8;  // a full log loses at most so small a part of itself at once

uint64_t SegmentBytesOf(const RequestLogOptions& options) {
  const uint64_t most = std::max(kSmallestSegment, options.max_bytes / kSegmentsInLog);
  return std::clamp(options.segment_bytes, kSmallestSegment, most);
}

}  // namespace

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

// The segments that are ours. The others must be out of the way before ids are compared with their names; of
// those whose header is destroyed it is guessed how many records they held.
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
    const SegmentVerdict verdict = reader->ReadHeader(kMaxRecordId);
    if (verdict == SegmentVerdict::kForeign) {
      const uint64_t end = std::min(reader->GuessEnd(id), i + 1 < ids.size() ? ids[i + 1] : kMaxRecordId);
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "it has another version, or is not a segment"));
      destroyed_.emplace_back(id, end);
      torn_at_end = 0;
    } else if (verdict == SegmentVerdict::kGood && reader->header().first_id != id) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "its name is not the number of its first record"));
    } else {
      Segment& segment = segments_.emplace_back();
      segment.first_id = id;
      segment.end_id = verdict == SegmentVerdict::kDamaged ? reader->GuessEnd(id) : id + 1;
      segment.file_bytes = reader->end();
      segment.readable = verdict == SegmentVerdict::kGood;
      torn_at_end = verdict == SegmentVerdict::kTorn ? torn_at_end + 1 : 0;
    }
  }
  // The last may have been only begun when the process ended. One before others held records once.
  for (; torn_at_end > 0; --torn_at_end) {
    RETURN_IF_ERROR(folder_.Remove(NameOfSegment(segments_.back().first_id).data()));
    segments_.pop_back();
  }
  return Ok();
}

// Counts what is in it, and finds where its ids end.
Status DiskLog::Scan(Segment& segment, uint64_t id_limit) {
  if (!segment.readable) return Ok();
  ASSIGN_OR_RETURN(SegmentReader reader,
                   SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data()));
  if (reader.ReadHeader(id_limit) != SegmentVerdict::kGood) return Ok();
  segment.end_id = segment.first_id;
  while (auto record = reader.Next()) {
    segment.end_id = record->head.id + 1;
    segment.all.Add({1, record->head.items, record->head.size()});
  }
  // Something stood there; how many records cannot be known.
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
      // A header and nothing whole behind it: its name is wanted for the next record.
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
