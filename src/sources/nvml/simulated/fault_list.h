// The faults that a person has put into a running simulated machine, and their numbers: what
// `gpulens fake nvml fail|heal|status` changes and shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/simulated/live_fault.h"

namespace gpulens::nvml {

// Used by one thread. Answers are one line; further ones are set apart by ';', which no word of a fault has.
class FaultList {
 public:
  // A fault in words, beginning at `now_ns`. `gpus`: how many GPUs the machine has; 0: not known. The answer
  // says what was understood. kInvalidArgument, or kExhausted at kMaxLiveFaults.
  Result<std::string> Fail(std::string_view words, int64_t now_ns, size_t gpus);
  // Ends all faults, those of one GPU ("gpu=3"; faults of all GPUs stay) or one ("id=2").
  Result<std::string> Heal(std::string_view words, int64_t now_ns);
  std::string Describe(int64_t now_ns) const;

  const std::vector<LiveFault>& faults() const noexcept { return faults_; }

 private:
  // Forgets what is over and leaves nothing behind. A moment later: the library must have seen its end.
  void Prune(int64_t now_ns);

  std::vector<LiveFault> faults_;
  uint32_t next_id_ = 1;
};

}  // namespace gpulens::nvml
