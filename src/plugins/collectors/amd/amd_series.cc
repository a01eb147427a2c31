#include "plugins/collectors/amd/amd_series.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "sources/amdsmi/amdsmi_calls.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens::amd {
namespace {

using reader::DeviceState;
using reader::ReaderFault;
using reader::ReadStatus;

// Further states have a series once they were seen.
constexpr size_t kStatesShown = 5;
constexpr std::pair<DeviceState, std::string_view> kStates[] = {
    {DeviceState::kOk, "ok"},
    {DeviceState::kHung, "hung"},
    {DeviceState::kLost, "lost"},
    {DeviceState::kResetRequired, "reset_required"},
    {DeviceState::kNoPermission, "no_permission"},
    {DeviceState::kFailed, "failed"},
    {DeviceState::kLeftOut, "left_out"},
    {DeviceState::kUnread, "unread"},
};

// Facts of the driver that gpu.info shows as attributes.
constexpr std::pair<std::string_view, std::string_view> kInfoFacts[] = {
    {"architecture", "gpu.architecture"},
    {"pci_bus_id", "gpu.pci.bus_id"},
    {"numa_node", "gpu.numa_node"},
    {"vbios", "gpu.vbios.version"},
};

using Attributes = std::vector<AttributeSet::Attribute>;

int64_t NumberIn(const reader::DeviceEntry& device, std::string_view fact, int64_t fallback) {
  return ParseInt<int64_t>(device.Fact(fact)).value_or(fallback);
}

// Name by the kernel; empty without permission.
std::string ExecutableName(uint32_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/comm", 4096);
  return text ? std::string(Trim(*text)) : "";
}

std::string_view ChangeOf(ReaderFault fault) noexcept {
  switch (fault) {
    case ReaderFault::kHung: return "hung";
    case ReaderFault::kStuckInKernel: return "stuck";
    default: return "crashed";
  }
}

}  // namespace

void AmdSeries::Retire(SeriesTable& table) {
  for (auto& [pid, process] : processes_) table.Retire(process.entity);
  if (partition_ && partition_ != board_) table.Retire(partition_);
  if (board_ && first_) table.Retire(board_);
  *this = AmdSeries(options_);
}

void AmdSeries::Declare(const reader::DeviceEntry& device, const EntityRef& board, SeriesTable& table) {
  first_ = NumberIn(device, "partition", 0) == 0;
  identity_version_ = device.identity_version;
  compute_units_ = static_cast<double>(NumberIn(device, "compute_units", 0));
  if (first_) {
    DeclareBoard(device, table);
  } else {
    board_ = board;
  }
  partition_ = board_;
  if (NumberIn(device, "partitions", 1) > 1) {
    Attributes own = {{"gpu.partition.id", NumberIn(device, "partition", 0)}};
    if (options_.simulated) own.push_back({"simulated", true});
    partition_ = MakeRef<Entity>("gpu.partition", AttributeSet(own), board_);
  }
  sample_age_ = table.Declare(kGpuSampleAge, home());
  for (size_t i = 0; i < kStatesShown; ++i) {
    states_[i] = table.Declare(kGpuState, home(), {{"gpu.state", kStates[i].second}});
  }
}

void AmdSeries::DeclareBoard(const reader::DeviceEntry& device, SeriesTable& table) {
  Attributes own = {{"gpu.index", NumberIn(device, "gpu", device.index)}};
  if (!device.Fact("uuid").empty()) own.push_back({"gpu.uuid", device.Fact("uuid")});
  if (!device.Fact("name").empty()) own.push_back({"gpu.model", device.Fact("name")});
  if (options_.simulated) own.push_back({"simulated", true});
  Attributes facts = {{"gpu.vendor", std::string_view("amd")}};
  if (!device.Fact("pci_bus_id").empty()) facts.push_back({"gpu.pci.bus_id", device.Fact("pci_bus_id")});
  board_ = MakeRef<Entity>("gpu", AttributeSet(own), EntityRef{}, AttributeSet(facts));
  Attributes info = {{"gpu.vendor", std::string_view("amd")}};
  for (auto [fact, key] : kInfoFacts) {
    if (!device.Fact(fact).empty()) info.push_back({key, device.Fact(fact)});
  }
  if (options_.serial && !device.Fact("serial").empty())
    info.push_back({"gpu.serial", device.Fact("serial")});
  info_ = table.Declare(kGpuInfo, board_, AttributeSet(info));
}

