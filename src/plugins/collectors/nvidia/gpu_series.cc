#include "plugins/collectors/nvidia/gpu_series.h"

#include <string_view>
#include <utility>
#include <vector>

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::FieldTier;
using nvml::GpuState;
using nvml::SliceField;
using Attributes = std::vector<AttributeSet::Attribute>;

// States after the first kStatesShown have a series from when they were first seen on.
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

using FactKey = std::pair<std::string_view, std::string_view>;  // of the library, of the attribute
constexpr FactKey kInfoFacts[] = {
    {"architecture", "gpu.architecture"},
    {"pci_bus_id", "gpu.pci.bus_id"},
    {"minor", "gpu.minor"},
    {"numa_node", "gpu.numa_node"},
    {"vbios", "gpu.vbios.version"},
    {"inforom", "gpu.inforom.version"},
    {"compute_capability", "gpu.compute_capability"},
};
// Identifiers that other programs use for the GPU.
constexpr FactKey kEntityFacts[] = {{"pci_bus_id", "gpu.pci.bus_id"}, {"minor", "gpu.minor"}};

void AddFacts(const nvml::Gpu& gpu, std::span<const FactKey> facts, Attributes& out) {
  for (auto [fact, key] : facts) {
    if (!gpu.Fact(fact).empty()) out.push_back({key, gpu.Fact(fact)});
  }
}

EntityRef MakeEntity(const nvml::Gpu& gpu, bool simulated) {
  Attributes attributes = {{"gpu.index", int64_t{gpu.index}}};
  constexpr FactKey kNames[] = {{"uuid", "gpu.uuid"}, {"name", "gpu.model"}};
  AddFacts(gpu, kNames, attributes);
  if (!gpu.Fact("mig_mode").empty())
    attributes.push_back({"gpu.mig.enabled", gpu.Fact("mig_mode") == "enabled"});
  if (simulated) attributes.push_back({"simulated", true});
  Attributes facts = {{"gpu.vendor", std::string_view("nvidia")}};
  AddFacts(gpu, kEntityFacts, facts);
  return MakeRef<Entity>("gpu", AttributeSet(attributes), EntityRef{}, AttributeSet(facts));
}

// The rate of this name by GPM, for boards without the counter; null: none.
const nvml::SliceValue* GpmRate(const GpuRun& run, Field counter) {
  constexpr std::pair<Field, SliceField> kRates[] = {{Field::kPcieTxBytes, SliceField::kGpmPcieTx},
                                                     {Field::kPcieRxBytes, SliceField::kGpmPcieRx},
                                                     {Field::kNvlinkTxBytes, SliceField::kGpmNvlinkTx},
                                                     {Field::kNvlinkRxBytes, SliceField::kGpmNvlinkRx}};
  for (auto [field, rate] : kRates) {
    if (field == counter) return run.Fresh(run.gpu.slices[rate], FieldTier::kFast);
  }
  return nullptr;
}

}  // namespace

const FieldReading* GpuRun::Fresh(Field field) const { return Fresh(gpu[field], nvml::InfoOf(field).tier); }

const FieldReading* GpuRun::Fresh(const FieldReading& reading, FieldTier tier) const {
  if (reading.status != nvml::ReadStatus::kOk || reading.boot_ns == 0) return nullptr;
  // Slow readings are valid only while the GPU answers.
  if (now.boot_ns - gpu.last_read_boot_ns > max_age.of(FieldTier::kFast)) return nullptr;
  const bool is_static = tier == FieldTier::kStatic;
  int64_t age = now.boot_ns - (is_static ? gpu.last_read_boot_ns : reading.boot_ns);
  if (age > max_age.of(is_static ? FieldTier::kFast : tier)) return nullptr;
  out.ReadAt(now + Duration(-age));
  return &reading;
}

const nvml::SliceValue* GpuRun::Fresh(const nvml::SliceValue& value, FieldTier tier) const {
  int64_t age = now.boot_ns - value.boot_ns;
  if (value.status != nvml::ReadStatus::kOk || value.boot_ns == 0 || age > max_age.of(tier)) return nullptr;
  out.ReadAt(now + Duration(-age));
  return &value;
}

const FieldReading* GpuRun::Valid(Field field, const MetricDesc& metric) const {
  const FieldReading* reading = Fresh(field);
  return reading && !IsSentinel(metric, reading->raw) ? reading : nullptr;
}

bool ReadingSeries::IsNew(const FieldReading& reading) noexcept {
  return std::exchange(at_ns, reading.boot_ns) != reading.boot_ns;
}

