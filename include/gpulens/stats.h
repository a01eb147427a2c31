// Pure functions on numbers: distributions, inter-token latencies, and detection of a steady state.
//
// NaN (kNotMeasured) values are ignored; the Distribution of no values has n = 0 and NaN elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

// Statistics of n values, in their unit.
struct Distribution {
  uint64_t n = 0;
  double sum = 0;
  double mean = kNotMeasured;
  double std = kNotMeasured;  // of a sample: divided by n - 1; NaN for one value
  double min = kNotMeasured, p50 = kNotMeasured, p90 = kNotMeasured, p95 = kNotMeasured, p99 = kNotMeasured,
         max = kNotMeasured;
};

// Percentile at `fraction`, 0 to 1, of ascending values, interpolated linearly between ranks (Hyndman and
// Fan, 1996, type 7; numpy's default). NaN for no values and for a fraction out of range.
double Percentile(std::span<const double> ascending, double fraction) noexcept;
// Describes values in any order. O(n log n); copies them.
Distribution Describe(std::span<const double> values);
// Seconds between consecutive arrivals. n = 0 for fewer than two. Backward steps in time are ignored.
Distribution InterTokenLatency(std::span<const TimePoint> arrivals);

struct SteadyStateOptions {
  size_t warmup = 5;       // values ignored at the beginning
  size_t window = 5;       // values of a window, at least 2
  size_t consecutive = 3;  // quiet windows in a row that make a steady state
  double cv_below = 0.05;  // a window is quiet if its standard deviation is below this share of its mean
};

// Detects when a measured rate no longer drifts. Constant memory. Not thread-safe.
class SteadyStateDetector {
 public:
  explicit SteadyStateDetector(const SteadyStateOptions& options = {});

  // Adds a value and returns whether the state is steady; once steady, it remains so. A window with a NaN or
  // without a positive mean is never quiet.
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
