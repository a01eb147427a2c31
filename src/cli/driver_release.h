// `gpulens gpu release|resume|status`: tells a running agent to let go of the GPUs for a while.
#pragma once

#include <string>
#include <vector>

#include "config/loader.h"

namespace gpulens {

struct DriverOrder {
  std::string verb;    // release, resume, status
  std::string length;  // of a release; empty: until it is resumed
  std::string socket;  // empty: as configured
  std::string config_file;
};

// Exit code: 0 done, 1 not done (no agent, the process does not end), 2 wrong use.
int RunDriverOrder(const DriverOrder& order);

// What the agent says of its NVML driver; empty when none answers. For `doctor`.
std::string QueryDriverStatus(const Config& config);

}  // namespace gpulens
