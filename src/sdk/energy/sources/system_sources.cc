#include "sdk/energy/sources/system_sources.h"

#include <algorithm>
#include <chrono>

#include "base/result.h"
#include "sdk/energy/sources/visible_devices.h"

namespace gpulens::sdk {
namespace {

constexpr std::string_view kFolder = "sys/class/hwmon/";
constexpr size_t kMostChips = 256;

bool Contains(std::string_view text, std::string_view word) noexcept {
  return text.find(word) != std::string_view::npos;
}

// Update interval of the processor's counters, and their usual resolution: 2^-14 J.
constexpr Duration kRaplLag = std::chrono::milliseconds(1);
constexpr double kRaplStepJoules = 61e-6;

// Pause while there is no agent.
constexpr Duration kNextTry = std::chrono::seconds(10);

class Steady final : public Clock {
 public:
  Instant Now() const noexcept override {
    const int64_t ns = std::chrono::steady_clock::now().time_since_epoch().count();
    return {ns, ns};
  }
};

}  // namespace

const Clock& SteadyClock() noexcept {
  static const Steady clock;
  return clock;
}

// Jetson names its rails by their loads: "VDD_GPU_SOC", "CPU", "VDD_SYS_DDR". A rail with several loads
// counts as the largest, the GPU. "VDD_IN" and "SYS5V" feed other rails.
std::optional<EnergyPart> PartOfRail(std::string_view label) noexcept {
  if (Contains(label, "GPU")) return EnergyPart::kGpu;
  if (Contains(label, "CPU")) return EnergyPart::kCpu;
  if (Contains(label, "DDR")) return EnergyPart::kDram;
  return std::nullopt;
}

// "Grace Power Socket 0" includes "CPU Power Socket 0" and "SysIO Power Socket 0"; "Module Power Socket 0"
// includes all of these and the GPU.
std::optional<EnergyPart> PartOfMeter(std::string_view label) noexcept {
  if (label.starts_with("Grace Power")) return EnergyPart::kCpu;
  return std::nullopt;
}

void HwmonEnergy::Add(std::string_view folder, std::string_view label, EnergyPart part, Rail rail,
                      std::vector<EnergyDevice>& out) {
  rails_.push_back(std::move(rail));
  out.push_back(
      {.id = std::string(folder) + "/" + std::string(label), .name = std::string(label), .part = part});
}

void HwmonEnergy::AddMeters(std::string_view folder, std::vector<EnergyDevice>& out) {
  // The attributes are in the hwmon device or in its parent.
  for (std::string_view place : {"/", "/device/"}) {
    const std::string label_path = std::string(kFolder) + std::string(folder) + std::string(place);
    const auto text = files_->FindText((label_path + "power1_oem_info").c_str());
    if (!text) continue;
    const std::string label(*text);
    if (const auto part = PartOfMeter(label))
      Add(folder, label, *part, {.power = label_path + "power1_average"}, out);
    return;
  }
}

void HwmonEnergy::AddRails(std::string_view folder, std::vector<EnergyDevice>& out) {
  const std::string begin = std::string(kFolder) + std::string(folder) + "/";
  for (char number = '1'; number <= '3'; ++number) {
    const auto text = files_->FindText((begin + "in" + number + "_label").c_str());
    if (!text) continue;
    const std::string label(*text);
    const auto part = PartOfRail(label);
    if (!part) continue;
    Add(folder, label, *part,
        {.voltage = begin + "in" + number + "_input", .current = begin + "curr" + number + "_input"}, out);
  }
}

Result<std::vector<EnergyDevice>> HwmonEnergy::Open() {
  rails_.clear();
  ASSIGN_OR_RETURN(files_, HostFiles::Open(root_));
  NameList chips;
  RETURN_IF_ERROR(files_->List("sys/class/hwmon", "hwmon", chips, kMostChips));
  std::vector<EnergyDevice> devices;
  for (size_t i = 0; i < chips.size(); ++i) {
    const std::string folder(chips[i]);
    const auto name = files_->FindText((std::string(kFolder) + folder + "/name").c_str());
    if (!name) continue;
    if (*name == "power_meter") AddMeters(folder, devices);
    else if (*name == "ina3221") AddRails(folder, devices);
  }
  if (devices.empty()) return Status{Code::kUnavailable, "no power meter of Grace and no rail of Jetson"};
  return devices;
}

Status HwmonEnergy::Number(const std::string& path, double& out) {
  std::optional<uint64_t> number;
  RETURN_IF_ERROR(files_->FindNumber(path.c_str(), number));
  if (!number) return {Code::kUnavailable, path + " cannot be read"};
  out = static_cast<double>(*number);
  return Ok();
}

Status HwmonEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= rails_.size()) return {gpulens::Code::kUnavailable, "hwmon could not be opened again"};
  const Rail& rail = rails_[device];
  if (!rail.power.empty()) {
    double microwatts = 0;
    RETURN_IF_ERROR(Number(rail.power, microwatts));
    out.watts = microwatts * 1e-6;
    return Ok();
  }
  double millivolts = 0, milliamperes = 0;
  RETURN_IF_ERROR(Number(rail.voltage, millivolts));
  RETURN_IF_ERROR(Number(rail.current, milliamperes));
  out.watts = millivolts * milliamperes * 1e-6;
  return Ok();
}

