// Parsers of /proc and /sys texts about the whole machine: processors, load, pressure, memory, identity. Pure
// functions over text; no file is opened here.
//
// On failure (kDataLoss for malformed text, kExhausted past a limit) the output is valid but meaningless.
// Values that this kernel does not print are absent, never 0. Lists keep their memory, so a steady parse does
// not allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// Ticks of USER_HZ (see ClockTicksPerSecond) since boot. `guest` and `guest_nice` are already contained in
// `user` and `nice`: never add them. iowait and idle may go back by a little.
struct CpuModeTicks {
  uint64_t user = 0, nice = 0, system = 0, idle = 0;
  std::optional<uint64_t> iowait, irq, softirq, steal, guest, guest_nice;
};

// /proc/stat.
struct CpuTimes {
  struct Cpu {
    uint32_t number = 0;
    CpuModeTicks ticks;
  };
  CpuModeTicks total;
  std::vector<Cpu> cpus;  // Online ones only, in the kernel's order.
  std::optional<uint64_t> context_switches, interrupts;
  std::optional<uint64_t> processes_created, processes_running, processes_blocked;
  std::optional<uint64_t> boot_unix_s;
};
Status ParseCpuTimes(std::string_view text, CpuTimes& out);

// /proc/loadavg.
struct LoadAverage {
  double one_minute = 0, five_minutes = 0, fifteen_minutes = 0;
};
Status ParseLoadAverage(std::string_view text, LoadAverage& out);

// /proc/uptime.
struct SystemUptime {
  double seconds = 0;
};
Status ParseUptime(std::string_view text, SystemUptime& out);

// One file of /proc/pressure. Shares are percent of the time window as printed; total is microseconds. cpu
// has no `full` before Linux 5.13, irq has no `some`.
struct PressureStall {
  struct Level {
    double percent_10s = 0, percent_60s = 0, percent_300s = 0;
    uint64_t total_us = 0;
  };
  std::optional<Level> some, full;
};
Status ParsePressure(std::string_view file, std::string_view text, PressureStall& out);

// /proc/sys/fs/file-nr.
struct FileHandles {
  uint64_t used = 0, limit = 0;
};
Status ParseFileHandles(std::string_view text, FileHandles& out);

// "0-3,8,10-11": the numbers in order, at most 8192 of them (Linux' own limit of CPUs). An empty list is
// valid.
Status ParseCpuList(std::string_view file, std::string_view text, std::vector<uint32_t>& out);

// /proc/meminfo in bytes. `available` is the kernel's own estimate and overlaps with the others.
struct MemoryInfo {
  std::optional<uint64_t> total, free;  // Both present after a good parse.
  std::optional<uint64_t> available, buffers, cached, swap_total, swap_free, dirty, writeback, shared;
  std::optional<uint64_t> slab_reclaimable, slab_unreclaimable, committed;
};
Status ParseMemoryInfo(std::string_view text, MemoryInfo& out);

// /proc/vmstat: counts since boot. Swapping is in pages. `faults` contains `major_faults`.
struct VmStat {
  std::optional<uint64_t> swapped_in, swapped_out, faults, major_faults, oom_kills;
};
Status ParseVmStat(std::string_view text, VmStat& out);

// node*/meminfo in bytes. Every line is about the same node.
struct NodeMemory {
  std::optional<uint64_t> total, free, used;  // All present after a good parse.
};
Status ParseNodeMemory(std::string_view text, NodeMemory& out);

// node*/numastat: pages since boot. The results overlap: hit = local + part of other.
struct NodeAllocations {
  std::optional<uint64_t> hit, miss, foreign, local, other;
};
Status ParseNodeAllocations(std::string_view text, NodeAllocations& out);

// VERSION_ID of /etc/os-release, unquoted and clean; empty when it is absent.
Status ParseOsVersion(std::string_view text, std::string& out);

// The first processor of /proc/cpuinfo, clean; absent texts are empty. Arm cores have no model name;
// implementer and part identify them ("0x41", "0xd4f").
struct CpuInfo {
  std::string model, implementer, part;
};
Status ParseCpuInfo(std::string_view text, CpuInfo& out);

// Trimmed, cut at 64 bytes, control bytes escaped: texts of vendors that become attributes.
std::string CleanText(std::string_view text);

}  // namespace gpulens
