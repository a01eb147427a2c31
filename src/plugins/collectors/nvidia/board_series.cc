#include "plugins/collectors/nvidia/board_series.h"

#include <algorithm>
#include <cstdio>

#include "base/parse.h"
#include "base/pci_address.h"
#include "catalog/gpu.h"

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::FieldReading;
using Attributes = std::vector<AttributeSet::Attribute>;

// Compute capability 8.0 (the first data centre Ampere) still reports instantaneous power.
bool DrawIsAMean(const nvml::Gpu& gpu) {
  std::string_view capability = gpu.Fact("compute_capability");
  std::string_view rest = capability;
  std::optional<int> major = ParseInt<int>(TakeUntil(rest, '.'));
  return !major || (*major >= 8 && capability != "8.0");
}

std::string ClusterUuid(int64_t high, int64_t low) {
  auto a = static_cast<uint64_t>(high), b = static_cast<uint64_t>(low);
  char text[40];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(a >> 32),
                static_cast<unsigned>(a >> 16 & 0xFFFF), static_cast<unsigned>(a & 0xFFFF),
                static_cast<unsigned>(b >> 48), static_cast<unsigned long long>(b & 0xFFFFFFFFFFFF));
  return text;
}

std::string_view LevelOf(char path) noexcept {
  switch (path) {
    case 'n': return "nvlink";
    case 'i': return "internal";
    case 's': return "single_switch";
    case 'm': return "multi_switch";
    case 'b': return "host_bridge";
    case 'u': return "numa_node";
    case 'y': return "system";
    default: return {};
  }
}

}  // namespace

void BoardSeries::Update(const GpuRun& run) {
  if (!facts_declared_) DeclareFacts(run);
  if (!topology_declared_) DeclareTopology(run);
  for (Series series : facts_) run.out.Set(series, 1);
  for (size_t i = 0; i < std::size(kStateRows); ++i)
    UpdateStates(run, kStateRows[i], states_seen_[i], states_[i]);
  UpdateEccLocations(run);
  UpdatePower(run);
  UpdateThrottleEvents(run);
  UpdateFabric(run);
  UpdateBandwidth(run);
  if (options_.details) UpdateDetails(run);
}

void BoardSeries::DeclareFacts(const GpuRun& run) {
  facts_declared_ = true;
  SeriesTable& table = run.table();
  Attributes near;
  if (auto cpus = run.gpu.Fact("cpu_affinity"); !cpus.empty()) near.push_back({"gpu.cpu.affinity", cpus});
  if (auto nodes = run.gpu.Fact("memory_affinity"); !nodes.empty())
    near.push_back({"gpu.memory.affinity", nodes});
  if (!near.empty()) facts_.push_back(table.Declare(kGpuTopologyAffinity, run.entity, AttributeSet(near)));
  DeclarePlatform(run);
  if (auto version = run.gpu.Fact("gsp_firmware"); options_.details && !version.empty()) {
    Attributes firmware = {{"gpu.firmware.block", std::string_view("gsp")},
                           {"gpu.firmware.version", version}};
    facts_.push_back(table.Declare(kGpuFirmwareInfo, run.entity, AttributeSet(firmware)));
  }
}

void BoardSeries::DeclarePlatform(const GpuRun& run) {
  constexpr std::pair<std::string_view, std::string_view> kPlaces[] = {
      {"platform_slot", "gpu.platform.slot"},
      {"platform_tray", "gpu.platform.tray"},
      {"platform_host", "gpu.platform.host"},
      {"platform_module", "gpu.platform.module"},
  };
  Attributes place;
  for (auto [fact, key] : kPlaces) {
    if (!run.gpu.Fact(fact).empty()) place.push_back({key, run.gpu.Fact(fact)});
  }
  auto chassis = run.gpu.Fact("platform_chassis_serial");
  if (options_.serial && !chassis.empty()) place.push_back({"gpu.platform.chassis_serial", chassis});
  if (!place.empty())
    facts_.push_back(run.table().Declare(kGpuPlatformInfo, run.entity, AttributeSet(place)));
}