void AmdSeries::Update(const reader::DeviceEntry& device, const EntityRef& board, const FieldMaxAge& max_age,
                       FrameWriter& out) {
  bool changed = home() && !device.facts.empty() && device.identity_version != identity_version_;
  // The board began a new identity: its partitions follow.
  if (changed || (home() && !first_ && board != board_)) Retire(out.table());
  // Not opened yet: it is unknown which GPU has this index. One that cannot be opened has its index and
  // state.
  const bool opening =
      device.state == DeviceState::kStarting || (device.state == DeviceState::kOk && device.facts.empty());
  if (!home() && opening) return;
  if (!home()) {
    if (NumberIn(device, "partition", 0) != 0 && !board) return;
    Declare(device, board, out.table());
  }
  device_ = &device;
  max_age_ = &max_age;
  now_ = out.read_at();
  ++update_;
  UpdateState(out);
  UpdateRows(out);
  UpdateMemory(out);
  UpdateModes(out);
  if (first_) {
    UpdatePower(out);
    UpdateFan(out);
    UpdateLinks(out);
    UpdateThrottling(out);
    UpdateHealth(out);
  }
  UpdateProcesses(out);
  out.ReadAt(now_);
}

void AmdSeries::UpdateState(FrameWriter& out) {
  if (first_) out.Set(info_, 1);
  // Between two reader processes the state is unknown, and ages like the readings.
  for (size_t i = 0; i < std::size(kStates) && device_->state != DeviceState::kStarting; ++i) {
    const bool is = device_->state == kStates[i].first;
    if (is && !states_[i])
      states_[i] = out.table().Declare(kGpuState, home(), {{"gpu.state", kStates[i].second}});
    if (states_[i]) out.Set(states_[i], is ? 1 : 0);
  }
  if (device_->last_read_boot_ns != 0)
    out.Set(sample_age_, static_cast<double>(now_.boot_ns - device_->last_read_boot_ns) * 1e-9);
}

const AmdSeries::Reading* AmdSeries::Fresh(Field field, unsigned copy, FrameWriter& out) const {
  const Reading& reading = At(field, copy);
  if (reading.status != ReadStatus::kOk || reading.boot_ns == 0) return nullptr;
  // Slow readings are valid only while the GPU answers.
  if (now_.boot_ns - device_->last_read_boot_ns > max_age_->ns[static_cast<size_t>(reader::FieldTier::kFast)])
    return nullptr;
  int64_t age = now_.boot_ns - reading.boot_ns;
  reader::FieldTier tier = amdsmi::AmdsmiVendor().fields[amdsmi::SlotOf(field)].tier;
  if (age > max_age_->ns[static_cast<size_t>(tier)]) return nullptr;
  out.ReadAt(now_ + Duration(-age));
  return &reading;
}

const AmdSeries::Reading* AmdSeries::Valid(Field field, const MetricDesc& metric, FrameWriter& out) const {
  const Reading* reading = Fresh(field, out);
  return reading && !IsSentinel(metric, reading->raw) ? reading : nullptr;
}

Series AmdSeries::DeclareRow(const MetricRow& row, unsigned copy, SeriesTable& table) const {
  Attributes extra;
  if (!row.key.empty()) extra.push_back({row.key, row.value});
  if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
  if (row.copy_key == "gpu.ecc.memory_block") {
    extra.push_back({row.copy_key, amdsmi::kEccBlocks[copy]});
  } else if (!row.copy_key.empty()) {
    extra.push_back({row.copy_key, int64_t{copy}});
  }
  return table.Declare(*row.metric, row.scope == FieldScope::kBoard ? board_ : partition_,
                       AttributeSet(extra));
}

