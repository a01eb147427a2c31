// Readers of the machine's devices as /sys describes them: processors, NUMA nodes, huge pages, memory errors,
// temperatures, energy, network interfaces and RDMA ports. Slow: meant for every 10 to 60 s, the energy
// counters and RDMA's bytes excepted.
//
// Not thread-safe; `files` must outlive the readers. A malformed file loses that value only; the first such
// Status is returned at the end, with all other values in place. kUnavailable: this machine (or virtual
// machine) has none of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/system.h"

namespace gpulens {

// Online processors. `cores` is absent where the kernel has no topology.
struct CpuTopology {
  std::vector<uint32_t> online;
  std::optional<uint64_t> cores;
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
  std::optional<uint64_t> total, free, reserved;
};
Status ReadHugePages(HostFiles& files, NameList& names, std::vector<HugePages>& out);

// Errors that one memory controller saw since boot or module load.
struct MemoryController {
  uint32_t number = 0;
  std::optional<uint64_t> correctable, uncorrectable;
};
Status ReadMemoryControllers(HostFiles& files, NameList& names, std::vector<MemoryController>& out);

struct TemperatureReading {
  std::string chip;    // Driver: "coretemp", "k10temp", "nvme".
  std::string device;  // What it sits on, to distinguish equal chips: "nvme0", "coretemp.0". May be empty.
  std::string sensor;  // The label ("Package id 0", "Composite"), else the file's name ("temp1").
  std::optional<int64_t> millidegrees;  // Celsius; absent when the sensor does not answer.
};
// Some sensors are read over slow buses. A steady Read does not allocate when `out` is the list of the call
// before.
class TemperatureReader {
 public:
  explicit TemperatureReader(HostFiles& files) : files_(files) {}
  Status Read(std::vector<TemperatureReading>& out);

 private:
  Status ReadSensor(std::string_view chip, std::string_view file, TemperatureReading& out);

  HostFiles& files_;
  NameList chips_, sensors_;
};

// The gain of a wrapping counter. `range` is its largest value; with 0 (unknown) or a reading past it, a
// counter that went back was reset, and the gain is unknown.
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

struct NetInterface {
  std::string name;
  std::optional<bool> up;  // Absent when the driver does not know ("unknown": lo, some tunnels).
  std::optional<uint64_t> speed_bytes_per_s;  // Absent when down, virtual, or unknown (-1).
};
class NetInterfaceReader {
 public:
  explicit NetInterfaceReader(HostFiles& files) : files_(files) {}
  Status Read(std::vector<NetInterface>& out);

 private:
  HostFiles& files_;
  NameList names_;
};

enum class LinkLayer : uint8_t { kUnknown, kInfiniband, kEthernet };

// Counters since the port came up. Present are those that the driver has. Old cards saturate instead of
// wrapping: 32 bits for data (kRdmaSaturatedBytes), 4, 8 or 16 for errors.
struct RdmaCounters {
  std::optional<uint64_t> receive_bytes, transmit_bytes;  // The kernel's 4-byte words times 4.
  std::optional<uint64_t> receive_packets, transmit_packets;
  std::optional<uint64_t> transmit_wait;  // Ticks.
  std::optional<uint64_t> symbol_errors, link_recoveries, link_downed, receive_errors;
  std::optional<uint64_t> remote_physical_errors, transmit_discards;
  std::optional<uint64_t> transmit_constraint_errors, receive_constraint_errors;
  std::optional<uint64_t> local_integrity_errors, buffer_overruns;
  // Of the RoCE and mlx5 hw_counters.
  std::optional<uint64_t> out_of_sequence, packet_sequence_errors, ack_timeouts, rnr_nak_retries;
  std::optional<uint64_t> cnp_handled, ecn_marked;
};
inline constexpr uint64_t kRdmaSaturatedBytes = 4ull * 0xFFFFFFFF;

struct RdmaPort {
  std::string device;  // "mlx5_0"
  uint32_t port = 0;
  std::optional<uint64_t> state;  // 1 down, 2 init, 3 armed, 4 active.
  std::optional<uint64_t> speed_bytes_per_s;
  LinkLayer link_layer = LinkLayer::kUnknown;
  std::string firmware, node_guid;  // Empty: unknown.
  std::optional<uint32_t> numa_node;
  RdmaCounters counters;
};

enum class RdmaDetail : uint8_t {
  kData,  // Only bytes: two files per port. Other members keep their values for a port seen before.
  kAll,
};
class RdmaReader {
 public:
  explicit RdmaReader(HostFiles& files) : files_(files) {}
  Status Read(RdmaDetail detail, std::vector<RdmaPort>& out);

 private:
  HostFiles& files_;
  NameList devices_, ports_;
};

}  // namespace gpulens
