// Collector of Intel Gaudi cards, through hl-smi. Waits for the program on a thread of the
// source, and lets one GaudiSeries per card turn readings into values.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/collectors/gaudi/gaudi.h"
#include "plugins/plugin.h"
#include "sources/hl_smi/hl_smi.h"

namespace gpulens {
namespace {

using hl_smi::GaudiCard;
using hl_smi::GaudiPort;

struct FieldRow {
  std::optional<double> GaudiCard::* field;
  const MetricDesc* metric;
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
};
// The source has base units.
constexpr FieldRow kRows[] = {
    {&GaudiCard::utilization, &kGpuUtilization, "gpu.task.type", "compute"},
    {&GaudiCard::memory_total_bytes, &kGpuMemoryTotal},
    {&GaudiCard::memory_used_bytes, &kGpuMemoryUsed},
    {&GaudiCard::memory_free_bytes, &kGpuMemoryFree},
    {&GaudiCard::power_draw_watts, &kGpuPowerDraw},
    {&GaudiCard::power_max_watts, &kGpuPowerLimit, "gpu.power.limit_type", "max"},
    {&GaudiCard::temperature_celsius, &kGpuTemperature, "gpu.temperature.sensor", "edge"},
    {&GaudiCard::clock_soc_mhz, &kGpuClockFrequency, "gpu.clock.type", "soc"},
    {&GaudiCard::clock_soc_limit_mhz, &kGpuClockLimit, "gpu.clock.type", "soc", "gpu.clock.limit_type",
     "locked_max"},
    {&GaudiCard::ecc_volatile, &kGpuEccErrors, "gpu.ecc.count_type", "volatile", "gpu.ecc.error_type",
     "uncorrectable"},
    {&GaudiCard::ecc_aggregate, &kGpuEccErrors, "gpu.ecc.count_type", "aggregate", "gpu.ecc.error_type",
     "uncorrectable"},
    {&GaudiCard::rows_replaced, &kGpuRowRemapCount, "gpu.row_remap.state", "replaced"},
    {&GaudiCard::rows_pending, &kGpuRowRemapPending, "gpu.row_remap.state", "pending"},
};

const GaudiPort* Find(const std::vector<GaudiPort>& ports, int number) {
  for (const GaudiPort& port : ports) {
    if (port.port == number) return &port;
  }
  return nullptr;
}

using std::chrono::seconds;

// After failures the program runs less and less often: each run is a process that opens the driver.
constexpr int kMostSkipped = 16;
// Reserved of a run's time for the end of a killed process and for writing values.
constexpr Duration kReserve = std::chrono::milliseconds(300);

constexpr OptionSpec kOptions[] = {
    TextOption("hl_smi_path", "hl-smi", "Path of the program, or its name in PATH."),
    TimeOption("call_timeout", "5s", "Timeout of one run of the program, which is then killed.", 0.05),
    BoolOption("ports", true, "Read the network ports: one run of the program for each card."),
};
using Options = OptionsOf<kOptions>;

class GaudiCollector final : public Collector {
 public:
  GaudiCollector(const Options& options, std::string program, const Clock& clock)
      : source_({std::move(program), options.Time("call_timeout"), seconds(1), options.Bool("ports")},
                clock) {}

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    queried_ = skip_ == 0;
    if (!queried_) {
      --skip_;
      return done(Ok());
    }
    source_.Request(deadline + -kReserve, [done = std::move(done)] { done(Ok()); });
  }

  Status Collect(FrameWriter& out) override {
    if (!driver_) Declare(out.table());
    const hl_smi::GaudiReading& reading = source_.last();
    bool good = queried_ && reading.status.ok() && reading.calls != 0;
    WriteDriver(reading, out);
    if (!queried_)
      return reading.status.ok() ? Status{Code::kTimeout, "hl-smi has not been run"} : reading.status;
    Instant begun = out.read_at();
    if (good) WriteCards(reading, out);
    out.ReadAt(begun);
    failures_ = good ? 0 : std::min(failures_ + 1, 8);
    skip_ = failures_ < 2 ? 0 : std::min(kMostSkipped, 1 << (failures_ - 2));
    return reading.status;
  }

 private:
  void Declare(SeriesTable& table) {
    driver_ = MakeRef<Entity>("reader", AttributeSet({{"reader", "hl_smi"}}));
    up_ = table.Declare(kSelfDriverUp, driver_);
    hung_ = table.Declare(kSelfDriverCallsHung, driver_);
    duration_ = table.Declare(kSelfDriverCallDuration, driver_);
    used_ = table.Declare(kSelfDriverDevices, driver_, {{"state", "used"}});
  }

  void WriteDriver(const hl_smi::GaudiReading& reading, FrameWriter& out) {
    bool good = reading.status.ok() && reading.calls != 0;
    out.Set(up_, good ? 1 : 0);
    out.Set(hung_, reading.stuck);
    if (reading.calls == 0) return;
    out.Set(duration_, static_cast<double>(reading.longest_call.count()) * 1e-9);
    if (good) out.Set(used_, reading.cards.size());
  }

