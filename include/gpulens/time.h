// Types of time that the other headers share.
#pragma once

#include <chrono>

namespace gpulens {

using Duration = std::chrono::nanoseconds;
// Of the monotonic clock; wall-clock times, which jump when the clock is set, do not convert to it.
using TimePoint = std::chrono::steady_clock::time_point;

}  // namespace gpulens