// Waits until all peers are known by their UUID.
void BoardSeries::DeclareTopology(const GpuRun& run) {
  std::string_view paths = run.gpu.Fact("topology");
  auto unknown = [](const nvml::Gpu& gpu) { return gpu.Fact("uuid").empty(); };
  if (!paths.empty() && (run.all.size() < paths.size() || std::ranges::any_of(run.all, unknown))) return;
  topology_declared_ = true;
  for (size_t i = 0; i < paths.size(); ++i) {
    std::string_view level = LevelOf(paths[i]);
    if (level.empty()) continue;
    Attributes path = {{"gpu.peer.uuid", run.all[i].Fact("uuid")}, {"gpu.topology.level", level}};
    facts_.push_back(run.table().Declare(kGpuTopologyLink, run.entity, AttributeSet(path)));
  }
}

void BoardSeries::UpdateEccLocations(const GpuRun& run) {
  constexpr auto kFirst = static_cast<size_t>(Field::kEccVolatileCorrectedL1);
  for (size_t i = 0; i < ecc_locations_.size(); ++i) {
    const FieldReading* reading = run.Fresh(static_cast<Field>(kFirst + i));
    if (!reading) continue;
    if (!ecc_locations_[i]) {
      ecc_locations_[i].series =
          run.table().Declare(kGpuEccLocationErrors, run.entity,
                              {{"gpu.ecc.count_type", i % 4 < 2 ? "volatile" : "aggregate"},
                               {"gpu.ecc.error_type", i % 2 == 0 ? "correctable" : "uncorrectable"},
                               {"gpu.ecc.memory_block", kEccLocations[i / 4]}});
    }
    ecc_locations_[i].Write(run, *reading);
  }
}

void BoardSeries::UpdateStates(const GpuRun& run, const StateRow& row, ReadingSeries& seen, States& series) {
  const FieldReading* reading = run.Fresh(row.field);
  if (!reading) return;
  if (!series[0]) {
    for (size_t i = 0; i < row.states.size() && !row.states[i].empty(); ++i)
      series[i] = run.table().Declare(*row.metric, run.entity, {{row.metric->name, row.states[i]}});
  }
  auto state = static_cast<uint64_t>(reading->raw);
  bool known = state < row.states.size() && series[state];
  if (!known) {
    if (seen.IsNew(*reading)) run.out.Reject(series[0], Validation::kOutOfRange);
    return;
  }
  for (size_t i = 0; i < series.size() && series[i]; ++i) run.out.Set(series[i], i == state ? 1 : 0);
}

void BoardSeries::UpdatePower(const GpuRun& run) {
  // Where the board reports a mean, both are the same number.
  const FieldReading* average = run.Fresh(Field::kPowerAverage);
  if (average && !DrawIsAMean(run.gpu)) {
    if (!power_average_) power_average_.series = run.table().Declare(kGpuPowerAverage, run.entity);
    power_average_.Write(run, *average, 1000);
  }
  UpdatePowerOf(run, {Field::kPowerMemory, Field::kPowerMemoryInstant}, true, memory_power_);
  UpdatePowerOf(run, {Field::kPowerModule, Field::kPowerModuleInstant}, false, module_power_);
}

// Power of the memory, which the board contains, or of the module, which contains the board: neither may
// contradict the power of the board.
void BoardSeries::UpdatePowerOf(const GpuRun& run, std::array<Field, 2> fields, bool contained,
                                ReadingSeries& series) {
  const FieldReading* draw = run.Valid(Field::kPower, kGpuPowerInstant);
  const FieldReading* other = run.Fresh(fields[0]);
  if (!other) other = run.Fresh(fields[1]);
  if (!other) return;
  if (!series) series.series = run.table().Declare(contained ? kGpuMemoryPower : kGpuModulePower, run.entity);
  // Only readings of one round contradict each other.
  bool together = draw && draw->boot_ns - other->boot_ns < 1'000'000'000 && other->boot_ns != series.at_ns;
  if (together && (contained ? other->raw > draw->raw : other->raw < draw->raw)) {
    series.IsNew(*other);
    series.good = false;
    return run.out.Reject(series.series, Validation::kInconsistent);
  }
  series.Write(run, *other, 1000);
}

