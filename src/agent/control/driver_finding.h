// What `gpulens doctor` makes of the state of the running agent's reader process.
#pragma once

#include <optional>
#include <string_view>

#include "plugins/plugin.h"

namespace gpulens {

// `status`: the answer to "nvml status" behind its "ok ". Nothing when all is well, or nobody answers.
std::optional<Finding> DriverFinding(std::string_view status);

}  // namespace gpulens
