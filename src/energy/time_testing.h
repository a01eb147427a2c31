// Times of tests in milliseconds, where the code counts nanoseconds.
#pragma once

#include <cstdint>

namespace gpulens::energy {

inline constexpr int64_t kMs = 1'000'000;

}  // namespace gpulens::energy