// Rising edges of the reasons, without those that the board does not support or that are no throttling.
void BoardSeries::UpdateThrottleEvents(const GpuRun& run) {
  constexpr uint64_t kNoThrottling = 0x2 | 0x100;  // Set by an administrator; a display's clocks.
  const FieldReading* supported = run.Fresh(Field::kClockReasonsSupported);
  const FieldReading* reasons = run.Fresh(Field::kClockEventReasons);
  if (!reasons) return;
  auto mask = static_cast<uint64_t>(reasons->raw);
  bool first = throttle_seen_.at_ns == 0, fresh = throttle_seen_.IsNew(*reasons);
  uint64_t rising = first || !fresh ? 0 : mask & ~throttle_mask_;
  throttle_mask_ = mask;
  for (size_t i = 0; i < std::size(kThrottleBits); ++i) {
    uint64_t bit = kThrottleBits[i].bit;
    if (bit & kNoThrottling) continue;
    if (!throttle_events_[i]) {
      if (supported && (static_cast<uint64_t>(supported->raw) & bit) == 0) continue;
      throttle_events_[i] = run.table().Declare(kGpuThrottleEvents, run.entity,
                                                {{"gpu.throttle.cause", kThrottleBits[i].cause}});
    }
    throttle_counts_[i] += (rising & bit) != 0;
    run.out.Set(throttle_events_[i], throttle_counts_[i]);
  }
}

void BoardSeries::UpdateFabric(const GpuRun& run) {
  const FieldReading* health = run.Fresh(Field::kFabricHealth);
  for (size_t i = 0; health && i < std::size(kFabricConditions); ++i) {
    const FabricCondition& condition = kFabricConditions[i];
    unsigned state = static_cast<unsigned>(health->raw) >> condition.shift & condition.mask;
    if (state == 0) continue;
    run.out.DeclareAndSet(conditions_[i], kGpuFabricDegraded, run.entity,
                          {{"gpu.fabric.condition", condition.name}}, state == condition.healthy ? 0 : 1);
  }
  const FieldReading* clique = run.Fresh(Field::kFabricClique);
  const FieldReading* high = run.Fresh(Field::kFabricClusterHigh);
  const FieldReading* low = run.Fresh(Field::kFabricClusterLow);
  if (!clique || !high || !low) return;
  std::array<int64_t, 3> now = {clique->raw, high->raw, low->raw};
  if (!fabric_info_ || now != fabric_) {
    run.table().Retire(fabric_info_);
    fabric_ = now;
    std::string uuid = ClusterUuid(high->raw, low->raw), number = std::to_string(clique->raw);
    Attributes domain = {{"gpu.fabric.clique_id", std::string_view(number)}};
    // A single machine has no cluster: all zeros.
    if (high->raw != 0 || low->raw != 0)
      domain.push_back({"gpu.fabric.cluster_uuid", std::string_view(uuid)});
    fabric_info_ = run.table().Declare(kGpuFabricInfo, run.entity, AttributeSet(domain));
  }
  run.out.Set(fabric_info_, 1);
}

// Two transfers per memory clock.
void BoardSeries::UpdateBandwidth(const GpuRun& run) {
  const FieldReading* clock = run.Fresh(Field::kClockMaxMemory);
  std::optional<unsigned> bits = ParseInt<unsigned>(run.gpu.Fact("memory_bus_width"));
  if (!clock || clock->raw <= 0 || !bits || *bits == 0) return;
  run.out.DeclareAndSet(bandwidth_max_, kGpuMemoryBandwidthMax, run.entity, {},
                        static_cast<double>(clock->raw) * 1e6 * 2 * *bits / 8);
}

