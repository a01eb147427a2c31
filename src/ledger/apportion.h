// Divides an integer by weights so that the parts add up to it exactly (largest remainder).
#pragma once

#include <cstdint>
#include <span>

namespace gpulens::ledger {

// Sets parts[i] to the share of weights[i] in `whole`: first rounded towards zero, then one unit more for
// those with the largest remainders, of equal ones to the first. `whole` may be negative. Weights are not
// negative; if all are 0 they count as equal. The parts have the sign of `whole` or are 0, and add up to it.
// `parts` and `weights` have the same size, not 0. Exact for any int64_t. Does not allocate for at most 64
// parts.
void Apportion(int64_t whole, std::span<const int64_t> weights, std::span<int64_t> parts);

// a x b / c, rounded down, in 128 bits. c > 0.
constexpr int64_t MulDiv(int64_t a, int64_t b, int64_t c) noexcept {
  __int128 product = static_cast<__int128>(a) * b;
  __int128 quotient = product / c;
  if (product % c < 0) --quotient;
  return static_cast<int64_t>(quotient);
}

}  // namespace gpulens::ledger
