// Pure functions on numbers: distributions, latencies between tokens, and whether a benchmark has settled.
//
// What was not measured is NaN (kNotMeasured) and does not count: a NaN among the values is left out, and a
// Distribution of nothing has n = 0 and NaN everywhere else. Thread-safe as any value is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

// Of n values, in their unit.
struct Distribution {
  uint64_t n = 0;
  double sum = 0;
  double mean = kNotMeasured;
  double std = kNotMeasured;  // of a sample: divided by n - 1; NaN for one value
  double min = kNotMeasured, p50 = kNotMeasured, p90 = kNotMeasured, p95 = kNotMeasured, p99 = kNotMeasured,
         max = kNotMeasured;
};

// `fraction` 0 to 1 of values that ascend, linear between ranks (Hyndman and Fan, 1996, type 7; numpy's
// default). NaN for no values and for a fraction that is none.
double Percentile(std::span<const double> ascending, double fraction) noexcept;
// Of values in any order. O(n log n), and a copy of them.
Distribution Describe(std::span<const double> values);
// Seconds from token to token, of arrivals in their order. Fewer than two: n = 0. A step back in time is left
// out.
Distribution InterTokenLatency(std::span<const TimePoint> arrivals);

struct SteadyStateOptions {
  size_t warmup = 5;       // values that do not count
  size_t window = 5;       // values that are compared, at least 2
  size_t consecutive = 3;  // windows in a row that must be quiet
  double cv_below = 0.05;  // quiet: the sample's standard deviation is less than this share of its mean
};

// Tells from when on a measured rate no longer drifts. Constant memory. Not thread-safe.
class SteadyStateDetector {
 public:
  explicit SteadyStateDetector(const SteadyStateOptions& options = {});

  // Whether it is steady with this value, and from then on for ever. A window with a NaN, or with a mean that
  // is not positive, is never quiet.
  bool Record(double value) noexcept;
  bool steady() const noexcept { return steady_; }
  uint64_t recorded() const noexcept { return recorded_; }
  void Reset() noexcept;

 private:
  bool Quiet() const noexcept;

  SteadyStateOptions options_;
  std::vector<double> window_;  // a ring
  uint64_t recorded_ = 0;
  size_t quiet_ = 0;
  bool steady_ = false;
};

}  // namespace gpulens