bool AmdSeries::Skips(const MetricRow& row, unsigned copy) const {
  if (row.scope == FieldScope::kBoard && !first_) return true;
  if (row.detail && !options_.engines) return true;
  // The library has room for eight links; a board has fewer. Where it reports which, the others do not exist.
  bool link = row.field == Field::kXgmiRead || row.field == Field::kXgmiWrite;
  if (link && !At(Field::kXgmiLink, copy).boot_ns) {
    for (unsigned i = 0; i < kLinks; ++i) {
      if (At(Field::kXgmiLink, i).boot_ns) return true;
    }
  }
  return false;
}

void AmdSeries::UpdateRows(FrameWriter& out) {
  bool agree = ErrorsAgree(out);
  size_t place = 0;
  for (const MetricRow& row : kRows) {
    unsigned copies = amdsmi::CopiesOf(row.field);
    for (unsigned copy = 0; copy < copies; ++copy, ++place) {
      if (Skips(row, copy)) continue;
      const Reading* reading = Fresh(row.field, copy, out);
      if (!reading) continue;
      if (!rows_[place]) rows_[place] = DeclareRow(row, copy, out.table());
      if (row.metric == &kGpuEccErrors && !agree) {
        out.Reject(rows_[place], Validation::kInconsistent);
      } else {
        out.SetRaw(rows_[place], reading->raw, row.per);
      }
    }
  }
}

// The blocks are read before their total, so their sum can never be more.
bool AmdSeries::ErrorsAgree(FrameWriter& out) const {
  constexpr std::pair<Field, Field> kPairs[] = {{Field::kEccCorrectable, Field::kEccTotalCorrectable},
                                                {Field::kEccUncorrectable, Field::kEccTotalUncorrectable},
                                                {Field::kEccDeferred, Field::kEccTotalDeferred}};
  bool agree = true;
  for (auto [blocks, total] : kPairs) {
    const Reading* all = Fresh(total, out);
    if (!all) continue;
    uint64_t sum = 0;
    for (unsigned i = 0; i < amdsmi::CopiesOf(blocks); ++i) {
      const Reading* block = Fresh(blocks, i, out);
      if (block) sum += static_cast<uint64_t>(block->raw);
    }
    agree = agree && sum <= static_cast<uint64_t>(all->raw);
  }
  return agree;
}

void AmdSeries::UpdateMemory(FrameWriter& out) {
  const Reading* total = Valid(Field::kVramTotal, kGpuMemoryTotal, out);
  const Reading* used = Fresh(Field::kVramUsed, out);
  if (!used) return;
  if (!used_) used_ = out.table().Declare(kGpuMemoryUsed, partition_);
  if (out.RejectSentinel(used_, used->raw)) return;
  if (total && used->raw > total->raw) return out.Reject(used_, Validation::kInconsistent);
  out.Set(used_, used->raw);
  if (!total || total->raw == 0) return;
  out.DeclareAndSet(free_, kGpuMemoryFree, partition_, {}, total->raw - used->raw);
  out.DeclareAndSet(percent_, kGpuMemoryUsedPercent, partition_, {},
                    100 * static_cast<double>(used->raw) / static_cast<double>(total->raw));
}

// Boards since MI300 report the instantaneous power, earlier ones a mean: the draw is the one that exists.
void AmdSeries::UpdatePower(FrameWriter& out) {
  const Reading* cap = Valid(Field::kPowerCap, kGpuPowerLimit, out);
  const Reading* average = Valid(Field::kPowerAverage, kGpuPowerDraw, out);
  const Reading* current = Valid(Field::kPowerCurrent, kGpuPowerDraw, out);
  const Reading* draw = current ? current : average;
  if (average && current)
    out.DeclareAndSet(average_, kGpuPowerAverage, board_, {}, static_cast<double>(average->raw));
  if (!draw) return;
  out.DeclareAndSet(power_, kGpuPowerDraw, board_, {}, static_cast<double>(draw->raw));
  if (!cap || cap->raw == 0) return;
  out.DeclareAndSet(power_share_, kGpuPowerUtilization, board_, {},
                    static_cast<double>(draw->raw) * 1e6 / static_cast<double>(cap->raw));
}

void AmdSeries::UpdateFan(FrameWriter& out) {
  const Reading* speed = Fresh(Field::kFanSpeed, out);
  const Reading* max = Fresh(Field::kFanSpeedMax, out);
  if (!speed || !max || max->raw <= 0) return;
  out.DeclareAndSet(fan_, kGpuFanSpeed, board_, {},
                    static_cast<double>(speed->raw) / static_cast<double>(max->raw));
}