  void WriteCards(const hl_smi::GaudiReading& reading, FrameWriter& out) {
    ++round_;
    for (const hl_smi::CardReading& card : reading.cards) {
      GaudiSeries& series = cards_.try_emplace(card.card.key).first->second;
      series.seen = round_;
      series.Update(card, reading.at, out);
    }
    for (auto at = cards_.begin(); at != cards_.end();) {
      const bool gone = at->second.seen != round_;
      if (gone) at->second.Retire(out.table());
      at = gone ? cards_.erase(at) : std::next(at);
    }
    WriteHost(reading, out);
  }

  void WriteHost(const hl_smi::GaudiReading& reading, FrameWriter& out) {
    out.DeclareAndSet(devices_, kGpuDevices, {}, {{"gpu.vendor", "intel"}}, reading.cards.size());
    if (reading.cards.empty() || reading.cards.front().card.driver_version.empty()) return;
    const std::string& version = reading.cards.front().card.driver_version;
    if (!info_ || version != version_) {
      out.table().Retire(info_);
      version_ = version;
      info_ = out.table().Declare(kGpuDriverInfo, {},
                                  {{"gpu.vendor", "intel"}, {"gpu.driver.version", version_}});
    }
    out.Set(info_, 1);
  }

  hl_smi::HlSmiSource source_;
  bool queried_ = false;
  int failures_ = 0, skip_ = 0;
  uint64_t round_ = 0;
  std::map<std::string, GaudiSeries, std::less<>> cards_;
  EntityRef driver_;
  Series up_, hung_, duration_, used_, devices_, info_;
  std::string version_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  if (env.demo) return Status{Code::kUnavailable, "GPUs are simulated; no card is read"};
  ASSIGN_OR_RETURN(std::string program, ResolveProgram(Options(config).Text("hl_smi_path")));
  return std::unique_ptr<Collector>(std::make_unique<GaudiCollector>(config, std::move(program), *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "gaudi";
  auto program = ResolveProgram(Options(config).Text("hl_smi_path"));
  if (program) {
    finding.what = *program;
    return {finding};
  }
  bool forbidden = program.error().code == Code::kPermissionDenied;
  finding.kind = forbidden ? Finding::kNoPermission : Finding::kNotHere;
  finding.why = program.error().detail;
  if (!forbidden) {
    finding.remedy =
        "collectors: {gaudi: {hl_smi_path: /usr/bin/hl-smi}}     or the exporter's page: {gpu_page: "
        "{targets: …}}";
  }
  return {finding};
}

void NeededRights(const Config& config, const Env& env, Rights& out) {
  if (env.demo) return;
  const auto program = ResolveProgram(Options(config).Text("hl_smi_path"));
  if (program) out.programs.push_back(hl_smi::RuleOfHlSmi(*program));
}

constexpr const MetricDesc* kMetrics[] = {&kGpuUtilization,
                                          &kGpuEnergyEstimate,
                                          &kGpuEnergyEstimateError,
                                          &kGpuMemoryTotal,
                                          &kGpuMemoryUsed,
                                          &kGpuMemoryFree,
                                          &kGpuMemoryUsedPercent,
                                          &kGpuPowerDraw,
                                          &kGpuPowerLimit,
                                          &kGpuPowerUtilization,
                                          &kGpuTemperature,
                                          &kGpuClockFrequency,
                                          &kGpuClockLimit,
                                          &kGpuEccErrors,
                                          &kGpuRowRemapCount,
                                          &kGpuRowRemapPending,
                                          &kGpuInterconnectThroughput,
                                          &kGpuInterconnectIo,
                                          &kGpuInfo,
                                          &kGpuDriverInfo,
                                          &kGpuDevices,
                                          &kSelfDriverUp,
                                          &kSelfDriverCallsHung,
                                          &kSelfDriverCallDuration,
                                          &kSelfDriverDevices};

}  // namespace

void GaudiSeries::Retire(SeriesTable& table) {
  if (entity_) table.Retire(entity_);
  uint64_t kept = seen;
  *this = GaudiSeries();
  seen = kept;
}

bool GaudiSeries::SameCard(const GaudiCard& card) const noexcept {
  return card.key == known_.key && card.index == known_.index && card.name == known_.name &&
         card.uuid == known_.uuid && card.bus_id == known_.bus_id;
}

void GaudiSeries::Declare(const GaudiCard& card, SeriesTable& table) {
  static_assert(std::size(kRows) <= kFields);
  std::vector<AttributeSet::Attribute> own;
  if (card.index) own.push_back({"gpu.index", int64_t{*card.index}});
  if (!card.uuid.empty()) own.push_back({"gpu.uuid", card.uuid});
  if (!card.name.empty()) own.push_back({"gpu.model", card.name});
  // Without another identifier.
  if (card.uuid.empty() && !card.index) own.push_back({"gpu.pci.bus_id", card.bus_id});
  known_ = card;
  std::vector<AttributeSet::Attribute> facts = {{"gpu.vendor", "gaudi"}};
  if (!card.bus_id.empty()) facts.push_back({"gpu.pci.bus_id", card.bus_id});
  if (!card.serial.empty()) facts.push_back({"gpu.serial", card.serial});
  entity_ = MakeRef<Entity>("gpu", AttributeSet(own), EntityRef{}, AttributeSet(facts));
  std::vector<AttributeSet::Attribute> info = {{"gpu.vendor", "intel"}};
  if (!card.bus_id.empty()) info.push_back({"gpu.pci.bus_id", card.bus_id});
  info_ = table.Declare(kGpuInfo, entity_, AttributeSet(info));
}

void GaudiSeries::Update(const hl_smi::CardReading& reading, Instant at, FrameWriter& out) {
  if (entity_ && !SameCard(reading.card)) Retire(out.table());
  if (!entity_) Declare(reading.card, out.table());
  out.ReadAt(at);
  out.Set(info_, 1);
  UpdateNumbers(reading.card, out);
  UpdateShares(reading.card, out);
  UpdatePorts(reading, out);
  out.ReadAt(at);
}

void GaudiSeries::UpdateNumbers(const GaudiCard& card, FrameWriter& out) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const FieldRow& row = kRows[i];
    const std::optional<double>& value = card.*row.field;
    if (!value) continue;
    if (!fields_[i]) {
      std::vector<AttributeSet::Attribute> extra;
      if (!row.key.empty()) extra.push_back({row.key, row.value});
      if (!row.key2.empty()) extra.push_back({row.key2, row.value2});
      fields_[i] = out.table().Declare(*row.metric, entity_, AttributeSet(extra));
    }
    if (std::isnan(*value)) out.Reject(fields_[i], Validation::kSentinel);
    else out.Set(fields_[i], *value);
  }
}