void BoardSeries::UpdateDetails(const GpuRun& run) {
  const FieldReading* total = run.Fresh(Field::kBar1Total);
  const FieldReading* used = run.Fresh(Field::kBar1Used);
  if (total && used && used->raw <= total->raw)
    run.out.DeclareAndSet(bar1_free_, kGpuMemoryBar1Free, run.entity, {}, total->raw - used->raw);
  const FieldReading* sent = run.Fresh(Field::kNvlinkTxBytes);
  const FieldReading* received = run.Fresh(Field::kNvlinkRxBytes);
  if (!sent || !received) return;
  interconnect_.Update(run.out, sent->raw + received->raw, received->boot_ns, [&] {
    return run.table().Declare(kGpuInterconnectBandwidth, run.entity, {{"gpu.interconnect.type", "nvlink"}});
  });
}

namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::FieldTier;
using nvml::LinkField;

constexpr std::string_view kIndex = "gpu.interconnect.link_index", kError = "gpu.interconnect.error_type";

// The kinds of errors. Where the board has a total of its own, it is newer than the sum over links.
struct ErrorRow {
  LinkField field;
  std::string_view name;
  bool c2c = false;
  Field total = Field::kCount;
};
constexpr ErrorRow kErrors[] = {
    {LinkField::kCrcFlit, "crc_flit", false, Field::kNvlinkCrcFlit},
    {LinkField::kCrcData, "crc_data", false, Field::kNvlinkCrcData},
    {LinkField::kReplay, "replay", false, Field::kNvlinkReplay},
    {LinkField::kRecovery, "recovery", false, Field::kNvlinkRecovery},
    {LinkField::kEccData, "ecc_data", false, Field::kNvlinkEccData},
    {LinkField::kMalformed, "malformed"},
    {LinkField::kOverrun, "overrun"},
    {LinkField::kReceive, "receive"},
    {LinkField::kRemote, "remote"},
    {LinkField::kGeneral, "general"},
    {LinkField::kIntegrity, "integrity"},
    {LinkField::kDiscard, "discard"},
    {LinkField::kEffective, "effective"},
    {LinkField::kSymbol, "symbol"},
    {LinkField::kInterrupt, "interrupt", true},
    {LinkField::kReplay, "replay", true},
    {LinkField::kReplayBackToBack, "replay_back_to_back", true},
};

bool IsC2c(size_t number) noexcept { return number >= nvml::LinkOfC2c(0); }
std::string_view TypeOf(size_t number) noexcept { return IsC2c(number) ? "c2c" : "nvlink"; }
int64_t IndexOf(size_t number) noexcept {
  return static_cast<int64_t>(number - (IsC2c(number) ? nvml::LinkOfC2c(0) : nvml::LinkOfNvlink(0)));
}
const FieldReading& At(const GpuRun& run, size_t number, LinkField field) noexcept {
  return run.gpu.links[number - 1][static_cast<size_t>(field)];
}

std::string BusIdOf(int64_t packed) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(packed >> 16 & 0xFFFFFFFF),
                static_cast<unsigned>(packed >> 8 & 0xFF), static_cast<unsigned>(packed & 0xFF));
  return text;
}

std::string_view RemoteOf(int64_t type) noexcept {
  switch (type) {
    case 0: return "gpu";
    case 1: return "cpu";
    case 2: return "switch";
    default: return "unknown";
  }
}

}  // namespace

void LinkSeries::Update(const GpuRun& run) {
  static_assert(kTotals == std::size(kErrors));
  if (links_.size() < run.gpu.links.size()) links_.resize(run.gpu.links.size());
  UpdateTotals(run);
  UpdateC2c(run);
  for (size_t number = 1; number <= run.gpu.links.size(); ++number) {
    Link& link = links_[number - 1];
    UpdateErrors(run, number, link);
    if (!each_) continue;
    UpdateFields(run, number, link);
    UpdateInfo(run, number, link);
    UpdateFec(run, number, link);
  }
}

