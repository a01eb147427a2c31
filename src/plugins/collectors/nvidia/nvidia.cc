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
#include "plugins/collectors/nvidia/gpu_events.h"
#include "plugins/collectors/nvidia/gpu_series.h"
#include "plugins/driver_control.h"
#include "plugins/plugin.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/probe/gpu_probe.h"

namespace gpulens {
namespace {

using nvidia::AerSeries;
using nvidia::EventReporter;
using nvidia::FieldMaxAge;
using nvidia::GpuSeries;

using nvml::ReaderState;

constexpr std::string_view kDefaultLibrary = "libnvidia-ml.so.1", kSimulated = "simulated";
constexpr auto kMedium = std::chrono::seconds(10);
constexpr auto kSlow = std::chrono::seconds(60);

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

// The configured number, else what the PCI bus showed when the collector was made: a GPU that later falls off
// the bus still counts as expected. 0 means unknown.
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
        processes_(env.root),
        simulated_(Simulated(config, env)),
        gpu_options_{simulated_,
                     config.Bool("serial"),
                     config.Bool("links"),
                     config.Bool("details"),
                     simulated_ ? nullptr : &processes_,
                     config.Bool("process_events") ? env.events : nullptr},
        expected_(ExpectedGpus(config, env)) {
    if (env_.nvml) env_.nvml->Join();
    // A reading is as old as its tier's period at most; a late reader gets one interval more.
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
    const ReaderState& state = source_.state();
    if (env_.stats) env_.stats->nvml_driver_pid = std::max(state.pid, 0);
    reader_series_.Update(source_, out);
    UpdateDriverInfo(state, out);
    UpdateMismatch(out);
    processes_.NextRound();
    UpdateGpus(out);
    events_.Report(source_, reader_series_.entity(), gpus_, out.read_at());
    return StatusOf(state);
  }
  bool starting() const noexcept override { return IsStarting(source_.state()); }

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

  void UpdateDriverInfo(const ReaderState& state, FrameWriter& out) {
    if (state.driver_version.empty()) return;
    if (!info_ || state.driver_version != driver_version_ || state.library_version != library_version_) {
      out.table().Retire(info_);
      driver_version_ = state.driver_version;
      library_version_ = state.library_version;
      std::vector<AttributeSet::Attribute> vendor = {{"gpu.vendor", std::string_view("nvidia")}};
      if (simulated_) vendor.push_back({"simulated", true});
      auto info = vendor;
      info.push_back({"gpu.driver.version", std::string_view(state.driver_version)});
      if (!state.library_version.empty())
        info.push_back({"gpu.library.version", std::string_view(state.library_version)});
      if (!state.runtime_version.empty())
        info.push_back({"gpu.runtime.version", std::string_view(state.runtime_version)});
      info_ = out.table().Declare(kGpuDriverInfo, {}, AttributeSet(info));
      if (!devices_ && expected_ > 0)
        devices_expected_ = out.table().Declare(kGpuDevicesExpected, {}, AttributeSet(vendor));
      if (!devices_) devices_ = out.table().Declare(kGpuDevices, {}, AttributeSet(vendor));
    }
    if (devices_expected_) out.Set(devices_expected_, expected_);
    if (!state.up) return;
    out.Set(info_, 1);
    out.Set(devices_, std::ranges::count_if(source_.gpus(), [](const nvml::Gpu& gpu) {
              return gpu.state == nvml::GpuState::kOk;
            }));
  }
  // A package may be upgraded at any time, and it also counts while the library cannot be opened.
  void UpdateMismatch(FrameWriter& out) {
    if (simulated_) return;
    int64_t now_ns = out.read_at().boot_ns;
    if (mismatch_read_ns_ == 0 || now_ns - mismatch_read_ns_ >= Duration(kSlow).count()) {
      mismatch_read_ns_ = now_ns;
      reader::Hardware hardware = nvml::ProbeGpus(env_.root == "/" ? "" : env_.root);
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
    if (env_.demo) return;  // Simulated GPUs have no port of this machine.
    aer_.resize(gpus_.size());
    for (size_t i = 0; i < gpus.size(); ++i) aer_[i].Update(env_.root, gpus[i], gpus_[i].entity(), out);
  }

  Env& env_;
  nvml::NvmlSource source_;
  nvml::ProcessTable processes_;
  const bool simulated_;
  const GpuSeries::Options gpu_options_;
  const size_t expected_;
  FieldMaxAge max_age_;
  std::vector<GpuSeries> gpus_;
  std::vector<AerSeries> aer_;
  EventReporter events_{env_.events};
  bool released_ = false;
  ReaderSeries reader_series_{"nvml"};
  Series info_, devices_, devices_expected_, mismatch_series_;
  std::optional<bool> mismatch_;  // as it was read last; empty: the versions are unknown
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

std::string Plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// What `doctor` reports of NVIDIA hardware and its driver. Opens no library.
std::vector<Finding> ProbeHardware(const Config& config, bool demo) {
  // A configured library is reported even where no device is seen.
  const bool configured = Queried(config);
  Finding finding;
  finding.subject = "nvidia";
  if (demo) {
    finding.what = "8 SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  reader::Hardware probe = nvml::ProbeGpus();
  if (probe.pci_gpus.empty() && nvml::MayHaveGpus(probe)) {
    // Only the library knows whether there is a GPU, and whether it may be read.
    finding.what = !probe.platform.empty() ? probe.platform + ", whose GPUs are not on a PCI bus"
                   : probe.devices.empty() ? "the kernel driver, and no GPU on the PCI bus"
                                           : probe.devices.front() + ", and no GPU on the PCI bus";
    if (probe.pci_hidden && probe.platform.empty()) finding.what += " (/sys is hidden in this container)";
    return {finding};
  }
  if (probe.pci_gpus.empty()) {
    finding.kind = configured ? Finding::kFound : Finding::kNotHere;
    finding.what = configured ? "library " + config.Text("library") : "";
    finding.why = "no NVIDIA device on the PCI bus";
    return {finding};
  }
  finding.what = Plural(probe.pci_gpus.size(), "device") + " on the PCI bus";
  if (probe.devices.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = probe.kernel_driver ? "the driver is loaded, but /dev/nvidia* is not in this container"
                                      : "the kernel driver is not loaded";
    finding.remedy = probe.kernel_driver ? "docker run --gpus all …     Kubernetes: runtimeClassName: nvidia"
                                         : "sudo modprobe nvidia     or install the driver";
  } else if (!probe.unreadable.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = probe.unreadable.front().path + ": permission denied";
    finding.remedy = "sudo gpulens agent     or add this user to the device's group";
  } else if (!probe.kernel_driver_version.empty()) {
    finding.what += ", driver " + probe.kernel_driver_version;
  }
  if (!probe.Mismatch()) return {finding};
  Finding mismatch{
      Finding::kBroken, "nvidia driver",
      "driver " + probe.kernel_driver_version + " is loaded, but the library on disk has version " +
          probe.library_version,
      "the driver was upgraded but not reloaded: programs that start now cannot use the GPUs",
      "reboot, or stop all GPU programs, then: sudo modprobe -r nvidia_uvm nvidia && sudo modprobe "
      "nvidia"};
  return {finding, mismatch};
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  if (!env.demo && Simulated(config, env)) {
    Finding finding;
    finding.subject = "nvidia";
    finding.what = "SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  return ProbeHardware(config, env.demo);
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
                                     .metrics = nvidia::kNvidiaMetrics,
                                     .create = &Create,
                                     .probe = &Probe};

}  // namespace gpulens
