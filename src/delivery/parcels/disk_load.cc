// What a DiskParcels does when it is opened.
#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "delivery/parcels/disk_parcels.h"

namespace gpulens {
namespace {

constexpr uint64_t kSmallestSegment = 4096;
constexpr uint64_t kSegmentsInQueue = 8;  // a full queue loses at most so small a part of itself at once

uint64_t SegmentBytesOf(const ParcelQueueOptions& options) {
  uint64_t most = std::max(kSmallestSegment, options.max_bytes / kSegmentsInQueue);
  return std::clamp(options.segment_bytes, kSmallestSegment, most);
}

Result<PositionFile> OpenPosition(const QueueFolder& folder, const BootId& boot_id) {
  auto file = PositionFile::Open(folder.fd(), boot_id);
  if (!file || !file->foreign()) return file;
  RETURN_IF_ERROR(
      folder.SetAside(kPositionName, "it says not how far was delivered; what is here is sent again"));
  return PositionFile::Open(folder.fd(), boot_id);
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

DiskParcels::DiskParcels(const ParcelQueueOptions& options, QueueFolder folder, PositionFile position,
                         Instant now, LossBook& book)
    : ParcelStore(book),
      options_(options),
      segment_bytes_(SegmentBytesOf(options)),
      boot_id_(BootIdOf(options.boot_id)),
      ages_(now),
      folder_(std::move(folder)),
      position_(std::move(position)),
      cursor_(std::max<uint64_t>(position_.last().value_or(1), 1)),
      synced_boot_ns_(now.boot_ns) {}

Result<std::unique_ptr<DiskParcels>> DiskParcels::Open(const ParcelQueueOptions& options, Instant now,
                                                       LossBook& book) {
  ASSIGN_OR_RETURN(QueueFolder folder, QueueFolder::Open(options.folder));
  ASSIGN_OR_RETURN(PositionFile position, OpenPosition(folder, BootIdOf(options.boot_id)));
  std::unique_ptr<DiskParcels> store(
      new DiskParcels(options, std::move(folder), std::move(position), now, book));
  RETURN_IF_ERROR(store->Load());
  return store;
}

// The segments that are ours. The others must be out of the way before ids are compared with their names.
Result<std::deque<DiskParcels::Segment>> DiskParcels::FindSegments() {
  ASSIGN_OR_RETURN(std::vector<uint64_t> ids, folder_.ListSegments());
  std::deque<Segment> found;
  size_t torn_at_end = 0;
  for (uint64_t id : ids) {
    SegmentName name = NameOfSegment(id);
    auto reader = SegmentReader::Open(folder_.fd(), name.data());
    if (!reader && reader.error().code != Code::kUnavailable) return reader.error();
    if (!reader) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "it is no regular file"));
      continue;
    }
    SegmentVerdict verdict = reader->ReadHeader(kMaxParcelId);
    if (verdict == SegmentVerdict::kForeign) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "it is of another version, or no segment"));
    } else if (verdict == SegmentVerdict::kGood && reader->header().first_id != id) {
      RETURN_IF_ERROR(folder_.SetAside(name.data(), "its name is not the number of its first parcel"));
    } else {
      Segment& segment = found.emplace_back();
      segment.first_id = id;
      segment.end_id = id + 1;
      segment.file_bytes = reader->end();
      segment.readable = verdict == SegmentVerdict::kGood;
      torn_at_end = verdict == SegmentVerdict::kTorn ? torn_at_end + 1 : 0;
    }
  }
  // The last may have been only begun when the process ended. One before others held parcels once.
  for (; torn_at_end > 0; --torn_at_end) {
    RETURN_IF_ERROR(folder_.Remove(NameOfSegment(found.back().first_id).data()));
    found.pop_back();
  }
  return found;
}

// Counts what is left to deliver, and finds where the ids end.
Status DiskParcels::Scan(Segment& segment, uint64_t id_limit) {
  if (!segment.readable) return Ok();
  ASSIGN_OR_RETURN(SegmentReader reader,
                   SegmentReader::Open(folder_.fd(), NameOfSegment(segment.first_id).data()));
  if (reader.ReadHeader(id_limit) != SegmentVerdict::kGood) return Ok();
  segment.end_id = segment.first_id;
  while (auto record = reader.Next()) {
    segment.end_id = record->head.id + 1;
    if (record->head.id < cursor_) continue;
    segment.parcels += 1;
    segment.items += record->head.items;
    segment.bytes += record->head.size();
  }
  // Something stood there; how many parcels nobody can tell.
  if (reader.tail() == SegmentReader::Tail::kDamaged) segment.end_id += 1;
  return Ok();
}

// The position is written before a segment is removed, so what lies between it and the first parcel that is
// here was neither delivered nor dropped: its file is gone, or no segment any more.
void DiskParcels::LoseMissing(uint64_t first_id) {
  const bool written = position_.last().has_value();
  if (cursor_ >= first_id && written) return;
  if (cursor_ < first_id && written) {
    if (position_.of_this_boot()) {
      book_.Lose(ParcelLoss::kDamaged, first_id - cursor_, 0);
    } else {
      Log(LogLevel::kWarn, "delivery", "missing",
          "the first " + std::to_string(first_id - cursor_) +
              " parcels that were not known to be delivered are not here. They may have been delivered just "
              "before the machine went down.",
          options_.folder);
    }
  }
  cursor_ = std::max(cursor_, first_id);
  // Where none was, too: from here on a position that is missing was removed by somebody.
  WritePosition();
}

Status DiskParcels::Load() {
  ASSIGN_OR_RETURN(segments_, FindSegments());
  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    bool last = i + 1 == segments_.size();
    RETURN_IF_ERROR(Scan(segment, last ? kMaxParcelId : segments_[i + 1].first_id));
    if (last && segment.end_id == segment.first_id) {
      // A header and nothing whole behind it: its name is wanted for the next parcel.
      RETURN_IF_ERROR(folder_.Remove(NameOfSegment(segment.first_id).data()));
      next_id_ = segment.first_id;
      segments_.pop_back();
      break;
    }
    if (!last) segment.end_id = segments_[i + 1].first_id;
    counts_.parcels += segment.parcels;
    counts_.items += segment.items;
    counts_.bytes += segment.bytes;
    counts_.held += segment.file_bytes;
  }
  next_id_ = std::max(next_id_, cursor_);
  if (!segments_.empty()) {
    next_id_ = std::max(next_id_, segments_.back().end_id);
    segments_.back().end_id = next_id_;
  }
  LoseMissing(segments_.empty() ? next_id_ : segments_.front().first_id);
  MakeRoom(0);
  if (counts_.parcels > 0)
    Log(LogLevel::kInfo, "delivery", "taken_over",
        std::to_string(counts_.parcels) + " parcels of an earlier run wait for delivery", options_.folder);
  return Ok();
}

}  // namespace gpulens