void AmdSeries::UpdateLinks(FrameWriter& out) {
  int64_t active = 0, inactive = 0;
  for (unsigned i = 0; i < kLinks; ++i) {
    if (const Reading* link = Fresh(Field::kXgmiLink, i, out)) ++(link->raw == 1 ? active : inactive);
  }
  if (active + inactive > 0) {
    using namespace std::string_view_literals;
    auto set = [&](Series& series, std::string_view state, int64_t count) {
      out.DeclareAndSet(series, kGpuInterconnectLinks, board_,
                        {{kLinkType, "xgmi"sv}, {"gpu.interconnect.state", state}}, count);
    };
    set(links_active_, "active", active);
    set(links_inactive_, "inactive", inactive);
  }
  for (unsigned i = 0; i < kLinks; ++i) {
    UpdateRate(Field::kXgmiRead, i, "receive", out);
    UpdateRate(Field::kXgmiWrite, i, "transmit", out);
  }
}

void AmdSeries::UpdateRate(Field field, unsigned copy, std::string_view direction, FrameWriter& out) {
  if (Skips({.field = field, .metric = &kGpuInterconnectThroughput}, copy)) return;
  const Reading* counter = Fresh(field, copy, out);
  if (!counter) return;
  Rate& rate = rates_[field == Field::kXgmiRead ? 0 : 1][copy];
  bool first = rate.at_ns == 0;
  if (!first && !rate.series) {
    rate.series = out.table().Declare(
        kGpuInterconnectThroughput, board_,
        {{kDirection, direction}, {kLinkType, std::string_view("xgmi")}, {kLinkIndex, int64_t{copy}}});
  }
  if (!first && counter->boot_ns == rate.at_ns) return out.Keep(rate.series);
  // A counter that fell was reset (the driver was reloaded): no rate for this span.
  if (!first && counter->raw >= rate.raw) {
    double seconds = static_cast<double>(counter->boot_ns - rate.at_ns) * 1e-9;
    out.Set(rate.series, static_cast<double>(counter->raw - rate.raw) / seconds);
  }
  rate.raw = counter->raw;
  rate.at_ns = counter->boot_ns;
}

// Where the board counts the cycles of each cause, these are exact between two readings; older boards have
// a mask of the present causes.
void AmdSeries::UpdateThrottling(FrameWriter& out) {
  if (const Reading* cycles = Fresh(Field::kResidencyCycles, out)) return UpdateResidencies(*cycles, out);
  const Reading* mask = Fresh(Field::kThrottleMask, out);
  if (!mask) return;
  for (size_t i = 0; i < std::size(kThrottles); ++i) {
    out.DeclareAndSet(throttles_[i].reason, kGpuThrottleReason, board_,
                      {{"gpu.throttle.cause", kThrottles[i].cause}},
                      static_cast<uint64_t>(mask->raw) & kThrottles[i].bits ? 1 : 0);
  }
}

void AmdSeries::UpdateResidencies(const Reading& cycles, FrameWriter& out) {
  bool same = cycles.boot_ns == cycles_at_ns_;
  int64_t span = cycles_at_ns_ == 0 ? 0 : cycles.raw - cycles_;
  for (size_t i = 0; i < std::size(kThrottles); ++i) {
    Throttle& throttle = throttles_[i];
    const Reading* held = Fresh(kThrottles[i].residency, out);
    if (!held) continue;
    if (same) {
      if (throttle.reason) out.Keep(throttle.reason);
      if (throttle.share) out.Keep(throttle.share);
      continue;
    }
    int64_t step = held->raw - throttle.raw;
    throttle.raw = held->raw;
    if (span <= 0 || step < 0) continue;  // The first reading, or the counters were reset.
    AttributeSet::Attribute cause = {"gpu.throttle.cause", kThrottles[i].cause};
    out.DeclareAndSet(throttle.reason, kGpuThrottleReason, board_, {cause}, step > 0 ? 1 : 0);
    out.DeclareAndSet(throttle.share, kGpuThrottleShare, board_, {cause},
                      static_cast<double>(step) / static_cast<double>(span));
  }
  cycles_ = cycles.raw;
  cycles_at_ns_ = cycles.boot_ns;
}

