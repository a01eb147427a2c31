#include "core/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gpulens {
namespace {

// Counts that were added up as doubles in another order differ by this much; Prometheus's tolerance.
constexpr double kRounding = 1e-12;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The greater of the two; `repaired` is set when `value` was truly less than `least`.
double NotBelow(double least, double value, bool& repaired) noexcept {
  if (value >= least) return value;
  if (value < least - kRounding * least) repaired = true;
  return least;
}

void Add(Buckets& into, const Buckets& from) noexcept {
  for (size_t i = 0; i < into.counts.size(); ++i) into.counts[i] += from.counts[i];
  into.count += from.count;
  if (into.sum && from.sum) *into.sum += *from.sum;
  else into.sum.reset();
  into.repaired = into.repaired || from.repaired;
}

// The observations not above `x`, spread evenly over their buckets.
double CountUpTo(const Buckets& buckets, double x) noexcept {
  auto above = std::upper_bound(buckets.bounds.begin(), buckets.bounds.end(), x);
  size_t i = static_cast<size_t>(above - buckets.bounds.begin());
  if (i == buckets.bounds.size()) return buckets.counts.back();
  if (i == 0) return 0;
  double low = buckets.bounds[i - 1];
  double share = (x - low) / (buckets.bounds[i] - low);
  return buckets.counts[i - 1] + (buckets.counts[i] - buckets.counts[i - 1]) * share;
}

// histogram_quantile of Prometheus; Quantile says what is what.
std::optional<double> QuantileOf(std::span<const double> bounds, std::span<const double> counts, double count,
                                 double q) {
  if (std::isnan(q) || bounds.empty()) return std::nullopt;
  if (!(count > 0) || std::isinf(count)) return std::nullopt;
  if (q < 0) return -kInfinity;
  if (q > 1) return kInfinity;
  double rank = q * count;
  size_t i = 0;
  while (i < counts.size() && (counts[i] < rank || counts[i] == 0)) ++i;
  if (i == counts.size()) return bounds.back();
  if (i == 0 && bounds[0] <= 0) return bounds[0];
  double low = i == 0 ? 0 : bounds[i - 1];
  double before = i == 0 ? 0 : counts[i - 1];
  // rank - before may be just below 0 when rank is: the first bucket that is not empty starts there.
  double share = std::max(0.0, rank - before) / (counts[i] - before);
  return std::lerp(low, bounds[i], share);
}

uint64_t Whole(double count) noexcept {
  constexpr double kMost = 9.2e18;
  return count < kMost ? static_cast<uint64_t>(std::llround(count)) : static_cast<uint64_t>(kMost);
}

}  // namespace

void CopyNumbers(std::span<const Cell> cells, Number number, std::vector<double>& out) {
  out.resize(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    out[i] = number == Number::kInt ? static_cast<double>(cells[i].i) : cells[i].d;
  }
}

Buckets ReadBuckets(const Shape& shape, std::span<const double> numbers) {
  Buckets out;
  ReadBuckets(shape, numbers, out);
  return out;
}

void ReadBuckets(const Shape& shape, std::span<const double> numbers, Buckets& out) {
  out.bounds.clear();
  out.counts.clear();
  out.count = 0;
  out.sum.reset();
  out.repaired = false;
  if (numbers.size() < shape.cells()) return;
  if (shape.has_sum) out.sum = numbers[shape.sum_cell()];
  double count = 0;
  for (size_t i = 0; i < shape.bounds.size(); ++i) {
    double bound = shape.bounds[i];
    bool ascends = out.bounds.empty() ? bound > -kInfinity : bound > out.bounds.back();
    if (!ascends || !std::isfinite(numbers[i])) continue;
    count = NotBelow(count, numbers[i], out.repaired);
    if (bound == kInfinity) break;
    out.bounds.push_back(bound);
    out.counts.push_back(count);
  }
  double all = shape.has_count ? numbers[shape.count_cell()] : count;
  out.count = NotBelow(count, std::isfinite(all) ? all : -1, out.repaired);
}

bool AnyFell(std::span<const double> before, std::span<const double> after) noexcept {
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] < before[i]) return true;
  }
  return false;
}

