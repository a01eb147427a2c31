// What the kernel says of its processors and their load, as plain numbers: /proc/stat, /proc/loadavg,
// /proc/uptime, /proc/pressure/*, lists of CPUs. Pure functions over text; no file is opened here.
//
// On failure (kDataLoss for text that makes no sense, kExhausted past a limit) the output holds
// something valid but meaningless. Lists keep their memory, so a steady parse does not allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// Ticks of USER_HZ (see ClockTicksPerSecond) since boot. `guest` and `guest_nice` are already
// contained in `user` and `nice`: never add them. iowait and idle may go back by a little.
// Modes that the kernel does not have are absent.
struct CpuModeTicks {
  uint64_t user = 0;
  uint64_t nice = 0;
  uint64_t system = 0;
  uint64_t idle = 0;
  std::optional<uint64_t> iowait, irq, softirq, steal, owner, guest_nice;
};

// /proc/stat.
struct CpuTimes {
  struct Cpu {
    uint32_t number = 0;
    CpuModeTicks ticks;
  };
  CpuModeTicks total;
  std::vector<Cpu> cpus;  // Online ones only, in the kernel's order.
  std::optional<uint64_t> context_switches;
  std::optional<uint64_t> interrupts;
  std::optional<uint64_t> soft_interrupts;
  std::optional<uint64_t> processes_created;
  std::optional<uint64_t> processes_running;
  std::optional<uint64_t> processes_blocked;
  std::optional<uint64_t> boot_unix_s;
};
Status ParseCpuTimes(std::string_view text, CpuTimes& out);

// /proc/loadavg.
struct LoadAverage {
  double one_minute = 0;
  double five_minutes = 0;
  double fifteen_minutes = 0;
  uint64_t threads_runnable = 0;
  uint64_t threads = 0;
};
Status ParseLoadAverage(std::string_view text, LoadAverage& out);

// /proc/uptime. Seconds; idle is summed over all CPUs.
struct Uptime {
  double seconds = 0;
  double idle_seconds = 0;
};
Status ParseUptime(std::string_view text, Uptime& out);

// One file of /proc/pressure (or of a cgroup). Shares are percent of the time window as printed;
// total is microseconds. cpu has no `full` before Linux 5.13, irq has no `some`.
struct Pressure {
  struct Level {
    double percent_10s = 0;
    double percent_60s = 0;
    double percent_300s = 0;
    uint64_t total_us = 0;
  };
  std::optional<Level> some, full;
};
Status ParsePressure(std::string_view file, std::string_view text, Pressure& out);

// "0-3,8,10-11": the numbers in order, at most 8192 of them (Linux' own limit of CPUs). An empty
// list is valid.
Status ParseCpuList(std::string_view file, std::string_view text, std::vector<uint32_t>& out);

}  // namespace gpulens
