// Finds the series of one family in a tick without a scan of all series.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Caches the slots of the family per layout. Not thread-safe; one per user. Does not allocate while the
// layouts stay.
class SeriesFinder {
 public:
  explicit SeriesFinder(const MetricDesc& desc) noexcept : desc_(&desc) {}

  // Calls `visit(info, value, frame, slot)` for each series of the family that has a value, stale ones
  // included.
  template <class Visit>
  void ForEach(const Snapshot& snapshot, Visit&& visit) {
    for (const SnapshotEntry& entry : snapshot.frames) {
      const Frame& frame = *entry.frame;
      for (uint32_t slot : SlotsOf(*frame.layout)) {
        if (frame.quality[slot] == Quality::kAbsent) continue;
        const SeriesInfo& info = (*frame.layout)[slot];
        Cell cell = frame.cells[info.first_cell];
        visit(info, desc_->number == Number::kInt ? static_cast<double>(cell.i) : cell.d, frame, slot);
      }
    }
    // Drops layouts that were not part of this walk.
    std::erase_if(by_layout_, [this](const auto& item) { return item.second.used != visit_; });
    ++visit_;
  }

 private:
  struct Slots {
    std::vector<uint32_t> slots;
    uint64_t used = 0;
  };
  const std::vector<uint32_t>& SlotsOf(const Layout& layout) {
    auto [at, added] = by_layout_.try_emplace(layout.id());
    if (added) {
      for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
        if (layout[slot].desc == desc_) at->second.slots.push_back(slot);
      }
    }
    at->second.used = visit_;
    return at->second.slots;
  }

  const MetricDesc* desc_;
  std::unordered_map<uint64_t, Slots> by_layout_;
  uint64_t visit_ = 1;
};

}  // namespace gpulens
