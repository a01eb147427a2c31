// The two words for time that the other headers share.
#pragma once

#include <chrono>

namespace gpulens {

using Duration = std::chrono::nanoseconds;
// A wall-clock time does not convert: setting the clock is no latency and costs no joules.
using TimePoint = std::chrono::steady_clock::time_point;

}  // namespace gpulens
