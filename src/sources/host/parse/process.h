// Parsers of texts about one process and its cgroup: /proc/<pid>/{stat,smaps_rollup,limits,cgroup} and the
// limits of cgroup v2. Pure functions over text.
//
// Failures: kDataLoss, kExhausted; the output is then meaningless. Values that this kernel or this cgroup
// does not have are absent; "max" is absent too: no limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  uint64_t major_faults = 0;
  uint64_t threads = 0;
  uint64_t virtual_bytes = 0;
  uint64_t resident_pages = 0;
};
Status ParseProcessStat(std::string_view text, ProcessStat& out);
// The state letter alone, for a walk over all processes.
Status ParseProcessState(std::string_view text, char& out);

// /proc/<pid>/smaps_rollup, bytes. The kernel walks all mappings for it: not for every second.
struct ProcessMemory {
  std::optional<uint64_t> resident, proportional;  // Both present after a good parse.
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

}  // namespace gpulens
