// Processor time of a process and its descendants, those that have ended included. Reads /proc/stat and the
// stat of every process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gpulens/energy_source.h>

#include "sources/host/process.h"
#include "sources/host/system.h"

namespace gpulens::sdk {

// Used by one thread. The time of a descendant is missing when no ancestor waited for it and it ended between
// two calls.
class ProcessorTime {
 public:
  // Measures the process `first` and its descendants; 0: this process.
  explicit ProcessorTime(std::string root = "/", uint32_t first = 0)
      : root_(std::move(root)), first_(first) {}

  // Begins to measure.
  Status Open();
  // Returns two entries, our time and that of all others since the last call; none when the machine was idle.
  Status SinceLast(EnergyProcesses& out);

 private:
  struct Member {
    uint64_t parent = 0, start_ticks = 0, ticks = 0;
  };
  using Members = std::map<uint64_t, Member>;  // by pid

  Status ReadBusy(uint64_t& ticks);
  Status ReadMembers(Members& out);

  const std::string root_;
  const uint32_t first_;
  std::optional<HostFiles> files_;
  std::optional<SystemReader> system_;
  NameList names_;
  CpuTimes times_;
  uint64_t busy_ = 0;
  Members members_;
};

// Decides which processes belong to a run: its first process, the descendants of it, and those that carry its
// ID, such as ranks that another process started. Reads /proc below a root. Used by one thread. A decision
// holds while the process lives, also when its parent ends. At most kMostKept are kept.
class RunFamily {
 public:
  static constexpr size_t kMostKept = 8192;

  explicit RunFamily(std::string root = "/");

  // Whether /proc has the process ids that drivers report: false in a container with a namespace of its own.
  bool sees_host() const noexcept { return sees_host_; }
  // Whether the process belongs to the run. `run_id`: the value of GPULENS_RUN_ID in the environment of its
  // processes; empty: only descent counts. False for a process that has ended.
  bool Has(uint32_t pid, uint32_t first, std::string_view run_id);

 private:
  struct Kept {
    uint64_t start_ticks;
    bool ours;
  };
  bool Read(uint32_t pid, const char* file, size_t limit);
  bool Descends(uint32_t pid, uint32_t first);
  bool Carries(uint32_t pid, std::string_view run_id);

  const std::string root_;
  bool sees_host_ = false;
  std::string run_id_, path_, text_;
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_;  // by first and pid
};

// Returns the run id of this process, or "".
std::string OwnRunId();

}  // namespace gpulens::sdk
