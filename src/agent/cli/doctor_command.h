// `gpulens doctor`: what is found, what is not, why, and what to do.
#pragma once

#include <string>
#include <vector>

#include "agent/config/loader.h"

namespace gpulens {

struct DoctorOptions {
  std::string config_file;
  std::vector<FlagValue> flags;
  bool json = false;
};

// Asks the agent that runs on this machine, and looks for itself only when none answers. 0 fine, 1 limited (no
// permission, or a warning), 2 a fault or a bad configuration. What nobody configured and is not here never
// counts.
int RunDoctor(const DoctorOptions& options);

}  // namespace gpulens
