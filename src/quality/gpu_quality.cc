#include "quality/gpu_quality.h"

#include <algorithm>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

constexpr uint32_t kNoSlot = UINT32_MAX;
// A driver may tell its energy counter later than its power.
constexpr int64_t kCounterTimeout = 10'000'000'000;

struct CrossCheckRow {
  const MetricDesc* metric;
  CheckedQuantity twin;
  std::string_view key = {}, value = {};
};
constexpr CrossCheckRow kRows[] = {
    {&kGpuPowerDraw, CheckedQuantity::kPower},
    {&kGpuPowerInstant, CheckedQuantity::kPowerInstant},
    {&kGpuPowerLimit, CheckedQuantity::kPowerLimitMax, "gpu.power.limit_type", "max"},
    {&kGpuEnergyConsumption, CheckedQuantity::kEnergy},
    {&kGpuMemoryUsed, CheckedQuantity::kMemoryUsed},
    {&kGpuMemoryFree, CheckedQuantity::kMemoryFree},
    {&kGpuMemoryReserved, CheckedQuantity::kMemoryReserved},
    {&kGpuMemoryTotal, CheckedQuantity::kMemoryTotal},
    {&kGpuUtilization, CheckedQuantity::kBusy},
    {&kGpuSmActive, CheckedQuantity::kSmActive},
    {&kGpuTemperature, CheckedQuantity::kEdge, "gpu.temperature.sensor", "edge"},
    {&kGpuTemperature, CheckedQuantity::kHotspot, "gpu.temperature.sensor", "hotspot"},
    {&kGpuTemperature, CheckedQuantity::kMemoryTemperature, "gpu.temperature.sensor", "memory"},
    {&kGpuProcesses, CheckedQuantity::kProcesses, "gpu.process.type", "compute"},
};

std::string_view TextOf(const AttributeSet& attributes, std::string_view key) {
  AttributeSet::Value value = attributes.Find(key, std::string_view());
  const auto* text = std::get_if<std::string_view>(&value);
  return text ? *text : std::string_view();
}

// GPUs and their slices have meters; processes have none.
bool IsGpu(const Entity& entity) { return entity.type.starts_with("gpu"); }

}  // namespace

bool GpuQuality::Concerns(std::span<const MetricDesc* const> metrics) noexcept {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const CrossCheckRow& row) {
    return std::find(metrics.begin(), metrics.end(), row.metric) != metrics.end();
  });
}

GpuQuality::Gpu& GpuQuality::Of(const EntityRef& entity) {
  auto at = std::find_if(gpus_.begin(), gpus_.end(), [&](const Gpu& gpu) {
    return gpu.entity == entity || gpu.entity->attributes == entity->attributes;
  });
  if (at == gpus_.end()) {
    gpus_.emplace_back();
    at = gpus_.end() - 1;
    at->entity = entity;
    at->slots.fill(kNoSlot);
  }
  at->bound = true;
  return *at;
}

void GpuQuality::Bind(SeriesTable& table, const Layout& layout) {
  layout_id_ = layout.id();
  for (Gpu& gpu : gpus_) {
    gpu.bound = false;
    gpu.slots.fill(kNoSlot);
    gpu.derived_of_power.clear();
    gpu.derived_of_used.clear();
    if (!table.Live(gpu.joules)) gpu.joules = gpu.error = {};
  }
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!info.desc || !info.entity || !IsGpu(*info.entity)) continue;
    if (info.desc == &kGpuPowerUtilization) Of(info.entity).derived_of_power.push_back(slot);
    if (info.desc == &kGpuMemoryUsedPercent) Of(info.entity).derived_of_used.push_back(slot);
    for (const CrossCheckRow& row : kRows) {
      if (row.metric != info.desc) continue;
      if (!row.key.empty() && TextOf(info.attributes, row.key) != row.value) continue;
      Of(info.entity).slots[static_cast<size_t>(row.twin)] = slot;
    }
  }
  // What left the table had its series retired with it.
  std::erase_if(gpus_, [](const Gpu& gpu) { return !gpu.bound; });
}

