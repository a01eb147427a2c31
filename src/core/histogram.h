// Histogram maths on cumulative buckets: differences, sums, quantiles, exponential form. Pure functions.
// Sources are not trusted: falling counts are raised, unordered bounds and counts that are not finite are
// left out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Cumulative counts over finite bounds; `count` includes observations above the last bound.
struct Buckets {
  std::vector<double> bounds;  // finite, strictly ascending; may be empty
  std::vector<double> counts;  // observations <= bound; ascending
  double count = 0;            // all observations; at least counts.back()
  std::optional<double> sum;
  bool repaired = false;  // the source's counts fell from one bound to the next
};

// Copies the cells of a series as ReadBuckets takes them. `out` keeps its capacity.
void CopyNumbers(std::span<const Cell> cells, Number number, std::vector<double>& out);

// Reads the numbers of a series of the given shape. Without a count, the +Inf bucket is it; without both, the
// last bucket. A count below that of a lower bound is raised to it, as by Prometheus; `repaired` is set when
// it was off by more than rounding.
Buckets ReadBuckets(const Shape& shape, std::span<const double> numbers);
// The same; `out` keeps its capacity.
void ReadBuckets(const Shape& shape, std::span<const double> numbers, Buckets& out);

struct BucketsDelta {
  Buckets buckets;
  bool reset = false;  // the source restarted: `buckets` has all since then
};
// The observations between two readings of one series. A falling count or bucket, or other bounds, is a
// reset. Has a sum only if both have one.
BucketsDelta DeltaOf(const Buckets& before, const Buckets& after);

// The maths of DeltaOf on rows of cumulative counts, the count of all last. Spans have one length; nothing
// allocates.
bool AnyFell(std::span<const double> before, std::span<const double> after) noexcept;
// after - before, raised where it would fall below the previous bound's or 0. True when by more than
// rounding.
bool Growth(std::span<const double> before, std::span<const double> after, std::span<double> out) noexcept;

// The observations of both: exact for equal bounds, else with the bounds that both have; without any only
// count and sum.
Buckets Merge(const Buckets& a, const Buckets& b);

// The value below which the share `q` of the observations lies, as by histogram_quantile of Prometheus:
// linear within a bucket; 0 as the lower edge of a first bucket with a positive bound, else that bound; the
// greatest finite bound for what lies above it; -Inf for q < 0, +Inf for q > 1. Nothing without observations
// or finite bounds, for infinitely many, or when q is NaN. For q = 0 the lower edge of the first bucket that
// is not empty, where Prometheus may give NaN.
std::optional<double> Quantile(const Buckets& buckets, double q);
// The same of a row: the counts at the bounds, then the count of all.
std::optional<double> Quantile(std::span<const double> bounds, std::span<const double> row, double q);

// The bucket of an exponential histogram that holds a positive, finite value.
int32_t ExponentialIndex(double value, int scale) noexcept;
// The lower edge of a bucket; 0 or +Inf where a double cannot hold it.
double ExponentialLowerEdge(int32_t index, int scale) noexcept;

// How the buckets of explicit bounds map to those of an OpenTelemetry exponential histogram. The mapping
// depends on the bounds alone, so growing counts give growing buckets: receivers take a falling one for a
// restart. Count, sum and the number of observations between two bounds stay exact, except that an edge is
// off by less than one exponential bucket; observations between two bounds are spread evenly. Immutable;
// thread-safe.
struct ExponentialForm {
  int scale = 0;
  int32_t offset = 0;         // of the first bucket
  double zero_threshold = 0;  // values up to it count as zero
  uint32_t buckets = 0;
  // By explicit bucket, with the one above the last bound: the end of its exponential buckets, which begin at
  // the end of the previous ones. Without any (bounds too close) its counts go to the last bucket before it.
  std::vector<uint32_t> ends;
};

// At the finest scale at which 160 buckets suffice. `bounds` are finite and ascending. Nothing when one is
// negative or none is positive.
std::optional<ExponentialForm> MakeExponentialForm(std::span<const double> bounds);

// `counts`: by explicit bucket, one more than bounds. Fills `out` (form.buckets) and returns the zero count.
uint64_t SpreadCounts(const ExponentialForm& form, std::span<const uint64_t> counts, std::span<uint64_t> out);

// Rows of numbers, each counted from one moment to the next, over a sliding window: rows × width × 8 bytes in
// one buffer. Not thread-safe. Allocates only while it grows to the rows of its window, at most `rows_max`.
class SlidingRows {
 public:
  SlidingRows(size_t width, size_t rows_max) : width_(width), rows_max_(rows_max ? rows_max : 1) {}

  size_t width() const noexcept { return width_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // The begin of the i-th oldest row; it ends at the begin of the next.
  int64_t from_ns(size_t i) const noexcept { return from_ns_[IndexOf(i)]; }
  std::span<const double> operator[](size_t i) const noexcept {
    return {cells_.data() + IndexOf(i) * width_, width_};
  }

  // Adds a row of zeros, to be filled in; drops the oldest when full.
  std::span<double> Push(int64_t from_ns);
  // The newest row; there must be one.
  std::span<double> Last() noexcept { return {cells_.data() + IndexOf(size_ - 1) * width_, width_}; }
  // Drops rows that began before `since_ns`, except the newest.
  void Expire(int64_t since_ns) noexcept;
  // Drops all rows and sets the width.
  void Reset(size_t width);
  // Sums all rows into `out`, which has the width of one.
  void Sum(std::span<double> out) const noexcept;

  size_t memory_bytes() const noexcept {
    return cells_.capacity() * sizeof(double) + from_ns_.capacity() * sizeof(int64_t);
  }

 private:
  size_t IndexOf(size_t i) const noexcept { return (first_ + i) % from_ns_.size(); }
  void Grow();

  size_t width_;
  size_t rows_max_;
  std::vector<double> cells_;
  std::vector<int64_t> from_ns_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace gpulens
