#include "plugins/collectors/nvidia/gpu_series.h"

#include <algorithm>
#include <string>
#include <vector>

#include "quality/raw_rule.h"

namespace gpulens {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::GpuState;
using nvml::ReadStatus;

// The last ones are shown from when they were first seen on.
constexpr size_t kStatesShown = 5;
constexpr std::pair<GpuState, std::string_view> kStates[] = {
    {GpuState::kOk, "ok"},
    {GpuState::kHung, "hung"},
    {GpuState::kLost, "lost"},
    {GpuState::kResetRequired, "reset_required"},
    {GpuState::kNoPermission, "no_permission"},
    {GpuState::kFailed, "failed"},
    {GpuState::kLeftOut, "left_out"},
    {GpuState::kUnread, "unread"},
};

// Facts of the driver that gpu.info shows as attributes.
constexpr std::pair<std::string_view, std::string_view> kInfoFacts[] = {
    {"architecture", "gpu.architecture"},
    {"pci_bus_id", "gpu.pci.bus_id"},
    {"minor", "gpu.minor"},
    {"numa_node", "gpu.numa_node"},
    {"vbios", "gpu.vbios.version"},
    {"inforom", "gpu.inforom.version"},
    {"compute_capability", "gpu.compute_capability"},
};

// Those by which others may name the GPU.
constexpr std::pair<std::string_view, std::string_view> kFactsOfEntity[] = {{"pci_bus_id", "gpu.pci.bus_id"},
                                                                            {"minor", "gpu.minor"}};

EntityRef MakeEntity(const nvml::Gpu& gpu, bool simulated) {
  std::vector<AttributeSet::Attribute> attributes = {{"gpu.index", int64_t{gpu.index}}};
  if (!gpu.Fact("uuid").empty()) attributes.push_back({"gpu.uuid", gpu.Fact("uuid")});
  if (!gpu.Fact("name").empty()) attributes.push_back({"gpu.model", gpu.Fact("name")});
  if (!gpu.Fact("mig_mode").empty())
    attributes.push_back({"gpu.mig.enabled", gpu.Fact("mig_mode") == "enabled"});
  if (simulated) attributes.push_back({"simulated", true});
  std::vector<AttributeSet::Attribute> facts = {{"gpu.vendor", std::string_view("nvidia")}};
  for (auto [fact, key] : kFactsOfEntity) {
    if (!gpu.Fact(fact).empty()) facts.push_back({key, gpu.Fact(fact)});
  }
  return MakeRef<Entity>("gpu", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)),
                         EntityRef{}, AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
}

}  // namespace

void GpuSeries::Retire(SeriesTable& table) {
  processes_.Retire(table);
  parts_.Retire(table);
  if (entity_) table.Retire(entity_);
  *this = GpuSeries(options_);
}

void GpuSeries::Declare(const nvml::Gpu& gpu, SeriesTable& table) {
  entity_ = MakeEntity(gpu, options_.simulated);
  identity_version_ = gpu.identity_version;
  std::vector<AttributeSet::Attribute> info = {{"gpu.vendor", std::string_view("nvidia")}};
  for (auto [fact, key] : kInfoFacts) {
    if (!gpu.Fact(fact).empty()) info.push_back({key, gpu.Fact(fact)});
  }
  if (options_.serial && !gpu.Fact("serial").empty()) info.push_back({"gpu.serial", gpu.Fact("serial")});
  info_ = table.Declare(kGpuInfo, entity_, AttributeSet(std::span<const AttributeSet::Attribute>(info)));
  sample_age_ = table.Declare(kGpuSampleAge, entity_);
  for (size_t i = 0; i < kStatesShown; ++i) {
    states_[i] = table.Declare(kGpuState, entity_, {{"gpu.state", kStates[i].second}});
  }
}

void GpuSeries::Update(const nvml::Gpu& gpu, const FieldMaxAge& max_age, Instant now, FrameWriter& out,
                       std::span<const nvml::Gpu> all) {
  if (entity_ && gpu.identity_version != identity_version_ && !gpu.facts.empty()) Retire(out.table());
  // Not opened yet: which GPU has this number is not known. One that cannot be opened has its number and
  // state.
  const bool opening = gpu.state == GpuState::kStarting || (gpu.state == GpuState::kOk && gpu.facts.empty());
  if (!entity_ && opening) return;
  if (!entity_) Declare(gpu, out.table());
  now_ = now;
  max_age_ = max_age;
  UpdateState(gpu, now, out);
  UpdateFields(gpu, out);
  UpdateRates(gpu, out);
  UpdateShares(gpu, out);
  UpdateThrottling(gpu, out);
  UpdateRemapping(gpu, out);
  UpdateLinks(gpu, out);
  GpuRun run{gpu, entity_, max_age_, now, out, all};
  board_.Update(run);
  links_.Update(run);
  out.ReadAt(now);
  parts_.Update(gpu, entity_,
                {.now = now, .fast_ns = max_age.ns[0], .medium_ns = max_age.ns[1], .slow_ns = max_age.ns[2]},
                out);
  UpdateProcesses(gpu, out);
  out.ReadAt(now);
}

