// How long something took, many times: exact count, sum, least and most, and exponential buckets for the
// rest.
#pragma once

#include <array>
#include <cstdint>

#include <gpulens/stats.h>

#include "instruments/window.h"

namespace gpulens::ring {

// Not thread-safe. Recording does not allocate.
class Latency {
 public:
  // NaN, infinite and negative ones are left out.
  void Record(double seconds) noexcept;
  // Begins anew; what was before is kept for AddTo.
  void Reset();
  // Since the last reset. Quantiles lie in the right bucket: off by at most its width, which is 0.27 % for
  // values that lie close together and 4.4 % for three decades of them.
  Distribution Describe() const;
  // Everything ever recorded.
  void AddTo(instruments::Exponential& sum) const;

 private:
  std::array<instruments::Cell, instruments::kExponentialCells> window_{};
  uint64_t n_ = 0;
  double sum_ = 0, least_ = 0, most_ = 0;
  double first_ = 0, off_ = 0, squares_ = 0;  // sums of differences from the first, for the deviation
  instruments::Exponential before_;
};

}  // namespace gpulens::ring
