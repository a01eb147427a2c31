// What `gpulens top` shows as JSON: gpulens.top/1. A number that is not known is left out.
#pragma once

#include <span>
#include <string>

#include "cli/top/top_view.h"

namespace gpulens {

std::string TopJson(std::span<const TopNode* const> nodes);

}  // namespace gpulens
