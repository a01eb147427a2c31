// Validates the GPU readings of a run against each other before its frame is frozen, for any collector, and
// estimates the energy of GPUs without an energy counter. The pipeline calls it; collectors need not know of
// it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/frame_writer.h"
#include "quality/cross_checks.h"

namespace gpulens {

// Used inside one instance's runs; not thread-safe. Does not allocate while the layout stays.
class GpuQuality {
 public:
  // `interval`: of the instance's runs.
  explicit GpuQuality(Duration interval) noexcept : interval_(interval) {}

  // Whether a collector with these rows has anything to check.
  static bool Concerns(std::span<const MetricDesc* const> metrics) noexcept;

  // After the collector has written, before Finish. Rejects through `out`, and declares the estimate on GPUs
  // that report power but no energy counter within ten seconds, or whose counter is rejected
  // for so long; the latter is taken away again when the counter is believed.
  void Validate(FrameWriter& out);

 private:
  struct Gpu {
    EntityRef entity;
    std::array<uint32_t, kCheckedQuantities> slots;  // UINT32_MAX: no such series
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
  void Reject(const Gpu& gpu, const CrossCheckResults& results, FrameWriter& out) const;
  void Estimate(Gpu& gpu, const CheckedReadings& readings, FrameWriter& out);

  const Duration interval_;
  uint64_t layout_id_ = 0;
  std::vector<Gpu> gpus_;
};

// Rejected readings as events: the first of a series and reason, then at most one in ten minutes.
class EventQueue;

// Used inside one instance's runs; not thread-safe. Allocates for an event only.
class QualityEvents {
 public:
  // Series and reasons that are remembered; when so many were reported in ten minutes, further ones are not.
  static constexpr size_t kMaxKnown = 4096;

  // After the run: reports what it rejected.
  void Report(const FrameWriter& run, EventQueue& queue);

 private:
  std::unordered_map<uint64_t, int64_t> reported_ns_;  // by series and reason
};

}  // namespace gpulens
