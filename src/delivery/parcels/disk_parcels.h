// Parcels on disk: segments that only grow at their end, removed as a whole when all in them is done, and a
// position.
//
// Ids are consecutive over all segments, and a segment's name is the id of its first parcel. So every id
// between the position and the last is accounted for: it comes out of Front, or it is in the LossBook,
// however the files look. In memory are the segments (64 bytes each), one open reader and one writer: no
// parcel, no index of parcels.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "delivery/parcels/parcel_store.h"
#include "delivery/parcels/position_file.h"
#include "delivery/parcels/queue_folder.h"
#include "delivery/parcels/segment_file.h"

namespace gpulens {

class DiskParcels final : public ParcelStore {
 public:
  // Takes over what is in the folder. Reads the heads of all parcels in it, no bodies.
  static Result<std::unique_ptr<DiskParcels>> Open(const ParcelQueueOptions& options, Instant now,
                                                   LossBook& book);
  ~DiskParcels() override;

  Status Push(std::string_view bytes, uint32_t items, Instant now) override;
  std::optional<Parcel> Front(Instant now) override;
  void Pop(uint64_t id) override;
  Counts counts() const noexcept override { return counts_; }
  std::optional<ParcelStamp> Oldest() override;
  ToSync DueSync(Instant now) override;
  void SyncFailed(Status status) override;
  const Status& last() const noexcept override { return last_; }

 private:
  struct Segment {
    uint64_t first_id = 0, end_id = 0;
    uint64_t file_bytes = 0;
    uint64_t parcels = 0, items = 0, bytes = 0;  // with whole heads, not yet removed
    bool readable = true;
  };

  DiskParcels(const ParcelQueueOptions& options, QueueFolder folder, PositionFile position, Instant now,
              LossBook& book);
  Status Load();
  Result<std::deque<Segment>> FindSegments();
  Status Scan(Segment& segment, uint64_t id_limit);
  void LoseMissing(uint64_t first_id);

  Status Write(const RecordHead& head, std::string_view bytes);
  Status Begin();
  Status SyncWritten(bool new_file);
  void Seal();
  void MakeRoom(uint64_t bytes);

  bool FindNext();
  bool OpenFront();
  ParcelStamp StampOfNext() const noexcept;
  void Advance();
  void LoseNext(ParcelLoss reason);
  void LoseOld(Instant now);
  void RemoveFront(ParcelLoss reason);
  void WritePosition();
  void Note(Status status);

  const ParcelQueueOptions options_;
  const uint64_t segment_bytes_;
  const BootId boot_id_;
  const ParcelAges ages_;
  QueueFolder folder_;
  PositionFile position_;
  std::deque<Segment> segments_;         // oldest first
  std::optional<SegmentWriter> writer_;  // of segments_.back()
  std::optional<SegmentReader> reader_;  // of segments_.front()
  std::optional<SegmentReader::Record> next_;
  uint64_t cursor_ = 1;   // all ids below are done
  uint64_t next_id_ = 1;  // of the next Push
  Counts counts_;
  int64_t synced_boot_ns_ = 0;
  bool dirty_ = false;
  Status last_;
};

// The machine's start as a number: from its text, or from the kernel where that is empty. Zeros when unknown.
BootId BootIdOf(const std::string& text);

}  // namespace gpulens
