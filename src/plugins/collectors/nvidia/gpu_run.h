// What the parts of a GPU's series share in one run of the collector: its readings, how old they may
// be, and how one of them becomes a value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/frame_writer.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {

// Ages up to which a reading counts as just read, by tier: one period and what a reader may be late.
struct FieldMaxAge {
  std::array<int64_t, nvml::kTierCount> ns{};
};

// Lives as long as one run.
struct GpuRun {
  const nvml::Gpu& gpu;
  const EntityRef& entity;
  const FieldMaxAge& max_age;
  Instant now;
  FrameWriter& out;
  std::span<const nvml::Gpu> all = {};  // The GPUs of the machine, for paths between them.

  // The reading when it is good and young enough; null otherwise. Makes `out` date it. What was read once
  // holds as long as the GPU answers.
  const nvml::FieldReading* Fresh(nvml::Field field) const;
  const nvml::FieldReading* Fresh(const nvml::FieldReading& reading, nvml::Tier tier) const;
  // The same for what others are derived from: null, too, when it says that the driver does not know.
  const nvml::FieldReading* Known(nvml::Field field, const MetricDesc& metric) const;
};

// A series and the reading that it shows. A reading is judged once, however often it is looked at: else one
// glitch of a slow counter would agree with itself.
struct ReadingSeries {
  Series series;
  int64_t at_ns = 0;
  bool good = false;

  explicit operator bool() const noexcept { return static_cast<bool>(series); }
  // `per`: of the driver's unit in one of the metric's.
  void Write(const GpuRun& run, const nvml::FieldReading& reading, double per = 1);
  // True when the reading is newer than the last one; marks it as seen.
  bool IsNew(const nvml::FieldReading& reading) noexcept;
};

}  // namespace gpulens
