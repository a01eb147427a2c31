// AMD GPUs, through the AMD SMI reader process. This file keeps the process in view and lets one AmdSeries
// per GPU or partition turn readings into values; no library call happens in this process.

#include <algorithm>
#include <string>
#include <vector>

#include "base/version.h"
#include "catalog/self.h"
#include "pipeline/reader_series.h"
#include "plugins/agent_stats.h"
#include "plugins/collectors/amd/amd_events.h"
#include "plugins/collectors/amd/amd_series.h"
#include "plugins/plugin.h"
#include "sources/amdsmi/probe/amd_probe.h"

namespace gpulens {
namespace {

using driver::DeviceState;
using driver::DriverState;
using driver::ReadStatus;

constexpr std::string_view kDefaultLibrary = "libamd_smi.so";
constexpr std::string_view kSimulated = "simulated";
constexpr auto kMedium = std::chrono::seconds(10);
constexpr auto kSlow = std::chrono::seconds(60);

bool Simulated(const Config& config) { return config.Text("library") == kSimulated; }
bool Queried(const Config& config) { return config.Text("library") != kDefaultLibrary; }

driver::SourceOptions MakeSourceOptions(const Config& config) {
  driver::SourceOptions options;
  options.arguments = {"reader", "amdsmi"};
  options.interval = config.Time("interval");
  options.medium = std::max<Duration>(kMedium, options.interval);
  options.slow = std::max<Duration>(kSlow, options.interval);
  options.build_id = std::string(Version()) + " " + std::string(Revision());
  if (Simulated(config)) options.arguments.push_back("--simulated");
  else if (Queried(config)) options.library_path = config.Text("library");
  return options;
}

class AmdCollector final : public Collector {
 public:
  AmdCollector(const Config& config, Env& env)
      : env_(env),
        source_(amdsmi::AmdsmiVendor(), MakeSourceOptions(config)),
        events_(env),
        options_{Simulated(config), config.Bool("serial"), config.Bool("engines")} {
    // A reading is as old as its tier's period at most, and a late reader gets one interval more.
    int64_t interval = config.Time("interval").count();
    max_age_.ns = {2 * interval, std::max<int64_t>(Duration(kMedium).count(), interval) + 2 * interval,
                   std::max<int64_t>(Duration(kSlow).count(), interval) + 2 * interval};
  }
  ~AmdCollector() override {
    if (env_.stats) env_.stats->amdsmi_driver_pid = 0;
  }

  Status Collect(FrameWriter& out) override {
    source_.Poll(out.read_at());
    const DriverState& driver = source_.driver();
    if (env_.stats) env_.stats->amdsmi_driver_pid = std::max(driver.pid, 0);
    events_.Driver(driver, out.read_at());
    driver_series_.Update(source_, out);
    UpdateDriverInfo(driver, out);
    UpdateDevices(out);
    return StatusOf(driver);
  }
  bool starting() const noexcept override { return IsStarting(source_.driver()); }

 private:
  void UpdateDriverInfo(const DriverState& driver, FrameWriter& out) {
    if (driver.library_version.empty() && driver.driver_version.empty()) return;
    bool same = driver.driver_version == driver_version_ && driver.library_version == library_version_;
    if (!info_ || !same) {
      out.table().Retire(info_);
      driver_version_ = driver.driver_version;
      library_version_ = driver.library_version;
      std::vector<AttributeSet::Attribute> vendor = {{"gpu.vendor", std::string_view("amd")}};
      if (options_.simulated) vendor.push_back({"simulated", true});
      auto own = vendor;
      if (!driver_version_.empty()) own.push_back({"gpu.driver.version", std::string_view(driver_version_)});
      if (!library_version_.empty())
        own.push_back({"gpu.library.version", std::string_view(library_version_)});
      info_ = out.table().Declare(kGpuDriverInfo, {}, Set(own));
      if (!devices_) devices_ = out.table().Declare(kGpuDevices, {}, Set(vendor));
    }
    if (!driver.up) return;
    out.Set(info_, 1);
    auto devices = source_.devices();
    auto boards = std::count_if(devices.begin(), devices.end(), [](const auto& device) {
      return device.state == DeviceState::kOk && device.Fact("partition") == "0";
    });
    out.Set(devices_, boards);
  }

