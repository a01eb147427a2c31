// The series of one family in a tick: what analyzers and special pages ask for, without a walk over
// every series each time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Remembers per layout which slots belong to the family. Not thread-safe; one per user. Does not
// allocate while the layouts stay.
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
    Forget();
  }

 private:
  struct Known {
    std::vector<uint32_t> slots;
    uint64_t used = 0;
  };
  const std::vector<uint32_t>& SlotsOf(const Layout& layout);
  void Forget();

  const MetricDesc* desc_;
  std::unordered_map<uint64_t, Known> by_layout_;
  uint64_t visit_ = 1;
};

}  // namespace gpulens
