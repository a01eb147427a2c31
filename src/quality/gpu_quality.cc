#include "quality/gpu_quality.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "catalog/gpu.h"
#include "plugins/event_queue.h"

namespace gpulens {
namespace {

constexpr uint32_t kNoSlot = UINT32_MAX;
// A driver may report its energy counter later than its power.
constexpr int64_t kCounterTimeout = 10'000'000'000;

struct CrossCheckRow {
  const MetricDesc* metric;
  CheckedQuantity quantity;
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

constexpr int64_t kQuiet = 600'000'000'000;

// A slot is used by one series after another; its generation distinguishes them.
uint64_t KeyOf(const FrameWriter::Rejection& rejection) {
  uint64_t series = uint64_t{rejection.series.slot} << 32 | rejection.series.generation;
  return series * kValidations + static_cast<uint64_t>(rejection.why);
}

Event MakeEvent(const SeriesInfo& info, const FrameWriter::Rejection& rejection, Instant at) {
  Event event;
  event.at = at;
  event.name = "gpulens.quality";
  event.entity = info.entity;
  event.attributes =
      AttributeSet({{"gpulens.metric", info.desc->name}, {"gpulens.reason", ValidationName(rejection.why)}});
  event.body = std::string(info.desc->name);
  if (!std::isnan(rejection.value)) {
    char text[32];
    auto [end, error] = std::to_chars(text, text + sizeof text, rejection.value);
    event.body += " " + std::string(text, end);
    if (!info.desc->unit.empty()) event.body += " " + std::string(info.desc->unit);
  }
  event.body += " was rejected: " + std::string(ValidationName(rejection.why));
  return event;
}

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
      Of(info.entity).slots[static_cast<size_t>(row.quantity)] = slot;
    }
  }
  // What left the table had its series retired with it.
  std::erase_if(gpus_, [](const Gpu& gpu) { return !gpu.bound; });
}

CheckedReadings GpuQuality::Read(const Gpu& gpu, const FrameWriter& out) const {
  CheckedReadings readings;
  readings.now_ns = out.begun_at().boot_ns;
  readings.interval = interval_;
  for (size_t i = 0; i < kCheckedQuantities; ++i) {
    if (gpu.slots[i] == kNoSlot) continue;
    if (auto fresh = out.SetInThisRun(gpu.slots[i]))
      readings.of[i] = CheckedReading{fresh->value, fresh->at_ns};
  }
  return readings;
}

void GpuQuality::Reject(const Gpu& gpu, const CrossCheckResults& results, FrameWriter& out) const {
  for (size_t i = 0; i < kCheckedQuantities; ++i) {
    if (results.of[i] != Validation::kAccepted) out.Reject(out.HandleOf(gpu.slots[i]), results.of[i]);
  }
  // A share of what is not believed is not believed.
  auto reject_derived = [&](CheckedQuantity quantity, const std::vector<uint32_t>& slots) {
    if (results[quantity] == Validation::kAccepted) return;
    for (uint32_t slot : slots) {
      if (out.SetInThisRun(slot)) out.Reject(out.HandleOf(slot), results[quantity]);
    }
  };
  reject_derived(CheckedQuantity::kPower, gpu.derived_of_power);
  reject_derived(CheckedQuantity::kMemoryUsed, gpu.derived_of_used);
}

void GpuQuality::Estimate(Gpu& gpu, const CheckedReadings& readings, FrameWriter& out) {
  const int64_t now = out.begun_at().boot_ns;
  const bool is_stopped = gpu.rejected_since_ns != 0 && now - gpu.rejected_since_ns >= kCounterTimeout;
  if (gpu.slots[static_cast<size_t>(CheckedQuantity::kEnergy)] != kNoSlot && !is_stopped) {
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
    CrossCheckResults results = gpu.validate.Validate(readings);
    Reject(gpu, results, out);
    if (readings[CheckedQuantity::kEnergy]) {
      if (results[CheckedQuantity::kEnergy] == Validation::kAccepted) gpu.rejected_since_ns = 0;
      else if (gpu.rejected_since_ns == 0) gpu.rejected_since_ns = out.begun_at().boot_ns;
    }
    // Power that is not believed is not integrated.
    if (results[CheckedQuantity::kPower] != Validation::kAccepted) readings[CheckedQuantity::kPower].reset();
    Estimate(gpu, readings, out);
  }
}

void QualityEvents::Report(const FrameWriter& run, EventQueue& queue) {
  for (const FrameWriter::Rejection& rejection : run.rejections()) {
    // What was never there is no bad reading.
    if (rejection.why == Validation::kNotSupported || !run.table().Live(rejection.series)) continue;
    int64_t now = run.begun_at().boot_ns;
    auto at = reported_ns_.find(KeyOf(rejection));
    if (at != reported_ns_.end() && now - at->second < kQuiet) continue;
    if (at == reported_ns_.end() && reported_ns_.size() >= kMaxKnown) {
      std::erase_if(reported_ns_, [&](const auto& item) { return now - item.second >= kQuiet; });
      if (reported_ns_.size() >= kMaxKnown) continue;
    }
    reported_ns_[KeyOf(rejection)] = now;
    queue.Report(MakeEvent(run.table().InfoAt(rejection.series.slot), rejection, run.begun_at()));
  }
}

}  // namespace gpulens
