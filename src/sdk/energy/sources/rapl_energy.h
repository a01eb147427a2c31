// Processors and their memory by RAPL: every package, and DRAM where it is a zone of its own. Cores and
// graphics are part of their package, the platform zone contains it: they are left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "sdk/energy/processes/processor_time.h"
#include "sources/host/devices.h"

namespace gpulens::sdk {

class RaplEnergy final : public EnergySource {
 public:
  // `root`: "/", or a folder of a test. Processes are always those of this machine.
  explicit RaplEnergy(std::string root) : root_(std::move(root)) {}

  std::string_view name() const noexcept override { return "rapl"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kCpuRapl; }
  // kPermissionDenied: it is there, and only root may read it.
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;
  // Processor time is the machine's: the same for every package and its memory.
  Status Processes(size_t device, EnergyProcesses& out) override;

 private:
  const std::string root_;
  std::optional<HostFiles> files_;
  std::optional<EnergyReader> reader_;
  ProcessorTime time_;
  EnergyProcesses answer_;
  std::vector<bool> reported_;     // by zone: it has had this answer
  std::vector<EnergyZone> zones_;  // those that are devices
};

}  // namespace gpulens::sdk
