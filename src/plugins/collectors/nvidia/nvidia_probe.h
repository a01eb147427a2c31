// What `gpulens doctor` says of NVIDIA hardware and its driver.
#pragma once

#include <string>
#include <vector>

#include "plugins/plugin.h"

namespace gpulens {

// `asked`: a library was configured, so it is told even where no device is seen. Opens no library.
std::vector<Finding> ProbeNvidia(bool asked, const std::string& library, bool demo);

}  // namespace gpulens
