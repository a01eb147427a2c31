// NVIDIA GPUs, through the NVML reader process. This file keeps the process in view and lets one
// GpuSeries per GPU turn readings into values; no library call happens in this process.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/version.h"
#include "catalog/self.h"
#include "pipeline/reader_series.h"
#include "plugins/agent_stats.h"
#include "plugins/collectors/nvidia/aer_series.h"
#include "plugins/collectors/nvidia/event_reporter.h"
#include "plugins/collectors/nvidia/gpu_series.h"
#include "plugins/collectors/nvidia/nvidia_metrics.h"
#include "plugins/collectors/nvidia/nvidia_probe.h"
#include "plugins/driver_control.h"
#include "plugins/plugin.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/probe/gpu_probe.h"

namespace gpulens {
namespace {

using nvml::DriverState;

constexpr std::string_view kDefaultLibrary = "libnvidia-ml.so.1", kSimulated = "simulated";
constexpr auto kMedium = std::chrono::seconds(10);
constexpr auto kSlow = std::chrono::seconds(60);

// --demo, or so configured.
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
  if (config.Text("library") != kDefaultLibrary && !simulated) options.library_path = config.Text("library");
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
  bool real = !env.demo && config.Text("library") == kDefaultLibrary;
  return real ? nvml::ProbeGpus().pci_gpus.size() : 0;
}

class NvidiaCollector final : public Collector {
 public:
  NvidiaCollector(const Config& config, Env& env)
      : env_(env),
        source_(MakeSourceOptions(config, env)),
        table_(env.root),
        simulated_(Simulated(config, env)),
        gpu_options_{simulated_,
                     config.Bool("serial"),
                     config.Bool("links"),
                     config.Bool("details"),
                     simulated_ ? nullptr : &table_,
                     config.Bool("process_events") ? env.events : nullptr},
        expected_(ExpectedGpus(config, env)) {
    if (env_.nvml) env_.nvml->Join();
    // A reading is as old as its tier's period at most, and a late reader gets one interval more.
    int64_t interval = config.Time("interval").count();
    max_age_.ns = {2 * interval, std::max<int64_t>(Duration(kMedium).count(), interval) + 2 * interval,
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
      env_.nvml->Answer(source_.quiet(), source_.Trouble(out.read_at()));
      env_.nvml->Report(simulated_, source_.gpus().size());
    }
    const DriverState& driver = source_.driver();
    if (env_.stats) env_.stats->nvml_driver_pid = std::max(driver.pid, 0);
    driver_series_.Update(source_, out);
    UpdateDriverInfo(driver, out);
    UpdateMismatch(out);
    table_.NextRound();
    UpdateGpus(out);
    reporter_.Report(source_, driver_series_.entity(), gpus_, out.read_at());
    return StatusOf(driver);
  }
  bool starting() const noexcept override { return IsStarting(source_.driver()); }

