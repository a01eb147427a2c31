// Removes readings of a GPU that two sources have: its driver and the page of an exporter. The driver's
// reading is kept; readings that it does not have still come from the page.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Works on a snapshot before it is published. A reading is identified by its metric, the GPU's UUID, the
// MIG instance and the attributes of its row; where a number was counted (gpu.interconnect.source) and
// whatever labels the page adds do not make another one. What is fixed (info) is known by metric and GPU
// alone, and without a UUID by gpu.vendor.
//
// Not thread-safe. Does not allocate while the layouts stay.
class GpuOverlap {
 public:
  // Puts copies without the repeated series in place of frames of lower standing that have some. Calls
  // `dropped(source, series)` when more series of a source are repeated than before.
  void Apply(Snapshot& snapshot, const std::function<void(std::string_view, uint64_t)>& dropped);

 private:
  struct Place {
    uint32_t frame = 0, slot = 0;
  };
  struct Repeat {
    Place page, native;
  };

  bool PlanFits(const Snapshot& snapshot) const noexcept;
  void Plan(const Snapshot& snapshot, const std::function<void(std::string_view, uint64_t)>& dropped);
  void Hide(Snapshot& snapshot, std::span<const Repeat> repeats);
  // Calls `visit` with the repeats of each frame.
  template <class Visit>
  void ForEachFrame(Visit visit) const;
  Ref<Frame> Copy(const Frame& frame);

  std::vector<uint64_t> planned_;                           // layout ids, each with its standing
  std::vector<Repeat> repeats_;                             // by frame of the page
  std::vector<std::pair<std::string, uint64_t>> reported_;  // sources and how many of theirs are repeated
  std::vector<Ref<Frame>> pool_;
};

}  // namespace gpulens
