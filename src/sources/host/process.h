// Single processes (our own, a reader process), the count of all, and the cgroup that holds us.
//
// Not thread-safe; `files` must outlive the readers. Failures: kUnavailable (no such process, no
// cgroup v2), kPermissionDenied (another user's process), kDataLoss, kExhausted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/process.h"

namespace gpulens {

// Reads one process again and again. Steady reads allocate nothing.
class ProcessReader {
 public:
  // Our own process, or another by its number.
  explicit ProcessReader(HostFiles& files);
  ProcessReader(HostFiles& files, int32_t pid);

  // One small file. A number that was used again shows itself by another ProcessStat::start_ticks.
  Status ReadStat(ProcessStat& out);
  // Resident and proportional memory: the kernel walks the mappings for it, tens to hundreds of us.
  Status ReadMemory(ProcessMemory& out);
  struct Descriptors {
    uint64_t open = 0;
    std::optional<uint64_t> limit;  // Absent: unlimited.
  };
  // One directory entry per descriptor.
  Status ReadDescriptors(Descriptors& out);

 private:
  ProcessReader(HostFiles& files, const std::string& folder, bool is_self);

  HostFiles& files_;
  KeptFile stat_;
  std::string memory_path_, limits_path_, descriptors_path_;
  bool is_self_;
};

// Processes by state. The running ones include this one.
struct ProcessCounts {
  uint64_t running = 0, sleeping = 0, blocked = 0, stopped = 0, zombie = 0, idle = 0, other = 0;
};
// Opens a file per process (about 5 us each): for every 10 to 60 s and by choice. kExhausted, and no
// counts, past `max_processes`. Processes that end meanwhile are passed over.
Status ReadProcessCounts(HostFiles& files, NameList& names, ProcessCounts& out, size_t max_processes = 32768);

// What cgroup v2 grants and counts for this process' cgroup. Absent: no limit, no such controller,
// or (at the real root) no such file.
struct CgroupInfo {
  std::string path;  // As this process sees it; "/" inside a cgroup namespace.
  // The tightest on the way up to the topmost visible cgroup.
  std::optional<double> cpu_limit;  // CPUs.
  std::optional<uint64_t> memory_limit_bytes;
  std::optional<uint64_t> processes_limit;
  std::optional<uint64_t> memory_bytes, memory_peak_bytes, swap_bytes, processes;
  CgroupCpu cpu;
  CgroupMemory memory;
  std::vector<CgroupIo> io;
};

class CgroupReader {
 public:
  explicit CgroupReader(HostFiles& files);
  // A file that makes no sense loses its values; the first such Status is returned at the end.
  Status Read(CgroupInfo& out);

 private:
  Status FindFolder(CgroupInfo& out);
  Status ReadLimits(CgroupInfo& out);
  // Text of a file of our cgroup; nothing when it is not there.
  std::optional<std::string_view> Find(std::string_view folder, std::string_view name);

  HostFiles& files_;
  KeptFile self_;
  std::string base_;    // Where cgroup v2 is mounted, below the root.
  std::string folder_;  // base_ and our path.
};

}  // namespace gpulens