void ReadingSeries::Write(const GpuRun& run, const FieldReading& reading, double per) {
  if (!IsNew(reading)) {
    if (good) run.out.Keep(series);
    return;
  }
  uint64_t before = run.out.counts().accepted;
  run.out.SetRaw(series, reading.raw, per);
  good = run.out.counts().accepted != before;
}

void GpuSeries::Retire(SeriesTable& table) {
  processes_.Retire(table);
  slices_.Retire(table);
  if (entity_) table.Retire(entity_);
  *this = GpuSeries(options_);
}

void GpuSeries::Declare(const nvml::Gpu& gpu, SeriesTable& table) {
  entity_ = MakeEntity(gpu, options_.simulated);
  identity_version_ = gpu.identity_version;
  Attributes info = {{"gpu.vendor", std::string_view("nvidia")}};
  AddFacts(gpu, kInfoFacts, info);
  if (options_.serial && !gpu.Fact("serial").empty()) info.push_back({"gpu.serial", gpu.Fact("serial")});
  info_ = table.Declare(kGpuInfo, entity_, AttributeSet(info));
  sample_age_ = table.Declare(kGpuSampleAge, entity_);
  for (size_t i = 0; i < kStatesShown; ++i)
    states_[i] = table.Declare(kGpuState, entity_, {{"gpu.state", kStates[i].second}});
}

void GpuSeries::Update(const nvml::Gpu& gpu, const FieldMaxAge& max_age, Instant now, FrameWriter& out,
                       std::span<const nvml::Gpu> all) {
  if (entity_ && gpu.identity_version != identity_version_ && !gpu.facts.empty()) Retire(out.table());
  // Not opened yet: it is unknown which GPU has this index. One that cannot be opened has its index and
  // state.
  const bool opening = gpu.state == GpuState::kStarting || (gpu.state == GpuState::kOk && gpu.facts.empty());
  if (!entity_ && opening) return;
  if (!entity_) Declare(gpu, out.table());
  const GpuRun run{gpu, entity_, max_age, now, out, all};
  UpdateState(run);
  UpdateFields(run);
  for (size_t i = 0; i < std::size(kRateRows); ++i) UpdateRate(run, kRateRows[i], rates_[i]);
  UpdateShares(run);
  UpdateThrottling(run);
  UpdateRemapping(run);
  UpdateLinks(run);
  board_.Update(run);
  links_.Update(run);
  out.ReadAt(now);
  slices_.Update(run);
  UpdateProcesses(run);
  out.ReadAt(now);
}

void GpuSeries::UpdateState(const GpuRun& run) {
  const nvml::Gpu& gpu = run.gpu;
  run.out.Set(info_, 1);
  // Between two reader processes, and while no call brings a reading, the state is unknown: it grows old,
  // too.
  bool silent = gpu.state == GpuState::kOk && run.now.boot_ns - gpu.last_read_boot_ns > run.max_age.ns[0];
  if (gpu.state != GpuState::kStarting && !silent) {
    for (size_t i = 0; i < std::size(kStates); ++i) {
      const bool is = gpu.state == kStates[i].first;
      if (is && !states_[i])
        states_[i] = run.table().Declare(kGpuState, entity_, {{"gpu.state", kStates[i].second}});
      if (states_[i]) run.out.Set(states_[i], is ? 1 : 0);
    }
  }
  if (gpu.last_read_boot_ns != 0)
    run.out.Set(sample_age_, static_cast<double>(run.now.boot_ns - gpu.last_read_boot_ns) * 1e-9);
}

void GpuSeries::UpdateFields(const GpuRun& run) {
  for (size_t i = 0; i < std::size(kFieldRows); ++i) {
    const FieldRow& row = kFieldRows[i];
    const FieldReading* reading = row.detail && !options_.details ? nullptr : run.Fresh(row.field);
    if (!reading) continue;
    if (!fields_[i]) fields_[i].series = DeclareRow(row, entity_, run.table());
    fields_[i].Write(run, *reading, row.per);
  }
}