void LinkSeries::UpdateTotals(const GpuRun& run) {
  for (size_t i = 0; i < std::size(kErrors); ++i) {
    const ErrorRow& row = kErrors[i];
    uint64_t sum = 0;
    bool any = false;
    if (const FieldReading* total = row.total == Field::kCount ? nullptr : run.Fresh(row.total)) {
      sum = static_cast<uint64_t>(total->raw);
      any = true;
    } else if (totals_[i] && row.total != Field::kCount && run.gpu[row.total].boot_ns != 0) {
      continue;  // A late total is not replaced by a sum of another moment.
    } else {
      for (size_t number = 1; number <= run.gpu.links.size(); ++number) {
        if (IsC2c(number) != row.c2c) continue;
        const FieldReading& reading = At(run, number, row.field);
        any |= run.Fresh(reading, FieldTier::kSlow) != nullptr;
        // A link that is down keeps its last count, so that the sum never falls.
        if (reading.boot_ns != 0) sum += static_cast<uint64_t>(reading.raw);
      }
    }
    if (!any) continue;
    run.out.DeclareAndSet(totals_[i], kGpuInterconnectErrors, run.entity,
                          {{kLinkType, row.c2c ? "c2c" : "nvlink"}, {kError, row.name}}, sum);
  }
}

void LinkSeries::UpdateC2c(const GpuRun& run) {
  int64_t active = 0, all = 0;
  for (size_t number = nvml::LinkOfC2c(0); number <= run.gpu.links.size(); ++number) {
    const FieldReading* state = run.Fresh(At(run, number, LinkField::kActive), FieldTier::kMedium);
    if (!state) continue;
    ++all;
    active += state->raw == 1;
  }
  if (all == 0) return;
  SetLinkCounts(run, "c2c", active, all, c2c_active_, c2c_inactive_);
}

void LinkSeries::SetLinkCounts(const GpuRun& run, std::string_view type, int64_t active, int64_t all,
                               Series& active_series, Series& inactive_series) {
  auto set = [&](Series& series, std::string_view state, int64_t count) {
    run.out.DeclareAndSet(series, kGpuInterconnectLinks, run.entity,
                          {{kLinkType, type}, {"gpu.interconnect.state", state}}, count);
  };
  set(active_series, "active", active);
  set(inactive_series, "inactive", all - active);
}

void LinkSeries::UpdateErrors(const GpuRun& run, size_t number, Link& link) {
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(number) == row.c2c && At(run, number, row.field).raw != 0) link.errors = true;
  }
  if (!each_ && !link.errors) return;
  for (const ErrorRow& row : kErrors) {
    if (IsC2c(number) != row.c2c) continue;
    const FieldReading* reading = run.Fresh(At(run, number, row.field), FieldTier::kSlow);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      series.series =
          run.table().Declare(kGpuInterconnectLinkErrors, run.entity,
                              {{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}, {kError, row.name}});
    }
    series.Write(run, *reading);
  }
}

void LinkSeries::UpdateFields(const GpuRun& run, size_t number, Link& link) {
  for (const LinkRow& row : kLinkRows) {
    const FieldReading* reading = run.Fresh(At(run, number, row.field), row.tier);
    if (!reading) continue;
    ReadingSeries& series = link.fields[static_cast<size_t>(row.field)];
    if (!series) {
      AttributeSet::Attribute extra[] = {
          {kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}, {row.key, row.value}};
      series.series = run.table().Declare(
          *row.metric, run.entity,
          AttributeSet(std::span<const AttributeSet::Attribute>(extra, row.key.empty() ? 2 : 3)));
    }
    if (row.metric == &kGpuInterconnectLinkSpeed) {
      run.out.Set(series.series, static_cast<double>(reading->raw) * 1e6);
    } else if (row.metric == &kGpuInterconnectLinkBitErrorRate) {
      run.out.Set(series.series, nvml::BitErrorRate(static_cast<uint64_t>(reading->raw)));
    } else {
      series.Write(run, *reading);
    }
  }
}