void GaudiSeries::UpdateShares(const GaudiCard& card, FrameWriter& out) {
  auto known = [](const std::optional<double>& value) { return value && !std::isnan(*value); };
  if (known(card.power_draw_watts) && card.power_max_watts && *card.power_max_watts > 0) {
    out.DeclareAndSet(power_share_, kGpuPowerUtilization, entity_, {},
                      *card.power_draw_watts / *card.power_max_watts);
  }
  if (known(card.memory_used_bytes) && card.memory_total_bytes && *card.memory_total_bytes > 0) {
    out.DeclareAndSet(memory_percent_, kGpuMemoryUsedPercent, entity_, {},
                      100 * *card.memory_used_bytes / *card.memory_total_bytes);
  }
}

void GaudiSeries::UpdatePorts(const hl_smi::CardReading& reading, FrameWriter& out) {
  const hl_smi::PortsReading &now = reading.ports, &before = reading.ports_before;
  if (now.ports.empty() || now.at == ports_reported_) return;
  ports_reported_ = now.at;
  out.ReadAt(now.at);
  double seconds = static_cast<double>((now.at - before.at).count()) * 1e-9;
  for (const GaudiPort& port : now.ports) {
    PortSeries& series = ports_[port.port];
    const GaudiPort* last = before.ports.empty() || seconds <= 0 ? nullptr : Find(before.ports, port.port);
    auto update = [&](std::string_view direction, std::optional<uint64_t> GaudiPort::* bytes, Series& total,
                      Series& rate) {
      if (!(port.*bytes)) return;
      auto declare = [&](const MetricDesc& metric) {
        return out.table().Declare(metric, entity_,
                                   {{"gpu.interconnect.direction", direction},
                                    {"gpu.interconnect.type", "roce"},
                                    {"gpu.interconnect.link_index", int64_t{port.port}}});
      };
      if (!total) total = declare(kGpuInterconnectIo);
      out.Set(total, *(port.*bytes));
      // A counter that fell has restarted: no rate for this span.
      if (!last || !(last->*bytes) || *(last->*bytes) > *(port.*bytes)) return;
      if (!rate) rate = declare(kGpuInterconnectThroughput);
      out.Set(rate, static_cast<double>(*(port.*bytes) - *(last->*bytes)) / seconds);
    };
    update("receive", &GaudiPort::received, series.received, series.received_rate);
    update("transmit", &GaudiPort::transmitted, series.transmitted, series.transmitted_rate);
  }
}

extern const CollectorSpec gaudi_collector;
const CollectorSpec gaudi_collector{.name = "gaudi",
                                    .help = "Intel Gaudi cards, through hl-smi.",
                                    .period = seconds(15),
                                    .ttl = seconds(60),
                                    .options = kOptions,
                                    .metrics = kMetrics,
                                    .create = &Create,
                                    .probe = &Probe,
                                    .rights = &NeededRights};

}  // namespace gpulens
