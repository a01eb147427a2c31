// NVIDIA GPUs by NVML, in this process: the energy counter (Volta and newer) and the power of the moment.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "base/clock.h"
#include "sdk/energy/processes/processor_time.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/process_reader.h"

namespace gpulens::sdk {

class NvmlEnergy final : public EnergySource {
 public:
  // `lookup`: a library that is linked in; null: libnvidia-ml.so.1 where it is found. `root`: where /proc
  // is.
  NvmlEnergy(nvml::SymbolLookup lookup, const Clock& clock, std::string root = "/");
  ~NvmlEnergy() override;

  std::string_view name() const noexcept override { return "nvml"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kNvidia; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;
  Status Processes(size_t device, EnergyProcesses& out) override;
  std::string Doing() const override;

 private:
  struct Gpu {
    nvml::Device handle = nullptr;
    std::vector<nvml::Device> parts;  // its MIG devices
    std::array<bool, nvml::kProcessLists> no_list{};
    std::unique_ptr<nvml::ShareReader> shares;
    // Cleared when the library does not support it.
    bool counter = true, instant = true, power = true;
    // Times of the slow queries.
    int64_t queried_ns = 0, counted_ns = 0;
    double processes = kNotMeasured;
    EnergyReading slow;
  };
  struct Opened {
    Opened(nvml::NvmlLibrary from, nvml::CallSlot& slot, const Clock& clock)
        : library(std::move(from)), caller(library, slot, clock) {}
    nvml::NvmlLibrary library;
    nvml::Caller caller;
    nvml::ProcessLister lister{caller};
  };

  Status OpenLibrary();
  Status Attach(unsigned index, EnergyDevice& out, std::vector<std::string>& parts);
  std::string Uuid(nvml::Device device);
  std::vector<std::string> MigUuids(Gpu& gpu);
  double MostWatts(nvml::Device device);
  int ReadCounter(Gpu& gpu, EnergyReading& out);
  int ReadPower(Gpu& gpu, EnergyReading& out);
  void ReadSlow(Gpu& gpu, EnergyReading& out);
  double CountProcesses(const Gpu& gpu);
  Status ReadLists(Gpu& gpu, std::vector<nvml::GpuProcess>& out);

  const nvml::SymbolLookup lookup_;
  const Clock& clock_;
  nvml::CallSlot slot_;
  std::unique_ptr<Opened> opened_;
  std::vector<Gpu> gpus_;
  RunFamily family_;
};

}  // namespace gpulens::sdk
