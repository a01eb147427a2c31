#include "delivery/parcels/memory_parcels.h"

#include "delivery/parcels/segment_format.h"

namespace gpulens {

MemoryParcels::MemoryParcels(uint64_t max_bytes, Duration max_age, Instant opened, LossBook& book)
    : ParcelStore(book), max_bytes_(max_bytes), max_age_(max_age), ages_(opened), slots_(16) {}

uint64_t MemoryParcels::SizeOf(const std::string& bytes) noexcept { return bytes.size() + sizeof(Slot); }

void MemoryParcels::Grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  for (uint64_t id = first_; id < first_ + counts_.parcels; ++id)
    larger[id % larger.size()] = std::move(slots_[id % slots_.size()]);
  slots_ = std::move(larger);
}

Status MemoryParcels::Push(std::string_view bytes, uint32_t items, Instant now) {
  uint64_t size = bytes.size() + sizeof(Slot);
  if (size > max_bytes_ || bytes.size() > kMaxParcelBytes) {
    book_.Lose(ParcelLoss::kTooLarge, 1, items);
    return {Code::kInvalidArgument,
            "a parcel of " + std::to_string(bytes.size()) + " bytes is larger than the queue"};
  }
  LoseOld(now);
  while (counts_.held + size > max_bytes_) LoseOldest(ParcelLoss::kFull);
  if (counts_.parcels == slots_.size()) Grow();
  Slot& slot = slots_[(first_ + counts_.parcels) % slots_.size()];
  slot.bytes.assign(bytes);
  slot.items = items;
  slot.stamp = {now.unix_ns, now.boot_ns, true};
  counts_.parcels += 1;
  counts_.items += items;
  counts_.bytes += size;
  counts_.held += size;
  return Ok();
}

std::optional<Parcel> MemoryParcels::Front(Instant now) {
  LoseOld(now);
  if (counts_.parcels == 0) return std::nullopt;
  const Slot& slot = oldest();
  return Parcel{first_, slot.bytes, slot.items, slot.stamp.unix_ns};
}

void MemoryParcels::Pop(uint64_t id) {
  if (counts_.parcels > 0 && id == first_) RemoveOldest();
}

std::optional<ParcelStamp> MemoryParcels::Oldest() {
  if (counts_.parcels == 0) return std::nullopt;
  return oldest().stamp;
}

void MemoryParcels::RemoveOldest() {
  Slot& slot = oldest();
  counts_.parcels -= 1;
  counts_.items -= slot.items;
  counts_.bytes -= SizeOf(slot.bytes);
  counts_.held -= SizeOf(slot.bytes);
  slot.bytes = std::string();  // gives its memory back
  ++first_;
}

void MemoryParcels::LoseOldest(ParcelLoss reason) {
  book_.LoseRange(reason, first_, first_ + 1, 1, oldest().items);
  RemoveOldest();
}

void MemoryParcels::LoseOld(Instant now) {
  if (max_age_.count() <= 0) return;
  while (counts_.parcels > 0 && ages_.Of(oldest().stamp, now) > max_age_) LoseOldest(ParcelLoss::kOld);
}

}  // namespace gpulens
