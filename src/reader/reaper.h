// Reader processes that were killed and have not ended yet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/process.h"

namespace gpulens::driver {

// Used by one thread. Waits for nothing: what the kernel does not end at once is looked at again later.
class Reaper {
 public:
  // Kills it.
  void Take(ChildProcess child, int64_t boot_ns);
  // Reaps what has ended. `stuck`: those that were killed more than a second ago and are still there, as a
  // process in state D is. The pid of one that is found stuck for the first time; -1 when there is none.
  pid_t Look(Instant now, std::vector<int>& stuck);
  bool empty() const noexcept { return dying_.empty(); }

 private:
  struct Dying {
    ChildProcess child;
    int64_t since_ns;
    bool told = false;
  };
  std::vector<Dying> dying_;
};

}  // namespace gpulens::driver
