#include "delivery/parcels/disk_parcels.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace gpulens {

DiskParcels::~DiskParcels() {
  if (options_.sync != ParcelSync::kNone && writer_ && dirty_) (void)writer_->Sync();
}

void DiskParcels::Note(Status status) {
  if (!status || !last_) last_ = std::move(status);
}

// --- In at the end ---

Status DiskParcels::Push(std::string_view bytes, uint32_t items, Instant now) {
  if (bytes.size() > kMaxParcelBytes ||
      bytes.size() + kRecordHeadBytes + kSegmentHeaderBytes > options_.max_bytes) {
    book_.Lose(ParcelLoss::kTooLarge, 1, items);
    return {Code::kInvalidArgument,
            "a parcel of " + std::to_string(bytes.size()) + " bytes is larger than the queue"};
  }
  LoseOld(now);
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
  if (status.code == Code::kExhausted && counts_.parcels == 0 && !segments_.empty()) {
    Seal();  // what is delivered need not hold the room
    while (!segments_.empty()) RemoveFront(ParcelLoss::kDamaged);
    status = Write(head, bytes);
  }
  if (!status) status.detail += " of " + options_.folder;
  Note(status);
  return status;
}

Status DiskParcels::Write(const RecordHead& head, std::string_view bytes) {
  if (writer_ && (writer_->broken() || writer_->size() + head.size() > segment_bytes_)) Seal();
  MakeRoom(head.size() + kSegmentHeaderBytes);
  if (!writer_) RETURN_IF_ERROR(Begin());
  uint64_t before = writer_->size();
  Status status = writer_->Append(head, bytes);
  bool unsynced = false;
  if (status && options_.sync == ParcelSync::kAlways) {
    status = SyncWritten(before == 0);
    unsynced = !status;
    if (unsynced) writer_->TakeBack(before);
  }
  if (!status) {
    // After a failed sync the kernel has forgotten what it could not write: begin with a fresh file.
    if (unsynced || before == 0) writer_.reset();
    if (before == 0) Note(folder_.Remove(NameOfSegment(next_id_).data()));
    return status;
  }
  if (before == 0) segments_.push_back({.first_id = next_id_});
  Segment& segment = segments_.back();
  uint64_t grown = writer_->size() - before;
  segment.end_id = ++next_id_;
  segment.file_bytes += grown;
  segment.parcels += 1;
  segment.items += head.items;
  segment.bytes += head.size();
  counts_.parcels += 1;
  counts_.items += head.items;
  counts_.bytes += head.size();
  counts_.held += grown;
  dirty_ = true;
  return Ok();
}

