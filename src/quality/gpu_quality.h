// Judges the GPU readings of a run against each other before its frame is frozen, whatever collector made
// them, and estimates the energy of GPUs that have no counter for it. The pipeline calls it; collectors need
// not know of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/frame_writer.h"
#include "quality/cross_checks.h"

namespace gpulens {

// Used inside one instance's runs; not thread-safe. Does not allocate while the layout stays.
class GpuQuality {
 public:
  // `interval`: of the instance's runs.
  explicit GpuQuality(Duration interval) noexcept : interval_(interval) {}

  // Whether a collector with these rows has anything to judge.
  static bool Concerns(std::span<const MetricDesc* const> metrics) noexcept;

  // After the collector has written, before Finish. Rejects through `out`, and declares the estimate on GPUs
  // that tell their power but have not told an energy counter ten seconds later, or whose counter is rejected
  // for so long; the latter is taken away again when the counter is believed.
  void Validate(FrameWriter& out);

 private:
  struct Gpu {
    EntityRef entity;
    std::array<uint32_t, kTwins> slots;  // UINT32_MAX: no such series
    std::vector<uint32_t> derived_of_power, derived_of_used;
    CrossChecker validate;
    EnergyEstimate energy;
    Series joules, error;
    int64_t power_since_ns = 0;
    int64_t rejected_since_ns = 0;  // The energy counter, in each reading; 0: not now.
    bool bound = false;
  };

  void Bind(SeriesTable& table, const Layout& layout);
  Gpu& Of(const EntityRef& entity);
  CheckedReadings Read(const Gpu& gpu, const FrameWriter& out) const;
  void Reject(const Gpu& gpu, const CrossCheckResults& verdicts, FrameWriter& out) const;
  void Estimate(Gpu& gpu, const CheckedReadings& readings, FrameWriter& out);

  const Duration interval_;
  uint64_t layout_id_ = 0;
  std::vector<Gpu> gpus_;
};

}  // namespace gpulens
