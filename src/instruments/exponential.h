// Exponential buckets of OpenTelemetry (base-2): the sum of several windows of them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/power_buckets.h"

namespace gpulens::instruments {

using buckets::Coarser;
using buckets::FinestIndex;
using buckets::kFinest;

// Of one series; where values need more, two neighbours become one.
inline constexpr uint32_t kWindow = 160;

// Counts of a growing range of buckets, at one scale.
class ExponentialSum {
 public:
  // `counts[i]` of bucket offset + i at `scale`.
  void Add(int scale, int32_t offset, std::span<const uint64_t> counts);
  // At most kWindow buckets, from the first to the last that is not 0.
  int scale() const noexcept { return scale_; }
  int32_t offset() const noexcept { return low_; }
  std::span<const uint64_t> counts() const noexcept { return counts_; }

 private:
  void CoarsenTo(int scale);
  void Cover(int32_t low, int32_t high);

  int scale_ = kFinest;
  int32_t low_ = 0;
  std::vector<uint64_t> counts_;
};

}  // namespace gpulens::instruments