void AmdSeries::UpdateHealth(FrameWriter& out) {
  using namespace std::string_view_literals;
  if (const Reading* blocks = Fresh(Field::kEccBlocks, out)) {
    out.DeclareAndSet(ecc_mode_, kGpuEccMode, board_, {{"gpu.ecc.mode_type", "current"sv}},
                      blocks->raw != 0 ? 1 : 0);
  }
  if (const Reading* pending = Fresh(Field::kRetiredPagesPending, out))
    out.DeclareAndSet(pages_pending_, kGpuRetiredPagesPending, board_, {}, pending->raw > 0 ? 1 : 0);
  if (const Reading* level = Fresh(Field::kPerformanceLevel, out)) {
    for (size_t i = 0; i < levels_.size(); ++i) {
      out.DeclareAndSet(levels_[i], kGpuPerformanceLevel, board_,
                        {{"gpu.performance.level", amdsmi::kPerformanceLevels[i]}},
                        level->raw == static_cast<int64_t>(i) ? 1 : 0);
    }
  }
}

void AmdSeries::UpdateModes(FrameWriter& out) {
  const Reading* compute = Fresh(Field::kComputePartition, out);
  const Reading* memory = Fresh(Field::kMemoryPartition, out);
  if (!compute) return;
  if (compute->raw <= 0 || compute->raw >= static_cast<int64_t>(std::size(amdsmi::kComputePartitions)))
    return;
  int64_t mode = compute->raw * 16 + (memory ? memory->raw : 0);
  if (mode != partition_mode_) {
    partition_mode_ = mode;
    out.table().Retire(partition_info_);
    std::string nps = memory ? "nps" + std::to_string(memory->raw) : "";
    std::vector<AttributeSet::Attribute> extra = {
        {"gpu.partition.compute", amdsmi::kComputePartitions[static_cast<size_t>(compute->raw)]}};
    if (memory) extra.push_back({"gpu.partition.memory", std::string_view(nps)});
    if (partition_ == board_) extra.push_back({"gpu.partition.id", int64_t{0}});
    partition_info_ = out.table().Declare(kGpuPartitionInfo, partition_, AttributeSet(extra));
  }
  out.Set(partition_info_, 1);
}

void AmdSeries::UpdateProcesses(FrameWriter& out) {
  if (!Fresh(Field::kProcessCount, out) || device_->uses_boot_ns == 0) return;
  out.DeclareAndSet(process_count_, kGpuProcesses, partition_, {}, device_->uses.size());
  for (const reader::ProcessUse& use : device_->uses) UpdateProcess(use, out);
  std::erase_if(processes_, [&](const auto& process) {
    if (process.second.seen != update_) out.table().Retire(process.second.entity);
    return process.second.seen != update_;
  });
}

void AmdSeries::DeclareProcess(const reader::ProcessUse& use, Process& process, SeriesTable& table) const {
  std::string name(use.name.data());
  if (name.empty() && !options_.simulated) name = ExecutableName(use.pid);
  std::vector<AttributeSet::Attribute> attributes = {{"process.pid", int64_t{use.pid}}};
  if (!name.empty()) attributes.push_back({"process.executable.name", std::string_view(name)});
  // For analyzers that join engines and processes.
  const std::string parents = options_.simulated ? "" : nvml::AncestorsOf("/", use.pid);
  AttributeSet facts;
  if (!parents.empty()) facts = AttributeSet({{"process.parents", std::string_view(parents)}});
  process.entity = MakeRef<Entity>("process", AttributeSet(attributes), partition_, facts);
  if (use.memory == reader::ProcessUse::kUnknown) return;
  process.used = table.Declare(kGpuProcessMemoryUsed, process.entity);
  process.peak = table.Declare(kGpuProcessMemoryPeak, process.entity);
}

