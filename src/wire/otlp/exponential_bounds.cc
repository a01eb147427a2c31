#include "wire/otlp/exponential_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens {
namespace {

// The largest double that is not above it: what lies on a bound was counted below it.
constexpr double kRootOfTwo = 0x1.6a09e667f3bccp0;
// Doubles end at 2^1024, and begin above 2^-1075.
constexpr int64_t kHighest = 1023, kLowest = -1074;

// The upper bound of bucket `index` at `scale`, which is at most kBoundsScale.
double UpperBound(int64_t index, int scale) noexcept {
  const int64_t end = index + 1;
  int64_t power = end;
  bool half = false;
  if (scale == kBoundsScale) {
    power = end >> 1;
    half = (end & 1) != 0;
  } else {
    // Coarser than once per doubling: far outside of all doubles it makes no difference by how much.
    power = std::clamp<int64_t>(end, -4096, 4096) * (int64_t{1} << std::min(-scale, 12));
  }
  if (power > kHighest) return std::numeric_limits<double>::infinity();
  if (power < kLowest) return 0;
  return std::ldexp(half ? kRootOfTwo : 1.0, static_cast<int>(power));
}

}  // namespace

void ToClassicBuckets(int scale, int32_t offset, std::span<const uint64_t> counts, uint64_t zeros,
                      ClassicBuckets& out) {
  out.bounds.clear();
  out.counts.clear();
  out.count = zeros;
  const int by = std::clamp(scale - kBoundsScale, 0, 40);
  const int bounds_scale = std::min(scale, kBoundsScale);
  for (size_t i = 0; i < counts.size(); ++i) {
    out.count += counts[i];
    const int64_t index = (int64_t{offset} + static_cast<int64_t>(i)) >> by;
    const double bound = UpperBound(index, bounds_scale);
    // Buckets without a bound among doubles are in the count alone; those with the last bound are added to
    // it.
    if (bound <= 0 || std::isinf(bound)) continue;
    if (out.bounds.empty() || out.bounds.back() != bound) {
      out.bounds.push_back(bound);
      out.counts.push_back(out.count);
    } else {
      out.counts.back() = out.count;
    }
  }
}

}  // namespace gpulens