bool Growth(std::span<const double> before, std::span<const double> after, std::span<double> out) noexcept {
  // Two scrapes that were each torn differently may differ by less at a higher bound.
  bool repaired = false;
  double least = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    out[i] = least = NotBelow(least, after[i] - before[i], repaired);
  }
  return repaired;
}

BucketsDelta DeltaOf(const Buckets& before, const Buckets& after) {
  bool reset =
      before.bounds != after.bounds || after.count < before.count || AnyFell(before.counts, after.counts);
  BucketsDelta delta{after, reset};
  if (reset) return delta;
  Buckets& out = delta.buckets;
  if (Growth(before.counts, after.counts, out.counts)) out.repaired = true;
  double least = out.counts.empty() ? 0 : out.counts.back();
  out.count = NotBelow(least, after.count - before.count, out.repaired);
  if (before.sum && after.sum) out.sum = *after.sum - *before.sum;
  else out.sum.reset();
  return delta;
}

Buckets Merge(const Buckets& a, const Buckets& b) {
  if (a.bounds == b.bounds) {
    Buckets out = a;
    Add(out, b);
    return out;
  }
  auto on_common = [](const Buckets& of, const Buckets& other) {
    Buckets out;
    out.count = of.count;
    out.sum = of.sum;
    out.repaired = of.repaired;
    for (size_t i = 0; i < of.bounds.size(); ++i) {
      if (!std::binary_search(other.bounds.begin(), other.bounds.end(), of.bounds[i])) continue;
      out.bounds.push_back(of.bounds[i]);
      out.counts.push_back(of.counts[i]);
    }
    return out;
  };
  Buckets out = on_common(a, b);
  Add(out, on_common(b, a));
  return out;
}

std::optional<double> Quantile(const Buckets& buckets, double q) {
  return QuantileOf(buckets.bounds, buckets.counts, buckets.count, q);
}

std::optional<double> Quantile(std::span<const double> bounds, std::span<const double> row, double q) {
  if (row.size() <= bounds.size()) return std::nullopt;
  return QuantileOf(bounds, row.first(bounds.size()), row[bounds.size()], q);
}

WindowedQuantile::WindowedQuantile(Duration window, size_t scrapes)
    : window_(window), rows_(2, scrapes > 2 ? scrapes - 1 : 1) {}

void WindowedQuantile::Add(const Buckets& reading, Instant at) {
  bool first = !std::exchange(any_, true);
  if (!first && at.boot_ns <= last_at_.boot_ns) return;
  if (first || reading.bounds != last_.bounds) {
    rows_.Reset(reading.bounds.size() + 2);
    observed_.assign(rows_.width(), 0);
    if (!first) ++resets_;
  } else {
    AddStep(reading);
  }
  rows_.Expire(at.boot_ns - window_.count());
  rows_.Sum(observed_);
  last_ = reading;
  last_at_ = at;
}

void WindowedQuantile::AddStep(const Buckets& reading) {
  std::span<double> row = rows_.Push(last_at_.boot_ns);
  size_t bounds = reading.bounds.size();
  double nan = std::numeric_limits<double>::quiet_NaN();
  double sum = reading.sum.value_or(nan);
  bool repaired = false;
  if (reading.count < last_.count || AnyFell(last_.counts, reading.counts)) {
    ++resets_;
    std::copy(reading.counts.begin(), reading.counts.end(), row.begin());
    row[bounds] = reading.count;
  } else {
    Growth(last_.counts, reading.counts, row.first(bounds));
    row[bounds] = NotBelow(bounds ? row[bounds - 1] : 0, reading.count - last_.count, repaired);
    sum -= last_.sum.value_or(nan);
  }
  row[bounds + 1] = sum;
}

Buckets WindowedQuantile::Observed() const {
  if (rows_.empty()) return {};
  Buckets all;
  all.bounds = last_.bounds;
  all.counts.assign(observed_.begin(), observed_.end() - 2);
  all.count = observed_[all.bounds.size()];
  if (!std::isnan(observed_.back())) all.sum = observed_.back();
  return all;
}