Status DiskParcels::Begin() {
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

Status DiskParcels::SyncWritten(bool new_file) {
  RETURN_IF_ERROR(writer_->Sync());
  return new_file ? folder_.Sync() : Ok();
}

// The next Push begins a new segment.
void DiskParcels::Seal() {
  if (writer_ && dirty_ && options_.sync == ParcelSync::kInterval) Note(SyncWritten(true));
  writer_.reset();
}

// Drops the oldest segments until so many bytes more fit.
void DiskParcels::MakeRoom(uint64_t bytes) {
  while (counts_.held + bytes > options_.max_bytes && !segments_.empty()) {
    if (segments_.size() == 1) Seal();
    RemoveFront(ParcelLoss::kFull);
  }
}

// --- Out at the front ---

bool DiskParcels::OpenFront() {
  const Segment& front = segments_.front();
  bool growing = writer_ && segments_.size() == 1;
  auto reader = SegmentReader::Open(folder_.fd(), NameOfSegment(front.first_id).data());
  if (!reader) {
    bool gone = reader.error().code == Code::kUnavailable;
    Note(std::move(reader).error());
    // No descriptor left, or no permission: it is still there, and may be read later.
    if (!gone) return false;
    if (growing) Seal();
    RemoveFront(ParcelLoss::kDamaged);
    return true;
  }
  if (reader->ReadHeader(growing ? kMaxParcelId : front.end_id) == SegmentVerdict::kGood) {
    reader_.emplace(std::move(*reader));
  } else {
    if (growing) Seal();
    RemoveFront(ParcelLoss::kDamaged);
  }
  return true;
}

// Makes next_ the oldest parcel. False when there is none, or it cannot be read just now.
bool DiskParcels::FindNext() {
  while (!next_ && !segments_.empty()) {
    if (!reader_) {
      if (!OpenFront()) return false;
      continue;
    }
    reader_->set_end(segments_.front().file_bytes);
    if (auto record = reader_->Next()) {
      uint64_t id = record->head.id;
      if (id < cursor_) continue;
      next_ = record;
      if (id == cursor_) continue;
      book_.LoseRange(ParcelLoss::kDamaged, cursor_, id, id - cursor_, 0);
      cursor_ = id;
      WritePosition();  // so that the next run does not count them again
      continue;
    }
    if (writer_ && segments_.size() == 1) {
      bool small = segments_.front().file_bytes < segment_bytes_ / 4;
      if (cursor_ == next_id_ && small) return false;  // all is delivered, and more may come into this file
      Seal();
    }
    RemoveFront(ParcelLoss::kDamaged);
  }
  return next_.has_value();
}

ParcelStamp DiskParcels::StampOfNext() const noexcept {
  const BootId& boot_id = reader_->header().boot_id;
  return {next_->head.unix_ns, next_->head.boot_ns, boot_id == boot_id_ && boot_id != BootId{}};
}

std::optional<Parcel> DiskParcels::Front(Instant now) {
  LoseOld(now);
  bool moved = false;
  std::optional<Parcel> parcel;
  while (!parcel && FindNext()) {
    const RecordHead& head = next_->head;
    parcel.emplace();
    Status status = reader_->ReadBody(*next_, parcel->bytes);
    if (status) {
      parcel->id = head.id;
      parcel->items = head.items;
      parcel->queued_unix_ns = head.unix_ns;
    } else {
      Note(std::move(status));
      LoseNext(ParcelLoss::kDamaged);
      parcel.reset();
      moved = true;
    }
  }
  if (moved) WritePosition();
  return parcel;
}

void DiskParcels::Pop(uint64_t id) {
  if (!FindNext() || next_->head.id != id) return;
  Advance();
  WritePosition();
}

std::optional<ParcelStamp> DiskParcels::Oldest() {
  if (!FindNext()) return std::nullopt;
  return StampOfNext();
}

void DiskParcels::Advance() {
  Segment& front = segments_.front();
  const RecordHead& head = next_->head;
  // A file that was changed under us may hold other heads than those that were counted.
  uint64_t parcels = std::min<uint64_t>(front.parcels, 1),
           items = std::min<uint64_t>(front.items, head.items);
  uint64_t bytes = std::min(front.bytes, head.size());
  front.parcels -= parcels, counts_.parcels -= parcels;
  front.items -= items, counts_.items -= items;
  front.bytes -= bytes, counts_.bytes -= bytes;
  cursor_ = head.id + 1;
  next_.reset();
}

void DiskParcels::LoseNext(ParcelLoss reason) {
  book_.LoseRange(reason, next_->head.id, next_->head.id + 1, 1, next_->head.items);
  Advance();
}

void DiskParcels::LoseOld(Instant now) {
  if (options_.max_age.count() <= 0) return;
  bool moved = false;
  while (FindNext() && ages_.Of(StampOfNext(), now) > options_.max_age) {
    LoseNext(ParcelLoss::kOld);
    moved = true;
  }
  if (moved) WritePosition();
}

// What is left in the segment is lost for `reason`; ids that no whole head stands for are damaged.
void DiskParcels::RemoveFront(ParcelLoss reason) {
  Segment front = segments_.front();
  segments_.pop_front();
  reader_.reset();
  next_.reset();
  uint64_t ids = front.end_id > cursor_ ? front.end_id - cursor_ : 0;
  uint64_t known = std::min(front.parcels, ids);
  book_.LoseRange(reason, cursor_, front.end_id, known, front.items);
  book_.Lose(ParcelLoss::kDamaged, ids - known, 0);
  cursor_ = std::max(cursor_, front.end_id);
  // Before the file goes: what is missing behind the position counts as damaged when the queue is opened.
  if (position_.last() != cursor_) WritePosition();
  counts_.parcels -= front.parcels;
  counts_.items -= front.items;
  counts_.bytes -= front.bytes;
  counts_.held -= front.file_bytes;
  Note(folder_.Remove(NameOfSegment(front.first_id).data()));
}

// --- What the disk knows ---

void DiskParcels::WritePosition() {
  Status status = position_.Write(cursor_);
  if (status && options_.sync == ParcelSync::kAlways) status = position_.Sync();
  dirty_ = true;
  Note(std::move(status));
}

ParcelStore::ToSync DiskParcels::DueSync(Instant now) {
  bool due = options_.sync == ParcelSync::kInterval && dirty_ &&
             now.boot_ns - synced_boot_ns_ >= options_.sync_interval.count();
  if (!due) return {};
  dirty_ = false;
  synced_boot_ns_ = now.boot_ns;
  return {writer_ ? writer_->Duplicate() : UniqueFd(), position_.Duplicate(), folder_.Duplicate()};
}

void DiskParcels::SyncFailed(Status status) {
  writer_.reset();
  Note(std::move(status));
}

}  // namespace gpulens
