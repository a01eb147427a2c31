// `gpulens doctor`: what is found, what is not, why, and what to do.
#pragma once

#include <string>
#include <vector>

#include "config/loader.h"

namespace gpulens {

struct DoctorOptions {
  std::string config_file;
  std::vector<FlagValue> flags;
  bool json = false;
};

// Reports the findings of the agent that runs on this machine, or those of this process when none answers. 0
// fine, 1 limited (no permission, or a warning), 2 a fault or a bad configuration. What is absent and was not
// asked for by the configuration never counts.
int RunDoctor(const DoctorOptions& options);

}  // namespace gpulens