void AmdSeries::UpdateProcess(const reader::ProcessUse& use, FrameWriter& out) {
  Process& process = processes_[use.pid];
  if (process.seen == update_) return;  // Listed twice: one process.
  process.seen = update_;
  if (!process.entity) DeclareProcess(use, process, out.table());
  if (process.used && use.memory != reader::ProcessUse::kUnknown) {
    process.peak_bytes = std::max(process.peak_bytes, use.memory);
    out.Set(process.used, use.memory);
    out.Set(process.peak, process.peak_bytes);
  }
  if (use.host_memory != reader::ProcessUse::kUnknown)
    out.DeclareAndSet(process.host, kGpuProcessMemoryGtt, process.entity, {}, use.host_memory);
  // The library writes 0 for an engine whose time it cannot report: a time begins with its first step.
  auto engine = [&](Series& series, uint64_t ns, std::string_view type) {
    if (ns == reader::ProcessUse::kUnknown || (ns == 0 && !series)) return;
    out.DeclareAndSet(series, kGpuProcessEngineTime, process.entity, {{kEngine, type}},
                      static_cast<double>(ns) * 1e-9);
  };
  engine(process.graphics, use.graphics_ns, "gfx");
  engine(process.encode, use.encode_ns, "enc");
  if (use.compute_units != ~0U && compute_units_ > 0) {
    out.DeclareAndSet(process.occupancy, kGpuProcessCuOccupancy, process.entity, {},
                      static_cast<double>(use.compute_units) / compute_units_);
  }
}

void AmdEvents::Report(std::string_view name, const EntityRef& entity, AttributeSet attributes,
                       std::string body, Instant now, EventSeverity severity) const {
  if (!env_.events) return;
  env_.events->Report(Event{.at = now,
                            .name = name,
                            .entity = entity,
                            .attributes = std::move(attributes),
                            .body = std::move(body),
                            .severity = severity});
}

void AmdEvents::OnReader(const reader::ReaderState& state, Instant now) {
  using namespace std::string_view_literals;
  bool ended = state.fault == ReaderFault::kHung || state.fault == ReaderFault::kCrashed ||
               state.fault == ReaderFault::kStuckInKernel;
  if (ended && state.fault != fault_) {
    Report("gpulens.reader", {}, {{"reader", "amdsmi"sv}, {"gpulens.change", ChangeOf(state.fault)}},
           state.last_error, now);
  }
  fault_ = state.fault;
  uint64_t starts = std::accumulate(state.starts.begin(), state.starts.end(), uint64_t{0});
  if (state.up && starts != starts_) {
    starts_ = starts;
    Report("gpulens.reader", {}, {{"reader", "amdsmi"sv}, {"gpulens.change", "started"sv}},
           "the AMD SMI reader process runs", now, EventSeverity::kInfo);
  }
}

void AmdEvents::OnDevice(const reader::DeviceEntry& device, const EntityRef& entity, Instant now) {
  using namespace std::string_view_literals;
  while (states_.size() <= device.index) {
    states_.push_back(DeviceState::kStarting);
    hangs_.push_back(0);
  }
  AttributeSet::Attribute source{"event.source", "reader"sv};
  if (device.hangs != hangs_[device.index]) {
    hangs_[device.index] = device.hangs;
    double seconds = static_cast<double>(now.boot_ns - device.hung_since_boot_ns) * 1e-9;
    std::string_view call = amdsmi::CallName(device.hung_call);
    Report("gpu.hang", entity,
           {{"gpu.call", call}, {"gpu.hang.duration", device.hung_since_boot_ns ? seconds : 0.0}, source},
           std::string(call) + " does not return", now);
  }
  // Only lasting states are reported: after a restart of the reader process a device passes through
  // kStarting.
  bool lasts = device.state == DeviceState::kOk || device.state == DeviceState::kLost;
  DeviceState& reported = states_[device.index];
  if (!lasts || reported == device.state) return;
  bool lost = device.state == DeviceState::kLost;
  std::string_view reason = lost ? "gpu_is_lost" : reported == DeviceState::kStarting ? "start" : "hotplug";
  reported = device.state;
  Report(lost ? "gpu.lost"sv : "gpu.found"sv, entity,
         {{lost ? "gpu.lost.reason"sv : "gpu.found.reason"sv, reason}, source},
         lost ? "the GPU no longer answers" : "the GPU answers", now);
}

}  // namespace gpulens::amd
