// Histogram maths: what two scrapes of cumulative buckets say about the time between them.
//
//   Buckets now = ReadBuckets(*info.shape, numbers);
//   window.Add(now, read_at);
//   std::optional<double> p95 = window.Quantile(0.95);
//
// Pure functions on plain values. Sources are not trusted: falling buckets, missing +Inf and bounds out
// of order are put right or left out, never believed and never fatal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/frame.h"
#include "core/sliding_rows.h"

namespace gpulens {

// Cumulative counts over finite bounds; observations above the last bound are in `count` alone.
struct Buckets {
  std::vector<double> bounds;  // finite, strictly ascending; may be empty
  std::vector<double> counts;  // observations <= bound; never fall
  double count = 0;            // all observations; at least counts.back()
  std::optional<double> sum;
  bool repaired = false;  // the source's counts fell from one bound to the next
};

// The numbers of a series of the given shape, as ReadBuckets takes them. `out` keeps its capacity.
void CopyNumbers(std::span<const Cell> cells, Number number, std::vector<double>& out);

// `numbers` lie as `shape` says. Without a count, the +Inf bucket is it; without both, the last bucket.
// A count below that of a lower bound is raised to it, as Prometheus does; `repaired` tells when it
// was off by more than rounding. Bounds that do not ascend and counts that are not finite are left out.
Buckets ReadBuckets(const Shape& shape, std::span<const double> numbers);
// The same; `out` keeps its capacity.
void ReadBuckets(const Shape& shape, std::span<const double> numbers, Buckets& out);

struct BucketsDelta {
  Buckets buckets;
  bool reset = false;  // the source began anew, so `buckets` is all that it counted since
};
// What was observed between two readings of one series. The count or any bucket falling, or other
// bounds, is a reset. No sum unless both have one.
BucketsDelta DeltaOf(const Buckets& before, const Buckets& after);

// The maths of DeltaOf for those who keep cumulative counts in rows of their own, the count of all last.
// All three spans are equally long; none of this allocates.
bool AnyFell(std::span<const double> before, std::span<const double> after) noexcept;
// after - before, put right so that it falls neither from one bound to the next nor below 0. True when it
// had to be by more than rounding.
bool Growth(std::span<const double> before, std::span<const double> after, std::span<double> out) noexcept;

// Observations of both. Equal bounds: exact. Otherwise only the bounds that both have are kept, since
// what lies between others is not known; with none in common just count and sum are left.
Buckets Merge(const Buckets& a, const Buckets& b);

// The value below which the share `q` of the observations lies, as histogram_quantile of Prometheus
// gives it: linear within a bucket, 0 as the lower edge of a first bucket whose bound is positive (that
// bound itself when it is not), the greatest finite bound for what lies above it, -Inf for q < 0 and
// +Inf for q > 1. Nothing when there are no observations, infinitely many, no finite bounds, or q is NaN. For
// q = 0 Prometheus may give NaN; this gives the lower edge of the first bucket that is not empty.
std::optional<double> Quantile(const Buckets& buckets, double q);
// The same of a row: the counts at the bounds, then the count of all.
std::optional<double> Quantile(std::span<const double> bounds, std::span<const double> row, double q);

// Quantiles over the last scrapes of one series. Not thread-safe. Does not allocate while the bounds stay and
// the window is as full as it gets.
class WindowedQuantile {
 public:
  // Scrapes older than `window` do not count, but the last two always do; at most `scrapes` are kept.
  explicit WindowedQuantile(Duration window, size_t scrapes = 64);

  // A reading no later than the last one is ignored. Other bounds begin the window anew.
  void Add(const Buckets& reading, Instant at);
  // Over what was observed between the scrapes in the window; nothing before the second scrape or
  // without observations.
  std::optional<double> Quantile(double q) const;
  // All that was observed in the window; whether a reading had to be put right is not told.
  Buckets Observed() const;
  // The source began anew so often since construction.
  uint64_t resets() const noexcept { return resets_; }
  size_t memory_bytes() const noexcept;

 private:
  void AddStep(const Buckets& reading);

  Duration window_;
  SlidingRows rows_;              // counts, count of all, sum (NaN: none)
  std::vector<double> observed_;  // all rows together
  Buckets last_;
  Instant last_at_;
  bool any_ = false;
  uint64_t resets_ = 0;
};

// An exponential histogram of OpenTelemetry without a negative side. Bucket i of `counts` holds what
// lies in (base^(offset+i), base^(offset+i+1)] with base = 2^(2^-scale).
struct Exponential {
  static constexpr int kScaleMin = -10, kScaleMax = 20;
  static constexpr size_t kBucketsMax = 160;

  int scale = kScaleMax;
  int32_t offset = 0;
  std::vector<uint64_t> counts;
  uint64_t zero_count = 0;
  double zero_threshold = 0;  // zero_count is of what is not above it
  uint64_t count = 0;
  std::optional<double> sum;
};

// The bucket of an exponential histogram that holds a positive, finite value.
int32_t ExponentialIndex(double value, int scale) noexcept;
// The lower edge of a bucket; 0 or +Inf where a double cannot hold it.
double ExponentialLowerEdge(int32_t index, int scale) noexcept;

// Explicit buckets as an exponential histogram, at the finest scale at which they fit. Observations up
// to the first positive bound are the zero bucket, those above the last bound the bucket right above
// it; the others are spread evenly over their bucket.
//
// Error: `count` and `sum` are exact (count rounded to whole observations), and every observation lands
// in a bucket that overlaps the explicit one it was in. So a bound is off by less than the factor
// `base`, and a quantile by no more than that beside what the explicit buckets themselves hide.
// Nothing when a bound is negative or none is positive.
std::optional<Exponential> ToExponential(const Buckets& buckets);

// Halves the resolution `times` times, at most down to kScaleMin. Exact.
void Downscale(Exponential& histogram, int times);

}  // namespace gpulens
