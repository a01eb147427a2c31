#include "ledger/apportion.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace gpulens::ledger {

void Apportion(int64_t whole, std::span<const int64_t> weights, std::span<int64_t> parts) {
  CHECK(!parts.empty() && parts.size() == weights.size());
  __int128 total = 0;
  for (int64_t weight : weights) total += weight;
  const bool equal = total == 0;
  if (equal) total = static_cast<__int128>(weights.size());
  // The remainders of the divisions; below `total`, which may need more than 64 bits.
  struct Rest {
    __int128 of;
    size_t part;
  };
  constexpr size_t kFew = 64;
  std::array<Rest, kFew> few;
  std::vector<Rest> many;
  if (parts.size() > kFew) many.resize(parts.size());
  const std::span<Rest> rests =
      many.empty() ? std::span<Rest>(few).first(parts.size()) : std::span<Rest>(many);

  const bool negative = whole < 0;
  const __int128 size = negative ? -static_cast<__int128>(whole) : static_cast<__int128>(whole);
  __int128 left = size;
  for (size_t i = 0; i < parts.size(); ++i) {
    const __int128 weight = equal ? 1 : weights[i];
    // size < 2^63 and weight < 2^63, so the product fits.
    const __int128 product = size * weight;
    const __int128 part = product / total;
    rests[i] = {product % total, i};
    parts[i] = static_cast<int64_t>(negative ? -part : part);
    left -= part;
  }
  // Fewer units are left than there are parts with a remainder.
  if (left > 0) {
    const auto count = static_cast<std::ptrdiff_t>(left);
    std::partial_sort(rests.begin(), rests.begin() + count, rests.end(), [](const Rest& a, const Rest& b) {
      return a.of != b.of ? a.of > b.of : a.part < b.part;
    });
    for (std::ptrdiff_t i = 0; i < count; ++i) parts[rests[static_cast<size_t>(i)].part] += negative ? -1 : 1;
  }
}

}  // namespace gpulens::ledger
