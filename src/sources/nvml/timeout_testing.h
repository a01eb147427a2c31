// How long tests wait for a reader process on a machine that is busy with something else.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace gpulens::nvml {

inline constexpr Duration kTimeout = std::chrono::seconds(60);

}  // namespace gpulens::nvml