  static AttributeSet Set(const std::vector<AttributeSet::Attribute>& attributes) {
    return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
  }

  // A board is told before its partitions, which hang on it: the library lists them so.
  void UpdateDevices(FrameWriter& out) {
    Instant now = out.read_at();
    auto devices = source_.devices();
    while (series_.size() < devices.size()) series_.emplace_back(options_);
    for (size_t i = 0; i < devices.size(); ++i) {
      const driver::Device& device = devices[i];
      series_[i].Update(device, BoardOf(device, i), max_age_, out);
      events_.Device(device, series_[i].home(), now);
    }
    ReloadWhenDivided(devices);
  }

  EntityRef BoardOf(const driver::Device& device, size_t before) const {
    std::string_view gpu = device.Fact("gpu");
    for (size_t i = 0; i < before; ++i) {
      if (series_[i].first() && series_[i].board() && source_.devices()[i].Fact("gpu") == gpu) {
        return series_[i].board();
      }
    }
    return {};
  }

  // When a GPU is divided anew, the library must list its partitions again: it does so only at its start.
  void ReloadWhenDivided(const driver::Devices& devices) {
    modes_.resize(devices.size(), 0);
    bool changed = false;
    for (size_t i = 0; i < devices.size(); ++i) {
      const auto& mode = devices[i].fields[amdsmi::SlotOf(amdsmi::Field::kComputePartition)];
      if (mode.status != ReadStatus::kOk) continue;
      changed = changed || (modes_[i] != 0 && modes_[i] != mode.raw);
      modes_[i] = mode.raw;
    }
    if (changed) source_.Reload();
  }

