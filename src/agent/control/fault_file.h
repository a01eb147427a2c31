// The faults of the agent's simulated GPUs, and the file by which its reader process follows them.
#pragma once

#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/fd.h"
#include "sources/nvml/simulated/fault_list.h"

namespace gpulens {

// Used by one thread. The file is in memory and has no name of its own: it is reached through this process
// in /proc, by processes of the same user, and ends with it.
class FaultFile {
 public:
  // An empty script. kUnavailable and its like when the kernel gives none; path() is then empty.
  Status Open();
  // For the reader process. The same as long as this lives.
  const std::string& path() const noexcept { return path_; }

  // As FaultList does, and written for the reader process to see.
  Result<std::string> Fail(std::string_view words, int64_t now_ns, size_t gpus);
  Result<std::string> Heal(std::string_view words, int64_t now_ns);
  const nvml::FaultList& list() const noexcept { return list_; }

 private:
  Status Write();

  nvml::FaultList list_;
  UniqueFd file_;
  std::string path_;
};

}  // namespace gpulens
