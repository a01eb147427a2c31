// The machine's parts as /sys describes them: processors, NUMA nodes, huge pages, memory errors,
// temperatures, energy. Slow matters: meant for every 10 to 60 s, the energy counters excepted.
//
// Readers are not thread-safe; `files` must outlive them. A device whose file makes no sense loses that
// value only; the first such Status is returned at the end, with all other values in place. kUnavailable:
// this machine (or virtual machine) has none of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/memory.h"

namespace gpulens {

// Online processors. Cores and packages are absent where the kernel tells no topology.
struct CpuTopology {
  std::vector<uint32_t> online;
  std::optional<uint64_t> cores;
  std::optional<uint64_t> packages;
};
Status ReadCpuTopology(HostFiles& files, CpuTopology& out);

// Current frequency per online CPU, in the order of `online`; absent without cpufreq (most virtual
// machines). Each read may interrupt that CPU.
Status ReadCpuFrequencies(HostFiles& files, const std::vector<uint32_t>& online,
                          std::vector<std::optional<uint64_t>>& hertz);

struct NumaNode {
  uint32_t number = 0;
  NodeMemory memory;
  NodeAllocations allocations;
};
Status ReadNumaNodes(HostFiles& files, NameList& names, std::vector<NumaNode>& out);

// One size of huge pages; counts of pages. used = total - free; reserved is part of free.
struct HugePages {
  uint64_t page_bytes = 0;
  std::optional<uint64_t> total, free, reserved, surplus;
};
Status ReadHugePages(HostFiles& files, NameList& names, std::vector<HugePages>& out);

// Errors that one memory controller saw since boot or module load.
struct MemoryController {
  uint32_t number = 0;
  std::optional<uint64_t> correctable, uncorrectable;
};
Status ReadMemoryControllers(HostFiles& files, NameList& names, std::vector<MemoryController>& out);

struct Temperature {
  std::string chip;    // Driver: "coretemp", "k10temp", "nvme".
  std::string device;  // What it sits on, to tell equal chips apart: "nvme0", "coretemp.0". May be empty.
  std::string sensor;  // The label ("Package id 0", "Composite"), else the file's name ("temp1").
  std::optional<int64_t> millidegrees;  // Celsius; absent when the sensor does not answer.
};
// Some sensors are asked over slow buses. Keep this off the tick. Not thread-safe; a steady Read does not
// allocate when `out` is the list of the call before.
class TemperatureReader {
 public:
  explicit TemperatureReader(HostFiles& files) : files_(files) {}
  Status Read(std::vector<Temperature>& out);

 private:
  Status ReadSensor(std::string_view chip, std::string_view file, Temperature& out);

  HostFiles& files_;
  NameList chips_, sensors_;
};

// What a wrapping counter gained. `range` is its largest value; 0 (unknown) or a reading past it gives
// nothing when the counter went back: that was a reset.
std::optional<uint64_t> EnergyGain(uint64_t before, uint64_t now, uint64_t range) noexcept;

// One RAPL zone. `name` is what it measures: "package-0", "dram", "core", "uncore", "psys".
// A core or uncore zone is contained in its package; dram is not.
struct EnergyZone {
  std::string zone;  // "intel-rapl:0" or, below a package, "intel-rapl:0:1". AMD uses the same names.
  std::string name;
  uint32_t package = 0;               // The first number of the zone.
  std::optional<uint64_t> energy_uj;  // Unwrapped; starts at the first reading. Absent: not readable.
  uint64_t range_uj = 0;
  std::optional<uint64_t> raw_uj;
};

// Carries the counters over their wraps (every minute or so at worst: 65 kJ at 1 kW), so it must be
// called more often than that. After a reset the counter starts again at the raw value.
// kPermissionDenied is normal: only root may read energy since Linux 5.10. `out` then names the zones.
// Not thread-safe.
class EnergyReader {
 public:
  explicit EnergyReader(HostFiles& files) : files_(files) {}
  // `out` must be the list of the call before.
  Status Read(std::vector<EnergyZone>& out);
  // One zone of such a list, alone.
  Status ReadAgain(EnergyZone& zone);

 private:
  Status ReadZone(std::string_view name, EnergyZone& zone);

  HostFiles& files_;
  NameList names_;
};

}  // namespace gpulens
