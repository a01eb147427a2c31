// `gpulens config check|print|schema`.
#pragma once

#include <string>
#include <vector>

#include "agent/config/loader.h"

namespace gpulens {

// Each returns the exit code: 0 good, 2 bad configuration. `file` as for the agent.
int RunConfigCheck(const std::string& file, const std::vector<FlagValue>& flags);
int RunConfigPrint(const std::string& file, const std::vector<FlagValue>& flags);
int RunConfigSchema(bool json);

}  // namespace gpulens
