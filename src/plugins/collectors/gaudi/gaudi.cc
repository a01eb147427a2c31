// Intel Gaudi cards, through hl-smi. This file keeps the program in view; it waits for it on a thread of the
// source, and lets one GaudiSeries per card turn readings into values.

#include <algorithm>
#include <map>
#include <string>

#include "base/process.h"
#include "base/result.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/collectors/gaudi/gaudi_series.h"
#include "plugins/plugin.h"
#include "sources/hl_smi/hl_smi_source.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// After failures the program is run less and less often: each run is a process that opens the driver.
constexpr int kMostSkipped = 16;
// Of a run's time: a killed process takes a moment to go, and the reading is turned into values.
constexpr Duration kReserve = std::chrono::milliseconds(300);

class GaudiCollector final : public Collector {
 public:
  GaudiCollector(const Config& config, std::string program, const Clock& clock)
      : source_({std::move(program), config.Time("call_timeout"), seconds(1), config.Bool("ports")}, clock) {}

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
    const hl_smi::Reading& reading = source_.last();
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

  void WriteDriver(const hl_smi::Reading& reading, FrameWriter& out) {
    bool good = reading.status.ok() && reading.calls != 0;
    out.Set(up_, good ? 1 : 0);
    out.Set(hung_, reading.stuck);
    if (reading.calls == 0) return;
    out.Set(duration_, static_cast<double>(reading.longest_call.count()) * 1e-9);
    if (good) out.Set(used_, reading.cards.size());
  }

  void WriteCards(const hl_smi::Reading& reading, FrameWriter& out) {
    ++round_;
    for (const hl_smi::CardReading& card : reading.cards) {
      auto at = cards_.find(card.card.key);
      if (at == cards_.end()) at = cards_.emplace(card.card.key, GaudiSeries()).first;
      GaudiSeries& series = at->second;
      series.seen = round_;
      series.Update(card, reading.at, out);
    }
    for (auto at = cards_.begin(); at != cards_.end();) {
      if (at->second.seen == round_) {
        ++at;
        continue;
      }
      at->second.Retire(out.table());
      at = cards_.erase(at);
    }
    WriteHost(reading, out);
  }

  void WriteHost(const hl_smi::Reading& reading, FrameWriter& out) {
    if (!devices_) devices_ = out.table().Declare(kGpuDevices, {}, {{"gpu.vendor", "intel"}});
    out.Set(devices_, reading.cards.size());
    if (reading.cards.empty() || reading.cards.front().card.driver_version.empty()) return;
    const std::string& version = reading.cards.front().card.driver_version;
    if (!info_ || version != version_) {
      out.table().Retire(info_);
      version_ = version;
      info_ = out.table().Declare(
          kGpuDriverInfo, {}, {{"gpu.vendor", "intel"}, {"gpu.driver.version", std::string_view(version_)}});
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
  ASSIGN_OR_RETURN(std::string program, FindProgram(config.Text("hl_smi_path")));
  return std::unique_ptr<Collector>(std::make_unique<GaudiCollector>(config, std::move(program), *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "gaudi";
  auto program = FindProgram(config.Text("hl_smi_path"));
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

constexpr OptionSpec kOptions[] = {
    {.key = "hl_smi_path", .fallback = "hl-smi", .help = "Path of the program, or its name in PATH."},
    {.key = "call_timeout",
     .type = OptionType::kTime,
     .fallback = "5s",
     .help = "Timeout of one run of the program, which is then killed.",
     .min = 0.05},
    {.key = "ports",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Read the network ports: one run of the program for each card."},
};

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

extern const CollectorSpec gaudi_collector;
const CollectorSpec gaudi_collector{.name = "gaudi",
                                    .help = "Intel Gaudi cards, through hl-smi.",
                                    .period = seconds(15),
                                    .ttl = seconds(60),
                                    .options = kOptions,
                                    .metrics = kMetrics,
                                    .create = &Create,
                                    .probe = &Probe};

}  // namespace gpulens