void GpuSeries::UpdateState(const nvml::Gpu& gpu, Instant now, FrameWriter& out) {
  out.Set(info_, 1);
  // Between two reader processes, and while no call brings a reading, nobody knows: the state grows old, too.
  bool silent = gpu.state == GpuState::kOk && now.boot_ns - gpu.last_read_boot_ns > max_age_.ns[0];
  if (gpu.state != GpuState::kStarting && !silent) {
    for (size_t i = 0; i < std::size(kStates); ++i) {
      const bool is = gpu.state == kStates[i].first;
      if (is && !states_[i])
        states_[i] = out.table().Declare(kGpuState, entity_, {{"gpu.state", kStates[i].second}});
      if (states_[i]) out.Set(states_[i], is ? 1 : 0);
    }
  }
  if (gpu.last_read_boot_ns != 0) {
    out.Set(sample_age_, static_cast<double>(now.boot_ns - gpu.last_read_boot_ns) * 1e-9);
  }
}

const FieldReading* GpuSeries::Fresh(const nvml::Gpu& gpu, Field field, FrameWriter& out) const {
  return GpuRun{gpu, entity_, max_age_, now_, out}.Fresh(field);
}

void GpuSeries::SetFrom(const FieldReading& reading, double per, Series series, FrameWriter& out) const {
  if (out.table().Live(series) && SaysNothing(*out.table().InfoAt(series.slot).desc, reading.raw))
    return out.Reject(series, Validation::kSentinel);
  if (per == 1) out.Set(series, reading.raw);
  else out.Set(series, static_cast<double>(reading.raw) / per);
}

void GpuSeries::UpdateFields(const nvml::Gpu& gpu, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kFieldRows); ++i) {
    const FieldRow& row = kFieldRows[i];
    const FieldReading* reading = Fresh(gpu, row.field, out);
    if (!reading) continue;
    if (!fields_[i]) {
      std::vector<AttributeSet::Attribute> extra;
      if (!row.key.empty()) extra.push_back({row.key, row.value});
      if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
      fields_[i].series = out.table().Declare(*row.metric, entity_,
                                              AttributeSet(std::span<const AttributeSet::Attribute>(extra)));
    }
    fields_[i].Write(GpuRun{gpu, entity_, max_age_, now_, out}, *reading, row.per);
  }
}

void GpuSeries::UpdateRates(const nvml::Gpu& gpu, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kRateRows); ++i) UpdateRate(kRateRows[i], rates_[i], gpu, out);
}

void GpuSeries::UpdateRate(const RateRow& row, Rate& rate, const nvml::Gpu& gpu, FrameWriter& out) {
  const FieldReading* counter = Fresh(gpu, row.counter, out);
  const FieldReading* fallback =
      counter || row.fallback == Field::kCount ? nullptr : Fresh(gpu, row.fallback, out);
  const nvml::PartValue* gpm = counter ? nullptr : GpmRate(gpu, row.counter, out);
  if (!counter && !fallback && !gpm) return;
  if (counter && SaysNothing(kGpuPcieIo, counter->raw)) return;  // counted where the counter itself is shown
  bool first = counter && rate.at_ns == 0;
  if (!rate.series && !first) {
    rate.series = out.table().Declare(
        *row.metric, entity_,
        {{"gpu.interconnect.direction", row.direction}, {"gpu.interconnect.type", row.type}});
  }
  if (gpm) return out.Set(rate.series, gpm->value / kPerMib);
  if (fallback) return SetFrom(*fallback, 1 / row.fallback_factor, rate.series, out);
  if (!first && counter->boot_ns == rate.at_ns) return out.Keep(rate.series);
  // A counter that fell began anew (the driver was reloaded) or wrapped: no rate for this span.
  if (!first && counter->raw >= rate.raw) {
    double seconds = static_cast<double>(counter->boot_ns - rate.at_ns) * 1e-9;
    out.Set(rate.series, static_cast<double>(counter->raw - rate.raw) / seconds);
  }
  rate.raw = counter->raw;
  rate.at_ns = counter->boot_ns;
}

void GpuSeries::UpdateShares(const nvml::Gpu& gpu, FrameWriter& out) {
  GpuRun run{gpu, entity_, max_age_, now_, out};
  const FieldReading* limit = run.Known(Field::kPowerLimitEnforced, kGpuPowerLimit);
  const FieldReading* power = run.Known(Field::kPower, kGpuPowerInstant);
  if (power && limit && limit->raw > 0) {
    if (!power_share_) power_share_ = out.table().Declare(kGpuPowerUtilization, entity_);
    out.Set(power_share_, static_cast<double>(power->raw) / static_cast<double>(limit->raw));
  }
  const FieldReading* total = run.Known(Field::kMemoryTotal, kGpuMemoryTotal);
  const FieldReading* used = run.Known(Field::kMemoryUsed, kGpuMemoryUsed);
  if (total && used && total->raw > 0) {
    if (!memory_percent_) memory_percent_ = out.table().Declare(kGpuMemoryUsedPercent, entity_);
    out.Set(memory_percent_, 100.0 * static_cast<double>(used->raw) / static_cast<double>(total->raw));
  }
}

