// The options of the program itself, those of no plugin. The table is the documentation of these keys.
#pragma once

#include <span>

#include "plugins/config.h"

namespace gpulens {

// Static storage.
std::span<const OptionSpec> RootOptions() noexcept;

}  // namespace gpulens
