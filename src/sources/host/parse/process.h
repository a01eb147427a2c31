// One process and its cgroup as the kernel prints them: /proc/<pid>/{stat,smaps_rollup,limits,cgroup}
// and the files of cgroup v2. Pure functions over text.
//
// Failures: kDataLoss, kExhausted; the output is then meaningless. Absent is what this kernel or this
// cgroup does not have; "max" is absent too: no limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// /proc/<pid>/stat. Times in ticks of USER_HZ; start_ticks counts from boot, so (pid, start_ticks)
// names a process for ever.
struct ProcessStat {
  char state = '?';     // R S D T t Z X I.
  uint64_t parent = 0;  // 0: it has none here.
  uint64_t user_ticks = 0, system_ticks = 0, start_ticks = 0;
  // Of those of its children that have ended and were waited for, and of theirs.
  uint64_t children_user_ticks = 0, children_system_ticks = 0;
  uint64_t minor_faults = 0, major_faults = 0;
  uint64_t threads = 0;
  uint64_t virtual_bytes = 0;
  uint64_t resident_pages = 0;
};
Status ParseProcessStat(std::string_view text, ProcessStat& out);
// The state letter alone: what a walk over all processes needs.
Status ParseProcessState(std::string_view text, char& out);

// /proc/<pid>/smaps_rollup, bytes. The kernel walks all mappings for it: not for every second.
struct ProcessMemory {
  std::optional<uint64_t> resident, proportional, proportional_dirty;  // The first two always present.
  std::optional<uint64_t> private_clean, private_dirty, anonymous, swap, swap_proportional;
};
Status ParseSmapsRollup(std::string_view text, ProcessMemory& out);

// /proc/<pid>/limits: the soft limit of open files; absent when unlimited.
Status ParseOpenFileLimit(std::string_view text, std::optional<uint64_t>& out);

// /proc/<pid>/cgroup: the path of the line "0::", which cgroup v2 has. kUnavailable on pure v1.
Status ParseCgroupPath(std::string_view text, std::string& out);

// cpu.max: "max 100000" or "200000 100000" (quota and period in microseconds).
struct CgroupCpuMax {
  std::optional<uint64_t> quota_us;
  uint64_t period_us = 0;
};
Status ParseCgroupCpuMax(std::string_view text, CgroupCpuMax& out);

// memory.max, pids.max and their like: a number, or absent for "max".
Status ParseCgroupLimit(std::string_view file, std::string_view text, std::optional<uint64_t>& out);

// cpu.stat, microseconds. The throttling part exists where the cpu controller is on.
struct CgroupCpu {
  std::optional<uint64_t> usage_us, user_us, system_us;
  std::optional<uint64_t> periods, throttled_periods, throttled_us;
};
Status ParseCgroupCpu(std::string_view text, CgroupCpu& out);

// memory.stat (bytes) and memory.events (counts); each parser writes its own members.
struct CgroupMemory {
  std::optional<uint64_t> anonymous, file, kernel, slab, shared, inactive_file, active_file;
  std::optional<uint64_t> faults, major_faults;
  std::optional<uint64_t> low_events, high_events, max_events, oom_events, oom_kills;
};
Status ParseCgroupMemoryStat(std::string_view text, CgroupMemory& out);
Status ParseCgroupMemoryEvents(std::string_view text, CgroupMemory& out);

// io.stat: one line per device. An empty file is valid: no I/O yet.
struct CgroupIo {
  uint32_t major = 0;
  uint32_t minor = 0;
  std::optional<uint64_t> read_bytes, write_bytes, reads, writes, discard_bytes, discards;
};
Status ParseCgroupIo(std::string_view text, std::vector<CgroupIo>& out);

}  // namespace gpulens
