#include "plugins/collectors/nvidia/gpu_run.h"

#include "quality/raw_rule.h"

namespace gpulens {

using nvml::FieldReading;
using nvml::ReadStatus;
using nvml::Tier;

const FieldReading* GpuRun::Fresh(nvml::Field field) const {
  return Fresh(gpu[field], nvml::InfoOf(field).tier);
}

const FieldReading* GpuRun::Fresh(const FieldReading& reading, Tier tier) const {
  if (reading.status != ReadStatus::kOk || reading.boot_ns == 0) return nullptr;
  // A GPU that no longer answers has no slow readings that still hold.
  if (now.boot_ns - gpu.last_read_boot_ns > max_age.ns[static_cast<size_t>(Tier::kFast)]) return nullptr;
  int64_t read_ns = tier == Tier::kStatic ? gpu.last_read_boot_ns : reading.boot_ns;
  int64_t age = now.boot_ns - read_ns;
  if (age > max_age.ns[static_cast<size_t>(tier == Tier::kStatic ? Tier::kFast : tier)]) return nullptr;
  out.ReadAt(now + Duration(-age));
  return &reading;
}

const FieldReading* GpuRun::Known(nvml::Field field, const MetricDesc& metric) const {
  const FieldReading* reading = Fresh(field);
  return reading && !SaysNothing(metric, reading->raw) ? reading : nullptr;
}

bool ReadingSeries::IsNew(const FieldReading& reading) noexcept {
  if (reading.boot_ns == at_ns) return false;
  at_ns = reading.boot_ns;
  return true;
}

void ReadingSeries::Write(const GpuRun& run, const FieldReading& reading, double per) {
  FrameWriter& out = run.out;
  if (!IsNew(reading)) {
    if (good) out.Keep(series);
    return;
  }
  uint64_t before = out.counts().accepted;
  if (out.table().Live(series) && SaysNothing(*out.table().InfoAt(series.slot).desc, reading.raw)) {
    out.Reject(series, Validation::kSentinel);
  } else if (per == 1) {
    out.Set(series, reading.raw);
  } else {
    out.Set(series, static_cast<double>(reading.raw) / per);
  }
  good = out.counts().accepted != before;
}

}  // namespace gpulens
