// What the series of one GPU share in one run of the collector: its readings, how old they may be, and how
// one of them becomes a value.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/frame_writer.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens::nvidia {

// Ages up to which a reading counts as just read, by tier: one period and the lateness of a reader.
struct FieldMaxAge {
  std::array<int64_t, nvml::kTierCount> ns{};
  int64_t of(nvml::Tier tier) const noexcept { return ns[static_cast<size_t>(tier)]; }
};

// Lives as long as one run.
struct GpuRun {
  const nvml::Gpu& gpu;
  const EntityRef& entity;
  const FieldMaxAge& max_age;
  Instant now;
  FrameWriter& out;
  std::span<const nvml::Gpu> all = {};  // the GPUs of the machine, for paths between them

  SeriesTable& table() const noexcept { return out.table(); }
  // The GPU has answered within the last interval.
  bool live() const noexcept {
    return gpu.last_read_boot_ns != 0 && now.boot_ns - gpu.last_read_boot_ns <= max_age.ns[0];
  }
  // The reading if it is good and young enough, else null; dates what `out` is given next. A static reading
  // holds as long as the GPU answers.
  const nvml::FieldReading* Fresh(nvml::Field field) const;
  const nvml::FieldReading* Fresh(const nvml::FieldReading& reading, nvml::Tier tier) const;
  const nvml::SliceValue* Fresh(const nvml::SliceValue& value, nvml::Tier tier) const;
  // For readings from which values are derived: null, too, when it is a sentinel of the metric.
  const nvml::FieldReading* Valid(nvml::Field field, const MetricDesc& metric) const;
};

// A series and the reading that it shows. Each reading is validated once, however often it is repeated: else
// one glitch of a slow counter would confirm itself.
struct ReadingSeries {
  Series series;
  int64_t at_ns = 0;
  bool good = false;

  explicit operator bool() const noexcept { return static_cast<bool>(series); }
  // `per`: of the library's unit in one of the metric's.
  void Write(const GpuRun& run, const nvml::FieldReading& reading, double per = 1);
  // True when the reading is newer than the last one; marks it as seen.
  bool IsNew(const nvml::FieldReading& reading) noexcept;
};

// The rate of a counter, from two readings of it.
struct RateSeries {
  Series series;
  int64_t raw = 0, at_ns = 0;

  // `declare` makes the series at the second reading. A counter that fell has restarted or wrapped: no rate
  // then.
  template <class Declare>
  void Update(FrameWriter& out, int64_t now_raw, int64_t boot_ns, Declare declare) {
    const bool first = at_ns == 0;
    if (!first && !series) series = declare();
    if (!first && boot_ns == at_ns) return out.Keep(series);
    if (!first && now_raw >= raw)
      out.Set(series, static_cast<double>(now_raw - raw) / (static_cast<double>(boot_ns - at_ns) * 1e-9));
    raw = now_raw;
    at_ns = boot_ns;
  }
};

}  // namespace gpulens::nvidia
