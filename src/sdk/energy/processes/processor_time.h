// How much of the machine's processor time was that of a process and its descendants, those among it that
// have ended included. Reads /proc/stat and the stat of every process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy_source.h>

#include "sources/host/process.h"
#include "sources/host/system.h"

namespace gpulens::sdk {

// Used by one thread. What a descendant used that nobody of the family waited for, and that was not seen in
// between, is missing.
class ProcessorTime {
 public:
  // The family is that of `first`; 0: of this process.
  explicit ProcessorTime(std::string root = "/", uint32_t first = 0)
      : root_(std::move(root)), first_(first) {}

  // Time counts from here.
  Status Open();
  // Since the last answer: ours, and that of all others, of what was busy. Nobody when nothing was.
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

}  // namespace gpulens::sdk
