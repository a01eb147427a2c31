// Collector of AMD GPUs, through the AMD SMI reader process. Supervises the process, and lets one AmdSeries
// per GPU or partition turn readings into values; no library call happens in this process.

#include <algorithm>
#include <string>
#include <vector>

#include "catalog/self.h"
#include "pipeline/reader_series.h"
#include "plugins/agent_stats.h"
#include "plugins/collectors/amd/amd_series.h"
#include "plugins/plugin.h"
#include "sources/amdsmi/probe/amd_probe.h"

namespace gpulens {
namespace {

using reader::DeviceState;
using reader::ReaderState;
using reader::ReadStatus;

constexpr std::string_view kDefaultLibrary = "libamd_smi.so";
constexpr std::string_view kSimulated = "simulated";

constexpr OptionSpec kOptions[] = {
    TextOption("library", kDefaultLibrary,
               "AMD SMI, by name or path; opened in a process of its own. `simulated` for simulated GPUs"),
    BoolOption("serial", false, "Whether gpu.info has serial numbers"),
    BoolOption("engines", false, "Add series for each video engine and memory stack"),
};
using Options = OptionsOf<kOptions>;

bool Simulated(const Options& options) { return options.Text("library") == kSimulated; }
bool Queried(const Options& options) { return options.Text("library") != kDefaultLibrary; }

reader::SourceOptions MakeSourceOptions(const Options& options, Duration interval) {
  reader::SourceOptions source;
  source.arguments = {"reader", "amdsmi"};
  SetPeriods(interval, source);
  if (Simulated(options)) source.arguments.push_back("--simulated");
  else if (Queried(options)) source.library_path = options.Text("library");
  return source;
}

void NeededRights(const Config& config, const Env&, Rights& out) {
  out.programs.push_back(reader::ReaderRule(MakeSourceOptions(config, IntervalOf(config))));
}

class AmdCollector final : public Collector {
 public:
  AmdCollector(const Options& options, Duration interval, Env& env)
      : env_(env),
        source_(amdsmi::AmdsmiVendor(), MakeSourceOptions(options, interval)),
        events_(env),
        options_{Simulated(options), options.Bool("serial"), options.Bool("engines")},
        max_age_(MaxAgeFor(interval)) {}
  ~AmdCollector() override {
    if (env_.stats) env_.stats->amdsmi_driver_pid = 0;
  }

  Status Collect(FrameWriter& out) override {
    source_.Poll(out.read_at());
    const ReaderState& state = source_.state();
    if (env_.stats) env_.stats->amdsmi_driver_pid = std::max(state.pid, 0);
    events_.OnReader(state, out.read_at());
    reader_series_.Update(source_, out);
    UpdateDriverInfo(state, out);
    UpdateDevices(out);
    return StatusOf(state);
  }
  bool starting() const noexcept override { return IsStarting(source_.state()); }

 private:
  void UpdateDriverInfo(const ReaderState& state, FrameWriter& out) {
    if (state.library_version.empty() && state.driver_version.empty()) return;
    bool same = state.driver_version == driver_version_ && state.library_version == library_version_;
    if (!info_ || !same) {
      out.table().Retire(info_);
      driver_version_ = state.driver_version;
      library_version_ = state.library_version;
      std::vector<AttributeSet::Attribute> vendor = {{"gpu.vendor", std::string_view("amd")}};
      if (options_.simulated) vendor.push_back({"simulated", true});
      auto own = vendor;
      if (!driver_version_.empty()) own.push_back({"gpu.driver.version", std::string_view(driver_version_)});
      if (!library_version_.empty())
        own.push_back({"gpu.library.version", std::string_view(library_version_)});
      info_ = out.table().Declare(kGpuDriverInfo, {}, AttributeSet(own));
      if (!devices_) devices_ = out.table().Declare(kGpuDevices, {}, AttributeSet(vendor));
    }
    if (!state.up) return;
    out.Set(info_, 1);
    auto devices = source_.devices();
    auto boards = std::ranges::count_if(devices, [](const auto& device) {
      return device.state == DeviceState::kOk && device.Fact("partition") == "0";
    });
    out.Set(devices_, boards);
  }

  // A board is listed before its partitions, which refer to it: the library's order.
  void UpdateDevices(FrameWriter& out) {
    Instant now = out.read_at();
    auto devices = source_.devices();
    while (series_.size() < devices.size()) series_.emplace_back(options_);
    for (size_t i = 0; i < devices.size(); ++i) {
      const reader::DeviceEntry& device = devices[i];
      series_[i].Update(device, BoardOf(device, i), max_age_, out);
      events_.OnDevice(device, series_[i].home(), now);
    }
    ReloadWhenDivided(devices);
  }

  EntityRef BoardOf(const reader::DeviceEntry& device, size_t before) const {
    std::string_view gpu = device.Fact("gpu");
    for (size_t i = 0; i < before; ++i) {
      if (series_[i].first() && series_[i].board() && source_.devices()[i].Fact("gpu") == gpu)
        return series_[i].board();
    }
    return {};
  }

  // When a GPU is repartitioned, the library must list its partitions again, which it does only at its
  // start.
  void ReloadWhenDivided(const reader::DeviceRange& devices) {
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
  reader::ReaderSource source_;
  amd::AmdEvents events_;
  const amd::AmdSeries::Options options_;
  const FieldMaxAge max_age_;
  std::vector<amd::AmdSeries> series_;
  std::vector<int64_t> modes_;
  ReaderSeries reader_series_{"amdsmi"};
  Series info_, devices_;
  std::string driver_version_, library_version_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // Without a device on the bus no process is restarted repeatedly to find that out.
  if (!Queried(config) && (env.demo || amdsmi::ProbeGpus().pci_gpus.empty()))
    return Status{Code::kUnavailable, "no AMD GPU on the PCI bus"};
  return std::unique_ptr<Collector>(std::make_unique<AmdCollector>(config, IntervalOf(config), env));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  const Options options(config);
  Finding finding;
  finding.subject = "amd";
  if (Simulated(options)) {
    finding.what = "SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  reader::VendorHardware probe = env.demo ? reader::VendorHardware{} : amdsmi::ProbeGpus();
  if (probe.pci_gpus.empty()) {
    finding.kind = Queried(options) ? Finding::kFound : Finding::kNotHere;
    finding.what = Queried(options) ? "library " + options.Text("library") : "";
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

}  // namespace

extern const CollectorSpec amd_collector;
const CollectorSpec amd_collector{.name = "amd",
                                  .help = "AMD GPUs, through AMD SMI in a process of its own.",
                                  .period = std::chrono::seconds(1),
                                  .ttl = std::chrono::seconds(10),
                                  .options = kOptions,
                                  .metrics = amd::kAmdMetrics,
                                  .create = &Create,
                                  .probe = &Probe,
                                  .rights = &NeededRights};

}  // namespace gpulens
