// `gpulens config check|print|schema`.
#pragma once

#include <string>
#include <vector>

#include "config/loader.h"

namespace gpulens {

// Each returns the exit code: 0 good, 2 bad configuration. `file` as for the agent.
int RunConfigCheck(const std::string& file, const std::vector<FlagValue>& flags);
int RunConfigPrint(const std::string& file, const std::vector<FlagValue>& flags);
int RunConfigSchema(const std::string& format);  // yaml, json or md
// Writes a short configuration into a new file; "-" is standard output, empty the file that the agent reads
// by default. 1: it is there already, or cannot be written.
int RunConfigInit(const std::string& file);

}  // namespace gpulens