void GpuSeries::UpdateRate(const GpuRun& run, const RateRow& row, RateSeries& rate) const {
  auto declare = [&] {
    return run.table().Declare(
        *row.metric, entity_,
        {{"gpu.interconnect.direction", row.direction}, {"gpu.interconnect.type", row.type}});
  };
  if (const FieldReading* counter = run.Fresh(row.counter)) {
    // A sentinel is counted where the counter itself is exported.
    if (!IsSentinel(kGpuPcieIo, counter->raw)) rate.Update(run.out, counter->raw, counter->boot_ns, declare);
    return;
  }
  const FieldReading* fallback = row.fallback == Field::kCount ? nullptr : run.Fresh(row.fallback);
  const nvml::SliceValue* gpm = GpmRate(run, row.counter);
  if (!fallback && !gpm) return;
  if (!rate.series) rate.series = declare();
  if (gpm) run.out.Set(rate.series, gpm->value / kPerMib);
  else run.out.SetRaw(rate.series, fallback->raw, 1 / row.fallback_factor);
}

void GpuSeries::UpdateShares(const GpuRun& run) {
  const FieldReading* limit = run.Valid(Field::kPowerLimitEnforced, kGpuPowerLimit);
  const FieldReading* power = run.Valid(Field::kPower, kGpuPowerInstant);
  if (power && limit && limit->raw > 0) {
    run.out.DeclareAndSet(power_share_, kGpuPowerUtilization, entity_, {},
                          static_cast<double>(power->raw) / static_cast<double>(limit->raw));
  }
  const FieldReading* total = run.Valid(Field::kMemoryTotal, kGpuMemoryTotal);
  const FieldReading* used = run.Valid(Field::kMemoryUsed, kGpuMemoryUsed);
  if (total && used && total->raw > 0) {
    run.out.DeclareAndSet(memory_percent_, kGpuMemoryUsedPercent, entity_, {},
                          100.0 * static_cast<double>(used->raw) / static_cast<double>(total->raw));
  }
}

void GpuSeries::UpdateThrottling(const GpuRun& run) {
  const FieldReading* reasons = run.Fresh(Field::kClockEventReasons);
  if (!reasons) return;
  if (!throttle_mask_) {
    throttle_mask_ = run.table().Declare(kGpuThrottleMask, entity_);
    clock_idle_ = run.table().Declare(kGpuClockIdle, entity_);
    const FieldReading* supported = run.Fresh(Field::kClockReasonsSupported);
    for (size_t i = 0; i < std::size(kThrottleBits); ++i) {
      if (supported && (static_cast<uint64_t>(supported->raw) & kThrottleBits[i].bit) == 0) continue;
      throttle_[i] =
          run.table().Declare(kGpuThrottleReason, entity_, {{"gpu.throttle.cause", kThrottleBits[i].cause}});
    }
  }
  if (run.out.RejectSentinel(throttle_mask_, reasons->raw)) return;
  auto mask = static_cast<uint64_t>(reasons->raw);
  run.out.Set(throttle_mask_, mask);
  run.out.Set(clock_idle_, mask & kClockIdleBit ? 1 : 0);
  for (size_t i = 0; i < std::size(kThrottleBits); ++i) {
    if (throttle_[i]) run.out.Set(throttle_[i], mask & kThrottleBits[i].bit ? 1 : 0);
  }
}

// Rows are remapped since Ampere; earlier boards retire pages, which are their count of the same thing.
void GpuSeries::UpdateRemapping(const GpuRun& run) {
  auto update = [&](Field remapped, Field retired, std::string_view type, ReadingSeries& series) {
    const FieldReading* reading = run.Fresh(remapped);
    if (!reading) reading = run.Fresh(retired);
    if (!reading) return;
    if (!series)
      series.series = run.table().Declare(kGpuRowRemapCount, entity_, {{"gpu.ecc.error_type", type}});
    series.Write(run, *reading);
  };
  update(Field::kRemappedCorrectable, Field::kRetiredSingleBit, "correctable", remapped_correctable_);
  update(Field::kRemappedUncorrectable, Field::kRetiredDoubleBit, "uncorrectable", remapped_uncorrectable_);
}

void GpuSeries::UpdateLinks(const GpuRun& run) {
  const FieldReading* total = run.Fresh(Field::kNvlinkTotal);
  const FieldReading* active = run.Fresh(Field::kNvlinkActive);
  if (!total || !active || total->raw == 0) return;
  LinkSeries::SetLinkCounts(run, "nvlink", active->raw, total->raw, links_active_, links_inactive_);
}

void GpuSeries::UpdateProcesses(const GpuRun& run) {
  if (!run.Fresh(Field::kProcessCount) || run.gpu.processes_boot_ns == 0) return;
  int64_t shares_age = run.now.boot_ns - run.gpu.slices.shares_boot_ns;
  bool shares = run.gpu.slices.shares_boot_ns != 0 && shares_age <= run.max_age.ns[0];
  processes_.Update(run, slices_, shares);
}

}  // namespace gpulens::nvidia