void GpuSeries::UpdateThrottling(const nvml::Gpu& gpu, FrameWriter& out) {
  const FieldReading* reasons = Fresh(gpu, Field::kClockEventReasons, out);
  if (!reasons) return;
  if (!throttle_mask_) {
    throttle_mask_ = out.table().Declare(kGpuThrottleMask, entity_);
    clock_idle_ = out.table().Declare(kGpuClockIdle, entity_);
    const FieldReading* supported = Fresh(gpu, Field::kClockReasonsSupported, out);
    for (size_t i = 0; i < std::size(kThrottleBits); ++i) {
      if (supported && (static_cast<uint64_t>(supported->raw) & kThrottleBits[i].bit) == 0) continue;
      throttle_[i] =
          out.table().Declare(kGpuThrottleReason, entity_, {{"gpu.throttle.cause", kThrottleBits[i].cause}});
    }
  }
  if (SaysNothing(kGpuThrottleMask, reasons->raw)) return out.Reject(throttle_mask_, Validation::kSentinel);
  uint64_t mask = static_cast<uint64_t>(reasons->raw);
  out.Set(throttle_mask_, mask);
  out.Set(clock_idle_, mask & kClockIdleBit ? 1 : 0);
  for (size_t i = 0; i < std::size(kThrottleBits); ++i) {
    if (throttle_[i]) out.Set(throttle_[i], mask & kThrottleBits[i].bit ? 1 : 0);
  }
}

// Rows are remapped since Ampere; earlier boards retire pages, which are their count of the same thing.
void GpuSeries::UpdateRemapping(const nvml::Gpu& gpu, FrameWriter& out) {
  auto update = [&](Field remapped, Field retired, std::string_view type, ReadingSeries& series) {
    const FieldReading* reading = Fresh(gpu, remapped, out);
    if (!reading) reading = Fresh(gpu, retired, out);
    if (!reading) return;
    if (!series)
      series.series = out.table().Declare(kGpuRowRemapCount, entity_, {{"gpu.ecc.error_type", type}});
    series.Write(GpuRun{gpu, entity_, max_age_, now_, out}, *reading);
  };
  update(Field::kRemappedCorrectable, Field::kRetiredSingleBit, "correctable", remapped_correctable_);
  update(Field::kRemappedUncorrectable, Field::kRetiredDoubleBit, "uncorrectable", remapped_uncorrectable_);
}

void GpuSeries::UpdateLinks(const nvml::Gpu& gpu, FrameWriter& out) {
  const FieldReading* total = Fresh(gpu, Field::kNvlinkTotal, out);
  const FieldReading* active = Fresh(gpu, Field::kNvlinkActive, out);
  if (!total || !active || total->raw == 0) return;
  if (!links_active_) {
    auto declare = [&](std::string_view state) {
      return out.table().Declare(kGpuInterconnectLinks, entity_,
                                 {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.state", state}});
    };
    links_active_ = declare("active");
    links_inactive_ = declare("inactive");
  }
  out.Set(links_active_, active->raw);
  out.Set(links_inactive_, total->raw - active->raw);
}

void GpuSeries::UpdateProcesses(const nvml::Gpu& gpu, FrameWriter& out) {
  if (!Fresh(gpu, Field::kProcessCount, out) || gpu.processes_boot_ns == 0) return;
  int64_t shares_age = now_.boot_ns - gpu.parts.shares_boot_ns;
  bool shares = gpu.parts.shares_boot_ns != 0 && shares_age <= max_age_.ns[0];
  processes_.Update(gpu, entity_, parts_, shares, out);
}

const nvml::PartValue* GpuSeries::GpmRate(const nvml::Gpu& gpu, Field counter, FrameWriter& out) const {
  constexpr std::pair<Field, nvml::PartField> kRates[] = {
      {Field::kPcieTxBytes, nvml::PartField::kGpmPcieTx},
      {Field::kPcieRxBytes, nvml::PartField::kGpmPcieRx},
      {Field::kNvlinkTxBytes, nvml::PartField::kGpmNvlinkTx},
      {Field::kNvlinkRxBytes, nvml::PartField::kGpmNvlinkRx}};
  for (auto [field, part] : kRates) {
    const nvml::PartValue& value = gpu.parts[part];
    if (field != counter || value.boot_ns == 0 || value.status != ReadStatus::kOk) continue;
    int64_t age = now_.boot_ns - value.boot_ns;
    if (age > max_age_.ns[0]) return nullptr;
    out.ReadAt(now_ + Duration(-age));
    return &value;
  }
  return nullptr;
}

}  // namespace gpulens
