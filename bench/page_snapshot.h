// The series of an exposition page as snapshots, so that benchmarks of ours and of peers work on the
// same series. Two pages with the same lines become two snapshots with one layout. Benchmarks only.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "core/frame.h"
#include "core/series_table.h"

namespace gpulens {

// Not thread-safe to load; what At returns is immutable.
class PageSnapshots {
 public:
  // Both are text 0.0.4. kDataLoss when one has a bad line or they differ in more than numbers.
  Status Load(std::string_view page, std::string_view next);
  // The tick's snapshot: numbers of `page` and of `next` take turns.
  Ref<const Snapshot> At(uint64_t tick) const;
  // The same, but counters and histograms never fall, as in life: each tick they gain what `next` has
  // more than `page`. Makes a frame.
  Ref<const Snapshot> GrownAt(uint64_t tick) const;
  uint32_t samples() const noexcept { return samples_; }

 private:
  static Ref<const Snapshot> Show(Ref<const Frame> frame, uint64_t tick);

  SeriesTable table_;
  std::array<Ref<const Frame>, 2> frames_;
  uint32_t samples_ = 0;
};

}  // namespace gpulens
