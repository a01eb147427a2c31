// Collector of NVIDIA GPUs, through the NVML reader process. Supervises the process, and lets one
// GpuSeries per GPU turn readings into values; no library call happens in this process.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "catalog/self.h"
#include "pipeline/reader_series.h"
#include "plugins/agent_stats.h"
#include "plugins/collectors/nvidia/gpu_events.h"
#include "plugins/collectors/nvidia/gpu_series.h"
#include "plugins/plugin.h"
#include "plugins/reader_control.h"
#include "plugins/simulated_owners.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/probe/gpu_probe.h"

namespace gpulens {
namespace {

using nvidia::AerSeries;
using nvidia::EventReporter;
using nvidia::GpuSeries;

using nvml::ReaderState;

constexpr std::string_view kDefaultLibrary = "libnvidia-ml.so.1", kSimulated = "simulated";
constexpr int64_t kMismatchPeriodNs = 60'000'000'000;

constexpr OptionSpec kOptions[] = {
    TextOption("library", kDefaultLibrary,
               "NVML, by name or path; opened in a process of its own. `simulated` for simulated GPUs"),
    BoolOption("serial", false, "Whether gpu.info has serial numbers"),
    BoolOption("links", false,
               "Export series for each NVLink and C2C link; otherwise only for links with errors"),
    BoolOption("topology", false, "Export the path between each pair of GPUs"),
    BoolOption("details", false, "Read further metrics of the board"),
    BoolOption("samples", true, "Read the driver's samples between two readings"),
    IntOption("expected", "0",
              "GPUs that this machine should have; 0: as many as the PCI bus has at the start"),
    BoolOption("clock_events", false,
               "Report changes of clock and performance state as events, at most 10 a minute"),
    BoolOption("process_events", false, "Report a process that leaves a GPU as an event"),
};
using Options = OptionsOf<kOptions>;

bool Simulated(const Options& options, const Env& env) {
  return env.demo || options.Text("library") == kSimulated;
}

bool Queried(const Options& options) { return options.Text("library") != kDefaultLibrary; }

nvml::SourceOptions MakeSourceOptions(const Options& options, Duration interval, const Env& env) {
  nvml::SourceOptions source;
  SetPeriods(interval, source);
  bool simulated = Simulated(options, env);
  if (Queried(options) && !simulated) source.library_path = options.Text("library");
  source.details = (options.Bool("links") ? nvml::kDetailLinks : 0U) |
                   (options.Bool("topology") ? nvml::kDetailTopology : 0U) |
                   (options.Bool("details") ? nvml::kDetailMore : 0U) |
                   (options.Bool("samples") ? nvml::kDetailSamples : 0U);
  if (simulated) source.arguments.push_back("--simulated");
  auto inherit = [&](const char* variable, int fd) {
    if (fd < 0) return;
    source.inherited.push_back(fd);
    source.environment.push_back(std::string(variable) + "=/proc/self/fd/" + std::to_string(fd));
  };
  if (simulated && env.nvml) {
    inherit("GPULENS_FAKE_NVML_FAULTS", env.nvml->fault_file());
    inherit("GPULENS_FAKE_NVML", env.nvml->profile_file());
  }
  if (options.Bool("clock_events")) source.event_types |= nvml::kEventClock | nvml::kEventPerformanceState;
  return source;
}

void NeededRights(const Config& config, const Env& env, Rights& out) {
  out.programs.push_back(reader::ReaderRule(MakeSourceOptions(config, IntervalOf(config), env)));
}

// The configured number, else what the PCI bus showed when the collector was made: a GPU that later falls off
// the bus still counts as expected. 0 means unknown.
size_t ExpectedGpus(const Options& options, const Env& env) {
  if (options.Int("expected") > 0) return static_cast<size_t>(options.Int("expected"));
  return !env.demo && !Queried(options) ? nvml::ProbeGpus().pci_gpus.size() : 0;
}

// Simulated pids are never looked up in /proc.
nvml::ProcessTable MakeProcesses(bool simulated, const Env& env) {
  if (!simulated || !env.simulated) return nvml::ProcessTable(env.root);
  return nvml::ProcessTable(FindSimulated<nvml::ProcessDetails>(env.simulated));
}

class NvidiaCollector final : public Collector {
 public:
  NvidiaCollector(const Options& options, Duration interval, Env& env)
      : env_(env),
        source_(MakeSourceOptions(options, interval, env)),
        processes_(MakeProcesses(Simulated(options, env), env)),
        simulated_(Simulated(options, env)),
        gpu_options_{simulated_,
                     options.Bool("serial"),
                     options.Bool("links"),
                     options.Bool("details"),
                     simulated_ && !env.simulated ? nullptr : &processes_,
                     options.Bool("process_events") ? env.events : nullptr},
        expected_(ExpectedGpus(options, env)),
        max_age_(MaxAgeFor(interval)) {
    if (env_.nvml) env_.nvml->Join();
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
    ReaderControl::Order order = env_.nvml ? env_.nvml->Query(now) : ReaderControl::Order{};
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
    if (mismatch_read_ns_ == 0 || now_ns - mismatch_read_ns_ >= kMismatchPeriodNs) {
      mismatch_read_ns_ = now_ns;
      reader::VendorHardware hardware = nvml::ProbeGpus(env_.root == "/" ? "" : env_.root);
      mismatch_.reset();
      if (!hardware.kernel_driver_version.empty() && !hardware.library_version.empty())
        mismatch_ = hardware.Mismatch();
    }
    if (!mismatch_) return;
    out.DeclareAndSet(mismatch_series_, kGpuDriverMismatch, {}, {{"gpu.vendor", std::string_view("nvidia")}},
                      *mismatch_ ? 1 : 0);
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
  const FieldMaxAge max_age_;
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

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // Without a sign of a GPU no process is restarted repeatedly to find that out.
  if (!env.demo && !Queried(config) && !nvml::MayHaveGpus(nvml::ProbeGpus())) {
    return Status{Code::kUnavailable,
                  "no NVIDIA GPU: none on the PCI bus, no /dev/nvidia*, no WSL, no Jetson"};
  }
  return std::unique_ptr<Collector>(std::make_unique<NvidiaCollector>(config, IntervalOf(config), env));
}

std::string Plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Checks NVIDIA hardware and its driver for `doctor`. Opens no library.
std::vector<Finding> ProbeHardware(const Options& options, const Env& env) {
  // A configured library is reported even where no device is seen.
  const bool configured = Queried(options);
  Finding finding;
  finding.subject = "nvidia";
  if (env.demo) {
    finding.what = "8 SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  reader::VendorHardware probe = nvml::ProbeGpus(env.root == "/" ? "" : env.root);
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
    finding.what = configured ? "library " + options.Text("library") : "";
    finding.why = "no NVIDIA device on the PCI bus";
    return {finding};
  }
  finding.what = Plural(probe.pci_gpus.size(), "device") + " on the PCI bus";
  if (nvml::LacksDeviceNodes(probe) && probe.service_manager) {
    finding.kind = Finding::kNoPermission;
    finding.why =
        "the driver is loaded, but nothing has made its device nodes, /dev/nvidia0 and further; the agent "
        "may not";
    finding.remedy = "sudo nvidia-modprobe -c=0     the unit of the package runs it at each start";
  } else if (probe.devices.empty()) {
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
  return ProbeHardware(config, env);
}

}  // namespace

extern const CollectorSpec nvidia_collector;
const CollectorSpec nvidia_collector{.name = "nvidia",
                                     .help = "NVIDIA GPUs, through NVML in a process of its own.",
                                     .period = std::chrono::seconds(1),
                                     .ttl = std::chrono::seconds(10),
                                     .options = kOptions,
                                     .metrics = nvidia::kNvidiaMetrics,
                                     .create = &Create,
                                     .probe = &Probe,
                                     .rights = &NeededRights};

}  // namespace gpulens
