// The sources of this machine, in the order of preference. Nothing is opened yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "sdk/energy/processes/processor_time.h"
#include "sources/host/devices.h"
#include "sources/host/files.h"

namespace gpulens::sdk {

// NVIDIA boards that report power as hardware monitors: Grace by the ACPI power meter, Jetson by the rails of
// its ina3221. Energy is the integral of power. Rails that contain other rails (the whole module) are
// omitted.
class HwmonEnergy final : public EnergySource {
 public:
  explicit HwmonEnergy(std::string root) : root_(std::move(root)) {}

  std::string_view name() const noexcept override { return "hwmon"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kNvidia; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;

 private:
  // Microwatts in one file, or millivolts and milliamperes in two.
  struct Rail {
    std::string power, voltage, current;
  };

  void AddMeters(std::string_view folder, std::vector<EnergyDevice>& out);
  void AddRails(std::string_view folder, std::vector<EnergyDevice>& out);
  void Add(std::string_view folder, std::string_view label, EnergyPart part, Rail rail,
           std::vector<EnergyDevice>& out);
  Status Number(const std::string& path, double& out);

  const std::string root_;
  std::optional<HostFiles> files_;
  std::vector<Rail> rails_;
};

// Part that a rail or meter of this name measures; none for totals and unknown names.
std::optional<EnergyPart> PartOfRail(std::string_view label) noexcept;
std::optional<EnergyPart> PartOfMeter(std::string_view label) noexcept;

// Processors and their memory by RAPL: every package, and DRAM where it is a zone of its own. Cores and
// graphics are part of their package, the platform zone contains it: they are left out.
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

// Shared by the GPU sources. EnergyDevice::counter_lag of a counter that is updated now and then:
inline constexpr Duration kLagUnknown{-1};
// Above the limit that a board keeps on average it may be for the length of a reading.
inline constexpr double kPeakOverLimit = 1.5;
// Minimum interval of slow queries.
inline constexpr int64_t kSlowNs = 90'000'000;

// $GPULENS_ENERGY: "own": never by the agent; "agent": NVIDIA GPUs by the agent alone. $GPULENS_ENERGY_ROOT:
// where /sys is, for tests.
std::vector<std::shared_ptr<EnergySource>> SystemSources();

// A vendor's library in this process, else the agent. Which of them is chosen at each Open.
class OwnOrAgent final : public EnergySource {
 public:
  OwnOrAgent(std::shared_ptr<EnergySource> own, std::shared_ptr<EnergySource> agent);

  std::string_view name() const noexcept override { return used_.load()->name(); }
  EnergyVendor vendor() const noexcept override { return own_->vendor(); }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override { return used_.load()->Read(device, out); }
  // Queries the agent where the library's process numbers mean nothing in this container.
  Status Processes(size_t device, EnergyProcesses& out) override;
  std::string Doing() const override { return used_.load()->Doing(); }

 private:
  const std::shared_ptr<EnergySource> own_, agent_;
  std::atomic<EnergySource*> used_;
  // The agent's devices while the library reads and the agent reports processes.
  std::vector<EnergyDevice> devices_, queried_;
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace gpulens::sdk