Result<std::vector<EnergyDevice>> RaplEnergy::Open() {
  zones_.clear();
  reader_.reset();
  ASSIGN_OR_RETURN(files_, HostFiles::Open(root_));
  reader_.emplace(*files_);
  std::vector<EnergyZone> all;
  const Status status = reader_->Read(all);
  std::vector<EnergyDevice> devices;
  bool refused = false;
  for (EnergyZone& zone : all) {
    const bool package = zone.name.starts_with("package-");
    if (!package && zone.name != "dram") continue;
    refused |= !zone.energy_uj;
    if (!zone.energy_uj) continue;
    // Each package has a zone "dram", distinguished by the package's number.
    devices.push_back({.id = package ? zone.name : "dram-" + std::to_string(zone.package),
                       .name = zone.zone,
                       .part = package ? EnergyPart::kCpu : EnergyPart::kDram,
                       .counter_step_joules = kRaplStepJoules,
                       .counter_lag = kRaplLag});
    zones_.push_back(std::move(zone));
  }
  reported_.assign(zones_.size(), true);
  if (!devices.empty()) {
    // Without /proc, SinceLast reports the reason.
    static_cast<void>(time_.Open());
    return devices;
  }
  if (status.code == Code::kPermissionDenied || (refused && status.ok()))
    return Status{
        Code::kPermissionDenied,
        "/sys/class/powercap/intel-rapl:*/energy_uj may be read by root only: run as root, or chmod o+r "
        "these files (a side channel to other users of the machine)"};
  if (!status.ok()) return status;
  return Status{Code::kUnavailable, "no package zone in /sys/class/powercap"};
}

Status RaplEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= zones_.size()) return {gpulens::Code::kUnavailable, "RAPL could not be opened again"};
  EnergyZone& zone = zones_[device];
  RETURN_IF_ERROR(reader_->ReadAgain(zone));
  out.joules = static_cast<double>(*zone.energy_uj) * 1e-6;
  return Ok();
}

// All zones are queried one after the other, so one walk over the processes serves them all.
Status RaplEnergy::Processes(size_t device, EnergyProcesses& out) {
  if (reported_.at(device)) {
    RETURN_IF_ERROR(time_.SinceLast(answer_));
    reported_.assign(reported_.size(), false);
  }
  reported_[device] = true;
  out = answer_;
  return Ok();
}

OwnOrAgent::OwnOrAgent(std::shared_ptr<EnergySource> own, std::shared_ptr<EnergySource> agent)
    : own_(std::move(own)), agent_(std::move(agent)), used_(own_.get()) {}

Result<std::vector<EnergyDevice>> OwnOrAgent::Open() {
  auto found = own_->Open();
  // The agent is not used to read devices that are hidden from this process.
  queried_.clear();
  next_try_ = {};
  if (found && !found->empty()) {
    used_.store(own_.get());
    devices_ = *found;
    return found;
  }
  auto queried = agent_->Open();
  if (queried) {
    used_.store(agent_.get());
    return queried;
  }
  used_.store(own_.get());
  if (found) return found;
  const bool wrong = queried.error().code == gpulens::Code::kInvalidArgument;
  return Status{wrong ? queried.error().code : found.error().code,
                found.error().detail + "; agent: " + queried.error().detail};
}

Status OwnOrAgent::Processes(size_t device, EnergyProcesses& out) {
  Status own = used_.load()->Processes(device, out);
  if (own.code != gpulens::Code::kUnavailable || used_.load() == agent_.get()) return own;
  const auto now = std::chrono::steady_clock::now();
  if (queried_.empty() && now >= next_try_) {
    next_try_ = now + kNextTry;
    if (auto found = agent_->Open()) queried_ = *std::move(found);
  }
  if (device >= devices_.size()) return own;
  const auto same = std::ranges::find(queried_, devices_[device].id, &EnergyDevice::id);
  if (same == queried_.end()) return own;
  out = {};
  Status queried = agent_->Processes(static_cast<size_t>(same - queried_.begin()), out);
  if (!queried.ok()) queried_.clear();
  return queried;
}

std::vector<std::shared_ptr<EnergySource>> SystemSources() {
  const auto who = Variable("GPULENS_ENERGY").value_or("");
  std::shared_ptr<EnergySource> nvml = std::make_shared<NvmlEnergy>(nullptr, RealClock());
  const auto agent = [] { return std::make_shared<AgentEnergy>(AgentEnergy::Options(), SteadyClock()); };
  if (who == "agent") nvml = agent();
  else if (who != "own") nvml = std::make_shared<OwnOrAgent>(std::move(nvml), agent());
  const std::string root(Variable("GPULENS_ENERGY_ROOT").value_or("/"));
  return {std::move(nvml), std::make_shared<AmdEnergy>(nullptr, RealClock()),
          std::make_shared<HwmonEnergy>(root), std::make_shared<RaplEnergy>(root)};
}

}  // namespace gpulens::sdk

namespace gpulens {

std::shared_ptr<EnergySource> EnergyOfAgent(std::string socket, EnergyVendor vendor) {
  return std::make_shared<sdk::AgentEnergy>(
      sdk::AgentEnergy::Options{.socket = std::move(socket), .vendor = vendor}, sdk::SteadyClock());
}

}  // namespace gpulens
