// Parcels in memory: a ring bounded by bytes. They go with the process.
#pragma once

#include <string>
#include <vector>

#include "delivery/parcels/parcel_store.h"

namespace gpulens {

class MemoryParcels final : public ParcelStore {
 public:
  MemoryParcels(uint64_t max_bytes, Duration max_age, Instant opened, LossBook& book);

  Status Push(std::string_view bytes, uint32_t items, Instant now) override;
  std::optional<Parcel> Front(Instant now) override;
  void Pop(uint64_t id) override;
  Counts counts() const noexcept override { return counts_; }
  std::optional<ParcelStamp> Oldest() override;
  const Status& last() const noexcept override { return last_; }

 private:
  struct Slot {
    std::string bytes;
    uint32_t items = 0;
    ParcelStamp stamp;
  };
  static uint64_t SizeOf(const std::string& bytes) noexcept;
  Slot& oldest() noexcept { return slots_[first_ % slots_.size()]; }
  void Grow();
  void RemoveOldest();
  void LoseOldest(ParcelLoss reason);
  void LoseOld(Instant now);

  const uint64_t max_bytes_;
  const Duration max_age_;
  const ParcelAges ages_;
  std::vector<Slot> slots_;  // a ring: parcel `id` is in slot id % size
  uint64_t first_ = 1;       // id of the oldest
  Counts counts_;
  Status last_;
};

}  // namespace gpulens
