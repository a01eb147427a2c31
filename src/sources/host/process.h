// Readers of single processes (our own, a reader process), of the number of all, and of our cgroup's limits.
//
// Not thread-safe; `files` must outlive the readers. Failures: kUnavailable (no such process, no
// cgroup v2), kPermissionDenied (another user's process), kDataLoss, kExhausted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gpulens/status.h>

#include "sources/host/files.h"
#include "sources/host/parse/process.h"

namespace gpulens {

// Reads one process repeatedly. Steady reads allocate nothing.
class ProcessReader {
 public:
  // Our own process, or another by its number.
  explicit ProcessReader(HostFiles& files);
  ProcessReader(HostFiles& files, int32_t pid);

  // One small file. A pid that was reused has another ProcessStat::start_ticks.
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
// Opens a file per process (about 5 us each): for every 10 to 60 s. kExhausted, and no counts, past
// `max_processes`. Processes that end meanwhile are skipped.
Status ReadProcessCounts(HostFiles& files, NameList& names, ProcessCounts& out, size_t max_processes = 32768);

// The limits of this process' cgroup (version 2): the tightest on the way up to the topmost visible cgroup.
// Absent: no limit, no such controller, or (at the real root) no such file.
struct CgroupLimits {
  std::string path;  // As this process sees it; "/" inside a cgroup namespace.
  std::optional<double> cpus;
  std::optional<uint64_t> memory_bytes;
};
// A malformed file loses its value; the first such Status is returned at the end.
Status ReadCgroupLimits(HostFiles& files, CgroupLimits& out);
}  // namespace gpulens