void LinkSeries::UpdateInfo(const GpuRun& run, size_t number, Link& link) {
  constexpr std::array kFields = {LinkField::kVersion, LinkField::kRemoteType, LinkField::kRemotePci,
                                  LinkField::kRemoteLink};
  std::array<int64_t, kFields.size()> now;
  bool any = false;
  for (size_t i = 0; i < kFields.size(); ++i) {
    const FieldReading* reading = run.Fresh(At(run, number, kFields[i]), FieldTier::kSlow);
    now[i] = reading ? reading->raw : -1;
    any |= reading != nullptr;
  }
  if (!any) return;
  if (!link.info || now != link.remote) {
    run.table().Retire(link.info);
    link.remote = now;
    std::string version = std::to_string(now[0]), bus = BusIdOf(now[2]), far = std::to_string(now[3]);
    std::vector<AttributeSet::Attribute> extra = {{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}};
    if (now[0] >= 0) extra.push_back({"gpu.interconnect.version", std::string_view(version)});
    if (now[1] >= 0) extra.push_back({"gpu.interconnect.remote.type", RemoteOf(now[1])});
    if (now[2] >= 0) extra.push_back({"gpu.interconnect.remote.pci_bus_id", std::string_view(bus)});
    if (now[3] >= 0) extra.push_back({"gpu.interconnect.remote.link_index", std::string_view(far)});
    link.info = run.table().Declare(kGpuInterconnectLinkInfo, run.entity, AttributeSet(extra));
  }
  run.out.Set(link.info, 1);
}

// Blocks by how many of their symbols were corrected: bin n counts those with n, the last one those with
// more, too.
void LinkSeries::UpdateFec(const GpuRun& run, size_t number, Link& link) {
  auto bin = [&](size_t i) -> const FieldReading& {
    return At(run, number, static_cast<LinkField>(static_cast<size_t>(LinkField::kFec0) + i));
  };
  for (size_t i = 0; i < nvml::kFecBins; ++i) {
    if (!run.Fresh(bin(i), FieldTier::kSlow)) return;
  }
  if (!link.fec) {
    Ref<Shape> shape = MakeRef<Shape>();
    shape->has_sum = false;
    for (size_t i = 0; i + 1 < nvml::kFecBins; ++i) shape->bounds.push_back(static_cast<double>(i));
    link.fec = run.table().Declare(kGpuInterconnectLinkFecCorrected, run.entity,
                                   AttributeSet({{kLinkType, TypeOf(number)}, {kIndex, IndexOf(number)}}),
                                   SeriesTable::Form{.shape = shape});
  }
  std::span<Cell> cells = run.out.Cells(link.fec);
  double sum = 0;
  for (size_t i = 0; i < cells.size() && i < nvml::kFecBins; ++i) {
    sum += static_cast<double>(bin(i).raw);
    cells[i].d = sum;
  }
}

void AerSeries::Update(const std::string& root, const nvml::Gpu& gpu, const EntityRef& entity,
                       FrameWriter& out) {
  if (entity != entity_) *this = AerSeries();
  if (!entity) return;
  if (!entity_) {
    entity_ = entity;
    if (auto address = ParsePciAddress(gpu.Fact("pci_bus_id")))
      device_ = std::make_unique<pci_aer::AerDevice>(root, address->ToString());
  }
  if (!device_) return;
  int64_t now = out.begun_at().boot_ns;
  if (read_ns_ != 0 && now - read_ns_ < kPeriodNs) {
    for (Series series : series_) {
      if (series) out.Keep(series);
    }
    return;
  }
  read_ns_ = now;
  auto counts = device_->Read();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (!counts[i]) continue;
    out.DeclareAndSet(
        series_[i], kGpuPcieAerErrors, entity,
        {{"gpu.pcie.aer.severity", pci_aer::SeverityName(static_cast<pci_aer::AerSeverity>(i))}}, *counts[i]);
  }
}

}  // namespace gpulens::nvidia
