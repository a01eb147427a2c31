// Quantiles of the last minute, and sum and count of all, from histograms that only grow. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/histogram.h"

namespace gpulens::recent_latency {

// The value below which the share `q` of the observations lies: linear within its bucket, moved by as much as
// the true mean differs from that of the buckets, but not out of the bucket. Where all are in one bucket it
// is the mean. NaN without observations.
double QuantileOf(const Buckets& buckets, double q);

class LatencyWindow {
 public:
  // Observations older than `window` are forgotten, in steps of a twelfth of it.
  explicit LatencyWindow(Duration window) noexcept : window_(window), rows_(0, kRows + 2) {}

  // Adds what was observed up to now. Other bounds than before begin the window again.
  void Add(const Buckets& growth, int64_t now_ns);
  // Forgets what is too old.
  void Expire(int64_t now_ns);
  Buckets Recent() const;

 private:
  static constexpr size_t kRows = 12;
  const Duration window_;
  std::vector<double> bounds_;
  SlidingRows rows_;  // counts up to each bound, count, sum
};

// The growth of one histogram from tick to tick.
class Growing {
 public:
  // The observations since the last call; all of them at the first, and when the histogram began again.
  Buckets Next(Buckets now);
  bool known() const noexcept { return known_; }
  uint64_t tick = 0;  // when it was last seen; the caller's

 private:
  Buckets last_;
  bool known_ = false;
};

}  // namespace gpulens::recent_latency