  Env& env_;
  driver::DriverSource source_;
  amd::AmdEvents events_;
  const amd::AmdSeries::Options options_;
  amd::FieldMaxAge max_age_;
  std::vector<amd::AmdSeries> series_;
  std::vector<int64_t> modes_;
  ReaderSeries driver_series_{"amdsmi"};
  Series info_, devices_;
  std::string driver_version_, library_version_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // Without a device on the bus no process is started again and again to find that out.
  if (!Queried(config) && (env.demo || amdsmi::ProbeGpus().pci_gpus.empty())) {
    return Status{Code::kUnavailable, "no AMD GPU on the PCI bus"};
  }
  return std::unique_ptr<Collector>(std::make_unique<AmdCollector>(config, env));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  Finding finding;
  finding.subject = "amd";
  if (Simulated(config)) {
    finding.what = "SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  driver::Hardware probe = env.demo ? driver::Hardware{} : amdsmi::ProbeGpus();
  if (probe.pci_gpus.empty()) {
    finding.kind = Queried(config) ? Finding::kFound : Finding::kNotHere;
    finding.what = Queried(config) ? "library " + config.Text("library") : "";
    finding.why = "no AMD GPU on the PCI bus";
    return {finding};
  }
  size_t count = probe.pci_gpus.size();
  finding.what = std::to_string(count) + (count == 1 ? " device" : " devices") + " on the PCI bus";
  if (!probe.kernel_driver) {
    finding.kind = Finding::kNoPermission;
    finding.why = "the amdgpu kernel driver is not loaded";
    finding.remedy = "sudo modprobe amdgpu     or install the driver";
  } else if (probe.devices.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = "the driver is loaded, but /dev/kfd and /dev/dri/renderD* are not in this container";
    finding.remedy = "docker run --device /dev/kfd --device /dev/dri …";
  } else if (!probe.unreadable.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = probe.unreadable.front().path + ": permission denied";
    std::string group = probe.unreadable.front().group;
    finding.remedy =
        group.empty() ? "sudo gpulens agent" : "sudo usermod -a -G " + group + " $USER     then log in again";
  } else if (!probe.kernel_driver_version.empty()) {
    finding.what += ", driver " + probe.kernel_driver_version;
  }
  return {finding};
}

constexpr OptionSpec kOptions[] = {
    {.key = "library",
     .fallback = kDefaultLibrary,
     .help = "AMD SMI, by name or path; opened in a process of its own. `simulated` for simulated GPUs"},
    {.key = "serial",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Whether gpu.info has serial numbers"},
    {.key = "engines",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Add series for each video engine and memory stack"},
};

constexpr const MetricDesc* kMetrics[] = {&kGpuUtilization,
                                          &kGpuEnergyEstimate,
                                          &kGpuEnergyEstimateError,
                                          &kGpuMemoryUtilization,
                                          &kGpuMultimediaUtilization,
                                          &kGpuEngineUtilization,
                                          &kGpuMemoryTotal,
                                          &kGpuMemoryUsed,
                                          &kGpuMemoryFree,
                                          &kGpuMemoryUsedPercent,
                                          &kGpuMemoryVisibleTotal,
                                          &kGpuMemoryVisibleUsed,
                                          &kGpuMemoryGttTotal,
                                          &kGpuMemoryGttUsed,
                                          &kGpuTemperature,
                                          &kGpuTemperatureStack,
                                          &kGpuTemperatureLimit,
                                          &kGpuPowerDraw,
                                          &kGpuPowerInstant,
                                          &kGpuPowerAverage,
                                          &kGpuPowerLimit,
                                          &kGpuPowerUtilization,
                                          &kGpuEnergyConsumption,
                                          &kGpuVoltage,
                                          &kGpuClockFrequency,
                                          &kGpuClockMax,
                                          &kGpuPerformanceLevel,
                                          &kGpuThrottleReason,
                                          &kGpuThrottleMask,
                                          &kGpuThrottleShare,
                                          &kGpuFanSpeed,
                                          &kGpuFanRotation,
                                          &kGpuEccErrors,
                                          &kGpuEccMode,
                                          &kGpuRetiredPages,
                                          &kGpuRetiredPagesPending,
                                          &kGpuRowRemapCount,
                                          &kGpuPcieReplayCount,
                                          &kGpuPcieErrors,
                                          &kGpuPcieLinkGenCurrent,
                                          &kGpuPcieLinkGenMax,
                                          &kGpuPcieLinkWidthCurrent,
                                          &kGpuPcieLinkWidthMax,
                                          &kGpuInterconnectThroughput,
                                          &kGpuInterconnectIo,
                                          &kGpuInterconnectLinks,
                                          &kGpuInterconnectLinkActive,
                                          &kGpuInterconnectLinkWidth,
                                          &kGpuPartitionInfo,
                                          &kGpuProcesses,
                                          &kGpuProcessMemoryUsed,
                                          &kGpuProcessMemoryPeak,
                                          &kGpuProcessMemoryGtt,
                                          &kGpuProcessEngineTime,
                                          &kGpuProcessCuOccupancy,
                                          &kGpuInfo,
                                          &kGpuDriverInfo,
                                          &kGpuDevices,
                                          &kGpuState,
                                          &kGpuSampleAge,
                                          &kSelfDriverUp,
                                          &kSelfDriverStarts,
                                          &kSelfDriverHeartbeatAge,
                                          &kSelfDriverCallsHung,
                                          &kSelfDriverDevices,
                                          &kSelfDriverFiles,
                                          &kSelfDriverFields};

}  // namespace

extern const CollectorSpec amd_collector;
const CollectorSpec amd_collector{.name = "amd",
                                  .help = "AMD GPUs, through AMD SMI in a process of its own.",
                                  .period = std::chrono::seconds(1),
                                  .ttl = std::chrono::seconds(10),
                                  .options = kOptions,
                                  .metrics = kMetrics,
                                  .create = &Create,
                                  .probe = &Probe};

}  // namespace gpulens
