// Energy sources of this machine: vendors' libraries, the agent, hardware monitors and RAPL.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy.h>
#include <gpulens/energy_source.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sdk/energy/feed/feed_wire.h"
#include "sdk/energy/processes/processor_time.h"
#include "sources/amdsmi/reader/amdsmi_library.h"
#include "sources/host/devices.h"
#include "sources/host/files.h"
#include "sources/nvml/reader/nvml_library.h"
#include "sources/nvml/reader/process_reader.h"

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
    std::string power = {}, voltage = {}, current = {};
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

// Processors and their memory read by RAPL: every package, and DRAM where it is a zone of its own. Cores and
// graphics are part of their package, and the platform zone contains it, so these are omitted.
class RaplEnergy final : public EnergySource {
 public:
  // `root`: "/", or a folder of a test. Processes are read from this machine in either case.
  explicit RaplEnergy(std::string root) : root_(std::move(root)) {}

  std::string_view name() const noexcept override { return "rapl"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kCpuRapl; }
  // kPermissionDenied: only root may read it.
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;
  // Returns processor time of the whole machine, the same for every package and its memory.
  Status Processes(size_t device, EnergyProcesses& out) override;

 private:
  const std::string root_;
  std::optional<HostFiles> files_;
  std::optional<EnergyReader> reader_;
  ProcessorTime time_;
  EnergyProcesses answer_;
  std::vector<bool> reported_;     // by zone: whether it has returned this answer
  std::vector<EnergyZone> zones_;  // zones that are devices
};

// Returns the clock of windows: std::chrono::steady_clock, in both members of Instant.
const Clock& SteadyClock() noexcept;

// Shared by the GPU sources. EnergyDevice::counter_lag of a counter that is updated irregularly:
inline constexpr Duration kLagUnknown{-1};
// Peak power during a reading, relative to the power limit, which applies to an average.
inline constexpr double kPeakOverLimit = 1.5;
// Minimum interval of slow queries.
inline constexpr int64_t kSlowNs = 90'000'000;

// Returns the sources of this machine in the order of preference, without opening them. $GPULENS_ENERGY:
// "own" never uses the agent; "agent" reads NVIDIA GPUs by the agent only. $GPULENS_ENERGY_ROOT: folder of
// /sys, for tests.
std::vector<std::shared_ptr<EnergySource>> SystemSources();

// Reads by a vendor's library in this process or, where that fails, by the agent; decided at each Open.
class OwnOrAgent final : public EnergySource {
 public:
  OwnOrAgent(std::shared_ptr<EnergySource> own, std::shared_ptr<EnergySource> agent);

  std::string_view name() const noexcept override { return used_.load()->name(); }
  EnergyVendor vendor() const noexcept override { return own_->vendor(); }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override { return used_.load()->Read(device, out); }
  // Queries the agent where this container does not see the library's process ids.
  Status Processes(size_t device, EnergyProcesses& out) override;
  std::string Doing() const override { return used_.load()->Doing(); }

 private:
  const std::shared_ptr<EnergySource> own_, agent_;
  std::atomic<EnergySource*> used_;
  // The agent's devices while the library reads and the agent reports processes.
  std::vector<EnergyDevice> devices_, queried_;
  std::chrono::steady_clock::time_point next_try_{};
};

// NVIDIA GPUs read by NVML in this process: the energy counter (Volta and newer) and the instantaneous power.
class NvmlEnergy final : public EnergySource {
 public:
  // `lookup`: finds the symbols of a linked library; null: libnvidia-ml.so.1 is opened. `root`: folder of
  // /proc.
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
    nvml::NvmlCaller caller;
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

// AMD GPUs read by AMD SMI in this process: the energy accumulator times its resolution, and the socket's
// power. Partitions of a board share one socket, so a board is one device.
class AmdEnergy final : public EnergySource {
 public:
  // `lookup`: finds the symbols of a linked library; null: libamd_smi.so is opened.
  AmdEnergy(amdsmi::SymbolLookup lookup, const Clock& clock);
  ~AmdEnergy() override;

  std::string_view name() const noexcept override { return "amdsmi"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kAmd; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;
  std::string Doing() const override;

 private:
  struct Board {
    amdsmi::Handle handle = nullptr;
    bool counter = true;
    int64_t queried_ns = 0;  // of the slow readings
    EnergyReading slow;
  };
  struct Opened;

  EnergyDevice Describe(const amdsmi::ListedProcessor& processor, std::vector<std::string>& names);
  int ReadCounter(Board& board, EnergyReading& out);
  int ReadPower(const Board& board, EnergyReading& out);
  void ReadSlow(Board& board, EnergyReading& out);

  const amdsmi::SymbolLookup lookup_;
  const Clock& clock_;
  reader::CallSlot slot_;
  std::unique_ptr<Opened> opened_;
  std::vector<Board> boards_;
  std::vector<std::byte> scratch_;
};

// Returns the path of the agent's socket: $GPULENS_ENERGY_SOCKET, else /run/gpulens/energy.sock, else
// energy.sock of this user's agent.
std::string FindEnergySocket();

// GPUs that the agent of this machine reads for processes that have no vendor library or may not open the
// devices. Excludes RAPL, which is a side channel and therefore readable by root only.
class AgentEnergy final : public EnergySource {
 public:
  struct Options {
    std::string socket = {};  // empty: found at each attempt
    // Reports only this vendor's GPUs; kNone: all.
    EnergyVendor vendor = EnergyVendor::kNvidia;
    Duration timeout = std::chrono::seconds(1);        // for a reading
    Duration first_answer = std::chrono::seconds(10);  // the agent may have to start its reader
  };
  // `clock` is the clock of windows.
  AgentEnergy(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

  std::string_view name() const noexcept override { return "agent"; }
  EnergyVendor vendor() const noexcept override { return options_.vendor; }
  // kUnavailable: no agent answers, or it has no GPU.
  Result<std::vector<EnergyDevice>> Open() override;
  // Reconnects to a restarted agent, which must have the same devices.
  Status Read(size_t device, EnergyReading& out) override;
  // Also works in a container with a namespace of process ids.
  Status Processes(size_t device, EnergyProcesses& out) override;

 private:
  Status Connect();
  Result<std::string> Query(const FeedRequest& request, Duration timeout);
  Status List(std::vector<EnergyDevice>& devices);
  Result<FeedReading> ReadOnce(uint32_t number);

  const Options options_;
  const Clock& clock_;
  UniqueFd socket_;
  std::vector<uint32_t> numbers_;  // indexes of our devices in the agent's list
  std::vector<std::string> ids_;
  bool reports_processes_ = false;
  bool answered_ = false;  // on this connection
};

}  // namespace gpulens::sdk