 private:
  // `gpulens gpu release` frees the devices for a while.
  void FollowOrder(Instant now) {
    DriverControl::Order order = env_.nvml ? env_.nvml->Query(now) : DriverControl::Order{};
    if (order.release && !released_) {
      std::string until =
          order.until_boot_ns == 0
              ? "until: gpulens gpu resume"
              : "for " + std::to_string((order.until_boot_ns - now.boot_ns + 999'999'999) / 1'000'000'000) +
                    " s, or until: gpulens gpu resume";
      source_.Suspend("the GPUs are released on request " + until);
    }
    if (!order.release && released_) source_.Resume();
    released_ = order.release;
  }

  void UpdateDriverInfo(const DriverState& driver, FrameWriter& out) {
    if (driver.driver_version.empty()) return;
    if (!info_ || driver.driver_version != driver_version_ || driver.library_version != library_version_) {
      out.table().Retire(info_);
      driver_version_ = driver.driver_version;
      library_version_ = driver.library_version;
      std::vector<AttributeSet::Attribute> attributes = {
          {"gpu.vendor", std::string_view("nvidia")},
          {"gpu.driver.version", std::string_view(driver.driver_version)}};
      if (!driver.library_version.empty())
        attributes.push_back({"gpu.library.version", std::string_view(driver.library_version)});
      if (!driver.runtime_version.empty())
        attributes.push_back({"gpu.runtime.version", std::string_view(driver.runtime_version)});
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

  // A package may be upgraded at any time, and it also counts while the library cannot be opened.
  void UpdateMismatch(FrameWriter& out) {
    if (simulated_) return;
    int64_t now_ns = out.read_at().boot_ns;
    if (mismatch_read_ns_ == 0 || now_ns - mismatch_read_ns_ >= Duration(kSlow).count()) {
      mismatch_read_ns_ = now_ns;
      driver::Hardware hardware = nvml::ProbeGpus(env_.root == "/" ? "" : env_.root);
      mismatch_.reset();
      if (!hardware.kernel_driver_version.empty() && !hardware.library_version.empty())
        mismatch_ = hardware.Mismatch();
    }
    if (!mismatch_) return;
    if (!mismatch_series_)
      mismatch_series_ =
          out.table().Declare(kGpuDriverMismatch, {}, {{"gpu.vendor", std::string_view("nvidia")}});
    out.Set(mismatch_series_, *mismatch_ ? 1 : 0);
  }

  void UpdateGpus(FrameWriter& out) {
    auto gpus = source_.gpus();
    while (gpus_.size() < gpus.size()) gpus_.emplace_back(gpu_options_);
    for (size_t i = 0; i < gpus.size(); ++i) gpus_[i].Update(gpus[i], max_age_, out.read_at(), out, gpus);
    if (env_.demo) return;  // What is simulated has no port of this machine.
    aer_.resize(gpus_.size());
    for (size_t i = 0; i < gpus.size(); ++i) aer_[i].Update(env_.root, gpus[i], gpus_[i].entity(), out);
  }

  Env& env_;
  nvml::NvmlSource source_;
  nvml::ProcessTable table_;
  const bool simulated_;
  const GpuSeries::Options gpu_options_;
  const size_t expected_;
  FieldMaxAge max_age_;
  std::vector<GpuSeries> gpus_;
  std::vector<AerSeries> aer_;
  EventReporter reporter_{env_.events};
  bool released_ = false;
  ReaderSeries driver_series_{"nvml"};
  Series info_, devices_, devices_expected_, mismatch_series_;
  std::optional<bool> mismatch_;  // as it was read last; nothing: the versions cannot be told
  int64_t mismatch_read_ns_ = 0;
  std::string driver_version_, library_version_;
};

bool Queried(const Config& config) { return config.Text("library") != kDefaultLibrary; }

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // Without any sign of a GPU no process is started again and again to find that out.
  if (!env.demo && !Queried(config) && !nvml::MayHaveGpus(nvml::ProbeGpus())) {
    return Status{Code::kUnavailable,
                  "no NVIDIA GPU: none on the PCI bus, no /dev/nvidia*, no WSL, no Jetson"};
  }
  return std::unique_ptr<Collector>(std::make_unique<NvidiaCollector>(config, env));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  if (!env.demo && Simulated(config, env)) {
    Finding finding;
    finding.subject = "nvidia";
    finding.what = "SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  return ProbeNvidia(Queried(config), config.Text("library"), env.demo);
}

constexpr OptionSpec kOptions[] = {
    {.key = "library",
     .fallback = kDefaultLibrary,
     .help = "NVML, by name or path; opened in a process of its own. `simulated` for simulated GPUs"},
    {.key = "serial",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether gpu.info has serial numbers"},
    {.key = "links",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Export series for each NVLink and C2C link; otherwise only for links with errors"},
    {.key = "topology",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Export the path between each pair of GPUs"},
    {.key = "details",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Read further metrics of the board"},
    {.key = "samples",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Read the driver's samples between two readings"},
    {.key = "expected",
     .type = OptionType::kInt,
     .fallback = "0",
     .help = "GPUs that this machine should have; 0: as many as the PCI bus has at the start"},
    {.key = "clock_events",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Report changes of clock and performance state as events, at most 10 a minute"},
    {.key = "process_events",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Report a process that leaves a GPU as an event"},
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
