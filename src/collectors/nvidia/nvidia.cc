// NVIDIA GPUs, through the NVML driver process. This file keeps the process in view and lets one
// GpuSeries per GPU turn readings into values; no library call happens in this process.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/version.h"
#include "catalog/self.h"
#include "collectors/nvidia/event_reporter.h"
#include "collectors/nvidia/gpu_series.h"
#include "collectors/nvidia/nvidia_metrics.h"
#include "collectors/nvidia/nvidia_probe.h"
#include "pipeline/agent_stats.h"
#include "pipeline/control/driver_control.h"
#include "pipeline/plugin.h"
#include "sources/nvml/driver_supervisor.h"
#include "sources/nvml/probe/gpu_probe.h"

namespace gpulens {
namespace {

using nvml::DriverFault;
using nvml::DriverState;
using nvml::ReadStatus;
using nvml::StartReason;

constexpr std::string_view kDefaultLibrary = "libnvidia-ml.so.1";
constexpr std::string_view kSimulated = "simulated";
constexpr auto kMedium = std::chrono::seconds(10);
constexpr auto kSlow = std::chrono::seconds(60);

// The driver's fields by status, under the catalogue's words.
constexpr std::pair<ReadStatus, std::string_view> kFieldStatuses[] = {
    {ReadStatus::kOk, "ok"},
    {ReadStatus::kNotSupported, "not_supported"},
    {ReadStatus::kNoPermission, "no_permission"},
    {ReadStatus::kNotFound, "not_found"},
    {ReadStatus::kError, "error"},
};

Code CodeOf(DriverFault fault) {
  switch (fault) {
    case DriverFault::kNoPermission: return Code::kPermissionDenied;
    case DriverFault::kLibraryNotFound:
    case DriverFault::kDriverNotLoaded:
    case DriverFault::kReleased:
    case DriverFault::kNoGpus: return Code::kUnavailable;
    case DriverFault::kHung:
    case DriverFault::kStuckInKernel: return Code::kTimeout;
    case DriverFault::kBadMessage: return Code::kDataLoss;
    default: return Code::kIo;
  }
}

bool Simulated(const Config& config, const Env& env) {
  return env.demo || config.Text("library") == kSimulated;
}

nvml::SourceOptions MakeSourceOptions(const Config& config, const Env& env) {
  nvml::SourceOptions options;
  options.interval = config.Time("interval");
  options.medium = std::max<Duration>(kMedium, options.interval);
  options.slow = std::max<Duration>(kSlow, options.interval);
  options.build_id = std::string(Version()) + " " + std::string(Revision());
  bool simulated = Simulated(config, env);
  if (!simulated && config.Text("library") != kDefaultLibrary) options.library_path = config.Text("library");
  options.details = (config.Bool("links") ? nvml::kDetailLinks : 0U) |
                    (config.Bool("topology") ? nvml::kDetailTopology : 0U) |
                    (config.Bool("details") ? nvml::kDetailMore : 0U) |
                    (config.Bool("samples") ? nvml::kDetailSamples : 0U);
  if (simulated) options.arguments.push_back("--simulated");
  if (simulated && env.nvml && !env.nvml->fault_file().empty())
    options.environment.push_back("GPULENS_FAKE_NVML_FAULTS=" + env.nvml->fault_file());
  if (config.Bool("clock_events")) options.event_types |= nvml::kEventClock | nvml::kEventPerformanceState;
  return options;
}

// What an operator says, else what the bus showed when the collector was made: a GPU that falls off the bus
// later is missing, and not expected no more. 0: nobody knows.
size_t ExpectedGpus(const Config& config, const Env& env) {
  if (config.Int("expected") > 0) return static_cast<size_t>(config.Int("expected"));
  bool real = !Simulated(config, env) && config.Text("library") == kDefaultLibrary;
  return real ? nvml::ProbeGpus().pci_gpus.size() : 0;
}

class NvidiaCollector final : public Collector {
 public:
  NvidiaCollector(const Config& config, Env& env)
      : env_(env),
        simulated_(Simulated(config, env)),
        source_(MakeSourceOptions(config, env)),
        book_(env.root),
        gpu_options_{simulated_, config.Bool("serial"), config.Bool("links"), config.Bool("details"),
                     simulated_ ? nullptr : &book_},
        expected_(ExpectedGpus(config, env)) {
    if (env_.nvml) env_.nvml->Join();
    // A reading is as old as its tier's period at most, and a late reader gets one interval more.
    int64_t interval = config.Time("interval").count();
    patience_.ns = {2 * interval, std::max<int64_t>(Duration(kMedium).count(), interval) + 2 * interval,
                    std::max<int64_t>(Duration(kSlow).count(), interval) + 2 * interval};
  }
  ~NvidiaCollector() override {
    if (env_.stats) env_.stats->nvml_driver_pid = 0;
    if (env_.nvml) env_.nvml->Leave();
  }