CheckedReadings GpuQuality::Read(const Gpu& gpu, const FrameWriter& out) const {
  CheckedReadings readings;
  readings.now_ns = out.begun_at().boot_ns;
  readings.interval = interval_;
  for (size_t i = 0; i < kTwins; ++i) {
    if (gpu.slots[i] == kNoSlot) continue;
    if (auto fresh = out.SetInThisRun(gpu.slots[i]))
      readings.of[i] = CheckedReading{fresh->value, fresh->at_ns};
  }
  return readings;
}

void GpuQuality::Reject(const Gpu& gpu, const CrossCheckResults& verdicts, FrameWriter& out) const {
  for (size_t i = 0; i < kTwins; ++i) {
    if (verdicts.of[i] != Validation::kAccepted) out.Reject(out.HandleOf(gpu.slots[i]), verdicts.of[i]);
  }
  // A share of what is not believed is not believed.
  auto reject_derived = [&](CheckedQuantity twin, const std::vector<uint32_t>& slots) {
    if (verdicts[twin] == Validation::kAccepted) return;
    for (uint32_t slot : slots) {
      if (out.SetInThisRun(slot)) out.Reject(out.HandleOf(slot), verdicts[twin]);
    }
  };
  reject_derived(CheckedQuantity::kPower, gpu.derived_of_power);
  reject_derived(CheckedQuantity::kMemoryUsed, gpu.derived_of_used);
}

void GpuQuality::Estimate(Gpu& gpu, const CheckedReadings& readings, FrameWriter& out) {
  const int64_t now = out.begun_at().boot_ns;
  const bool stands_still = gpu.rejected_since_ns != 0 && now - gpu.rejected_since_ns >= kCounterTimeout;
  if (gpu.slots[static_cast<size_t>(CheckedQuantity::kEnergy)] != kNoSlot && !stands_still) {
    out.table().Retire(gpu.joules);
    out.table().Retire(gpu.error);
    gpu.joules = gpu.error = {};
    return;
  }
  const auto& power = readings[CheckedQuantity::kPower];
  if (!power) return;
  if (gpu.power_since_ns == 0) gpu.power_since_ns = power->at_ns;
  gpu.energy.Observe(*power, interval_);
  if (!gpu.joules) {
    if (power->at_ns - gpu.power_since_ns < std::max(kCounterTimeout, 2 * interval_.count())) return;
    gpu.joules = out.table().Declare(kGpuEnergyEstimate, gpu.entity);
    gpu.error = out.table().Declare(kGpuEnergyEstimateError, gpu.entity);
  }
  out.ReadAt({power->at_ns, out.begun_at().unix_ns - (out.begun_at().boot_ns - power->at_ns)});
  out.Set(gpu.joules, gpu.energy.joules());
  out.Set(gpu.error, gpu.energy.error_joules());
  out.ReadAt(out.begun_at());
}

void GpuQuality::Validate(FrameWriter& out) {
  Ref<const Layout> layout = out.table().Freeze();
  if (layout->id() != layout_id_) Bind(out.table(), *layout);
  for (Gpu& gpu : gpus_) {
    CheckedReadings readings = Read(gpu, out);
    CrossCheckResults verdicts = gpu.validate.Validate(readings);
    Reject(gpu, verdicts, out);
    if (readings[CheckedQuantity::kEnergy]) {
      if (verdicts[CheckedQuantity::kEnergy] == Validation::kAccepted) gpu.rejected_since_ns = 0;
      else if (gpu.rejected_since_ns == 0) gpu.rejected_since_ns = out.begun_at().boot_ns;
    }
    // Power that is not believed is not integrated.
    if (verdicts[CheckedQuantity::kPower] != Validation::kAccepted) readings[CheckedQuantity::kPower].reset();
    Estimate(gpu, readings, out);
  }
}

}  // namespace gpulens
