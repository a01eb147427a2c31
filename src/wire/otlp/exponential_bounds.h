// Exponential buckets of OpenTelemetry as the classic ones of Prometheus, without guessing: several
// neighbours become one, so each cumulative count is exactly the number of observations up to its bound.
//
// Bounds are always of the same grid, the powers of the square root of two, so that a series has the same
// bounds from scrape to scrape: others are added at either end and none moves. Only what was counted in
// coarser buckets than these has fewer of them. A bound is off the true power by less than one step of a
// double, so that what lies on it is on its right side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpulens {

// Two buckets for each doubling.
inline constexpr int kBoundsScale = 1;

struct ClassicBuckets {
  std::vector<double> bounds;    // ascending, finite
  std::vector<uint64_t> counts;  // observations <= bound, cumulative
  uint64_t count = 0;            // all
};

// `counts[i]`: in (base^(offset+i), base^(offset+i+1)] with base = 2^(2^-scale). `zeros` are below all
// bounds. Fills `out`, whose memory is used again.
void ToClassicBuckets(int scale, int32_t offset, std::span<const uint64_t> counts, uint64_t zeros,
                      ClassicBuckets& out);

}  // namespace gpulens
