#include "sdk/energy/sources/rapl_energy.h"

#include <chrono>

#include "base/result.h"

namespace gpulens::sdk {
namespace {

// How often the processor writes its counters, and their usual resolution: 2^-14 J.
constexpr Duration kRaplLag = std::chrono::milliseconds(1);
constexpr double kRaplStepJoules = 61e-6;

}  // namespace

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
    EnergyDevice device;
    // Each package has a zone "dram": the package's number tells them apart.
    device.id = package ? zone.name : "dram-" + std::to_string(zone.package);
    device.name = zone.zone;
    device.part = package ? EnergyPart::kCpu : EnergyPart::kDram;
    device.counter_step_joules = kRaplStepJoules;
    device.counter_lag = kRaplLag;
    devices.push_back(std::move(device));
    zones_.push_back(std::move(zone));
  }
  reported_.assign(zones_.size(), true);
  if (!devices.empty()) {
    // Without /proc the answer later is why.
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

// All zones are asked one after the other, so one walk over the processes serves them all.
Status RaplEnergy::Processes(size_t device, EnergyProcesses& out) {
  if (reported_.at(device)) {
    RETURN_IF_ERROR(time_.SinceLast(answer_));
    reported_.assign(reported_.size(), false);
  }
  reported_[device] = true;
  out = answer_;
  return Ok();
}

}  // namespace gpulens::sdk
