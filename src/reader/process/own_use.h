// What the reader process uses of the machine itself, and how much it may.
#pragma once

#include <cstdint>

namespace gpulens::driver {

// 0: cannot be told.
struct OwnUse {
  uint64_t memory = 0;  // Resident bytes.
  uint64_t files = 0;   // Open descriptors.
  uint64_t threads = 0;
};

// Libraries of eight GPUs take a tenth of it. A process beyond is one whose library leaks: it is started
// anew.
inline constexpr OwnUse kMostUse{.memory = uint64_t{512} << 20, .files = 1000, .threads = 512};

OwnUse ReadOwnUse();
bool IsBeyond(const OwnUse& use, const OwnUse& most) noexcept;

// Limits of the kernel, above those, for what happens between two looks: data and descriptors. Nothing is
// raised. Without effect where a sanitizer takes address space for itself.
void LimitOwnUse() noexcept;

}  // namespace gpulens::driver