  Status Collect(FrameWriter& out) override {
    FollowOrder(out.read_at());
    source_.Poll(out.read_at());
    if (env_.nvml) {
      env_.nvml->Answer(source_.quiet());
      env_.nvml->Tell(simulated_, source_.gpus().size());
    }
    const DriverState& driver = source_.driver();
    if (env_.stats) env_.stats->nvml_driver_pid = std::max(driver.pid, 0);
    UpdateDriver(driver, out);
    UpdateDriverInfo(driver, out);
    book_.NextRound();
    UpdateGpus(out);
    reporter_.Report(source_, driver_entity_, gpus_, out.read_at());
    if (driver.up) return Ok();
    if (driver.fault == DriverFault::kNone) return {Code::kTimeout, "the driver process is starting"};
    return {CodeOf(driver.fault), driver.last_error};
  }

 private:
  // `gpulens driver release` frees the devices for a while.
  void FollowOrder(Instant now) {
    DriverControl::Order order = env_.nvml ? env_.nvml->Ask(now) : DriverControl::Order{};
    if (order.release && !released_) {
      std::string until =
          order.until_boot_ns == 0
              ? "until: gpulens driver resume"
              : "for " + std::to_string((order.until_boot_ns - now.boot_ns + 999'999'999) / 1'000'000'000) +
                    " s, or until: gpulens driver resume";
      source_.Suspend("the GPUs are released on request " + until);
    }
    if (!order.release && released_) source_.Resume();
    released_ = order.release;
  }

  void DeclareDriver(SeriesTable& table) {
    driver_entity_ = MakeRef<Entity>("driver", AttributeSet({{"driver", "nvml"}}));
    up_ = table.Declare(kSelfDriverUp, driver_entity_);
    heartbeat_ = table.Declare(kSelfDriverHeartbeatAge, driver_entity_);
    hung_ = table.Declare(kSelfDriverCallsHung, driver_entity_);
    used_ = table.Declare(kSelfDriverDevices, driver_entity_, {{"state", "used"}});
    left_out_ = table.Declare(kSelfDriverDevices, driver_entity_, {{"state", "left_out"}});
    watched_ = table.Declare(kSelfDriverDevices, driver_entity_, {{"state", "watched"}});
    for (size_t i = 0; i < starts_.size(); ++i) {
      starts_[i] = table.Declare(kSelfDriverStarts, driver_entity_,
                                 {{"reason", nvml::StartReasonName(static_cast<StartReason>(i))}});
    }
    for (size_t i = 0; i < std::size(kFieldStatuses); ++i) {
      fields_[i] = table.Declare(kSelfDriverFields, driver_entity_, {{"status", kFieldStatuses[i].second}});
    }
  }

  void UpdateDriver(const DriverState& driver, FrameWriter& out) {
    if (!driver_entity_) DeclareDriver(out.table());
    out.Set(up_, driver.up ? 1 : 0);
    if (driver.last_heartbeat_boot_ns != 0) {
      out.Set(heartbeat_, static_cast<double>(out.read_at().boot_ns - driver.last_heartbeat_boot_ns) * 1e-9);
    }
    auto gpus = source_.gpus();
    auto hung = std::count_if(gpus.begin(), gpus.end(),
                              [](const auto& gpu) { return gpu.state == nvml::GpuState::kHung; });
    out.Set(hung_, hung);
    out.Set(used_, driver.gpus_used);
    out.Set(left_out_, driver.gpus_left_out);
    if (driver.up) out.Set(watched_, driver.gpus_watched);
    for (size_t i = 0; i < starts_.size(); ++i) out.Set(starts_[i], driver.starts[i]);
    auto by_status = source_.FieldsByStatus();
    for (size_t i = 0; i < std::size(kFieldStatuses); ++i) {
      out.Set(fields_[i], by_status[static_cast<size_t>(kFieldStatuses[i].first)]);
    }
  }

  void UpdateDriverInfo(const DriverState& driver, FrameWriter& out) {
    std::string versions = driver.driver_version + "/" + driver.library_version;
    if (driver.driver_version.empty()) return;
    if (!info_ || versions != versions_) {
      out.table().Retire(info_);
      versions_ = versions;
      std::vector<AttributeSet::Attribute> attributes = {
          {"gpu.vendor", std::string_view("nvidia")},
          {"gpu.driver.version", std::string_view(driver.driver_version)}};
      if (!driver.library_version.empty())
        attributes.push_back({"gpu.library.version", std::string_view(driver.library_version)});
      if (!driver.cuda_version.empty())
        attributes.push_back({"gpu.runtime.version", std::string_view(driver.cuda_version)});
      if (simulated_) attributes.push_back({"simulated", true});
      info_ = out.table().Declare(kGpuDriverInfo, {},
                                  AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
      std::vector<AttributeSet::Attribute> vendor = {{"gpu.vendor", std::string_view("nvidia")}};
      if (simulated_) vendor.push_back({"simulated", true});
      if (!devices_ && expected_ > 0)
        devices_expected_ = out.table().Declare(
            kGpuDevicesExpected, {}, AttributeSet(std::span<const AttributeSet::Attribute>(vendor)));
      if (!devices_)
        devices_ = out.table().Declare(kGpuDevices, {},
                                       AttributeSet(std::span<const AttributeSet::Attribute>(vendor)));
    }
    if (devices_expected_) out.Set(devices_expected_, expected_);
    if (!driver.up) return;
    out.Set(info_, 1);
    auto gpus = source_.gpus();
    auto answering = std::count_if(gpus.begin(), gpus.end(),
                                   [](const auto& gpu) { return gpu.state == nvml::GpuState::kOk; });
    out.Set(devices_, answering);
  }

  void UpdateGpus(FrameWriter& out) {
    auto gpus = source_.gpus();
    while (gpus_.size() < gpus.size()) gpus_.emplace_back(gpu_options_);
    for (size_t i = 0; i < gpus.size(); ++i) gpus_[i].Update(gpus[i], patience_, out.read_at(), out, gpus);
  }

  Env& env_;
  const bool simulated_;
  nvml::NvmlSource source_;
  nvml::ProcessBook book_;
  const GpuSeries::Options gpu_options_;
  const size_t expected_;
  FieldPatience patience_;
  std::vector<GpuSeries> gpus_;
  EventReporter reporter_{env_.events};
  bool released_ = false;
  EntityRef driver_entity_;
  Series up_, heartbeat_, hung_, used_, left_out_, watched_, info_, devices_, devices_expected_;
  std::array<Series, static_cast<size_t>(StartReason::kCount)> starts_;
  std::array<Series, std::size(kFieldStatuses)> fields_;
  std::string versions_;
};

bool Asked(const Config& config) { return config.Text("library") != kDefaultLibrary; }

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // Without a device on the bus no process is started again and again to find that out.
  if (!env.demo && !Asked(config) && nvml::ProbeGpus().pci_gpus.empty()) {
    return Status{Code::kUnavailable, "no NVIDIA device on the PCI bus"};
  }
  return std::unique_ptr<Collector>(std::make_unique<NvidiaCollector>(config, env));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  return ProbeNvidia(Asked(config), config.Text("library"), Simulated(config, env));
}

constexpr OptionSpec kOptions[] = {
    {.key = "library",
     .fallback = kDefaultLibrary,
     .help = "NVML, by name or path; opened in a process of its own. `simulated` for simulated GPUs"},
    {.key = "serial",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether gpu.info tells serial numbers"},
    {.key = "links",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether every NVLink and C2C link has series of its own; else only those with errors"},
    {.key = "topology",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether the path from each GPU to each other is told"},
    {.key = "details",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether metrics of the board that are off by default are shown"},
    {.key = "samples",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Whether the driver's own samples between two readings are read"},
    {.key = "expected",
     .type = OptionType::kInt,
     .fallback = "0",
     .help = "GPUs that this machine should have; 0: as many as are on the PCI bus at the start"},
    {.key = "clock_events",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether changes of clock and performance state become events, at most 10 a minute"},
};

}  // namespace

extern const CollectorSpec nvidia_collector;
const CollectorSpec nvidia_collector{.name = "nvidia",
                                     .help = "NVIDIA GPUs, through NVML in a process of its own.",
                                     .period = std::chrono::seconds(1),
                                     .ttl = std::chrono::seconds(10),
                                     .options = kOptions,
                                     .metrics = kNvidiaMetrics,
                                     .create = &Create,
                                     .probe = &Probe};

}  // namespace gpulens