std::optional<double> WindowedQuantile::Quantile(double q) const {
  if (rows_.empty()) return std::nullopt;
  return gpulens::Quantile(last_.bounds, observed_, q);
}

size_t WindowedQuantile::memory_bytes() const noexcept {
  size_t doubles = observed_.capacity() + last_.bounds.capacity() + last_.counts.capacity();
  return rows_.memory_bytes() + doubles * sizeof(double);
}

int32_t ExponentialIndex(double value, int scale) noexcept {
  int exponent = 0;
  // value = fraction * 2^exponent with fraction in [0.5, 1), so log2 is exact for powers of two.
  double fraction = std::frexp(value, &exponent);
  if (fraction == 0.5) {
    // 2^(exponent-1) is an upper edge and belongs to the bucket below it.
    int power = exponent - 1;
    return scale >= 0 ? power * (1 << scale) - 1 : (power - 1) >> -scale;
  }
  if (scale <= 0) return (exponent - 1) >> -scale;
  auto index = static_cast<int32_t>(std::ceil(std::ldexp(exponent + std::log2(fraction), scale))) - 1;
  // The logarithm may round over an edge.
  if (value <= ExponentialLowerEdge(index, scale)) return index - 1;
  return value > ExponentialLowerEdge(index + 1, scale) ? index + 1 : index;
}

double ExponentialLowerEdge(int32_t index, int scale) noexcept {
  if (scale <= 0) {
    int64_t power = static_cast<int64_t>(index) * (int64_t{1} << -scale);
    return std::ldexp(1.0, static_cast<int>(std::clamp<int64_t>(power, -4096, 4096)));
  }
  int32_t whole = index >> scale;
  double part = std::ldexp(index - whole * (1 << scale), -scale);
  return std::ldexp(std::exp2(part), whole);
}

std::optional<Exponential> ToExponential(const Buckets& buckets) {
  if (buckets.bounds.empty() || buckets.bounds.front() < 0 || buckets.bounds.back() <= 0) return std::nullopt;
  const size_t first = buckets.bounds.front() > 0 ? 0 : 1;
  // Buckets hold what is above a bound, so the first is that of the least number above it.
  const double low = std::nextafter(buckets.bounds[first], kInfinity);
  const double high = std::nextafter(buckets.bounds.back(), kInfinity);
  const double top = std::min(high, std::numeric_limits<double>::max());
  Exponential out;
  size_t size = 0;
  for (out.scale = Exponential::kScaleMax;; --out.scale) {
    out.offset = ExponentialIndex(low, out.scale);
    size = static_cast<size_t>(int64_t{ExponentialIndex(top, out.scale)} - out.offset + 1);
    if (size <= Exponential::kBucketsMax || out.scale == Exponential::kScaleMin) break;
  }
  out.zero_threshold = ExponentialLowerEdge(out.offset, out.scale);
  out.zero_count = Whole(buckets.counts[first]);
  out.count = Whole(buckets.count);
  out.sum = buckets.sum;
  out.counts.resize(size);
  uint64_t before = out.zero_count;
  for (size_t i = 0; i < size; ++i) {
    double edge = ExponentialLowerEdge(out.offset + static_cast<int32_t>(i) + 1, out.scale);
    uint64_t upto = i + 1 == size ? out.count : Whole(CountUpTo(buckets, edge));
    upto = std::max(before, upto);
    out.counts[i] = upto - before;
    before = upto;
  }
  return out;
}

void Downscale(Exponential& histogram, int times) {
  times = std::clamp(times, 0, histogram.scale - Exponential::kScaleMin);
  if (times == 0) return;
  int32_t offset = histogram.offset >> times;
  size_t size = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    auto at = static_cast<size_t>(((histogram.offset + static_cast<int32_t>(i)) >> times) - offset);
    uint64_t count = std::exchange(histogram.counts[i], 0);
    histogram.counts[at] += count;
    size = at + 1;
  }
  histogram.counts.resize(size);
  histogram.offset = offset;
  histogram.scale -= times;
}

}  // namespace gpulens
