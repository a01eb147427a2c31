#include "core/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpulens {
namespace {

// Relative error of counts added as doubles in another order; Prometheus's tolerance.
constexpr double kRounding = 1e-12;
// Limits of exponential histograms.
constexpr int kScaleMin = -10, kScaleMax = 20;
constexpr uint32_t kBucketsMax = 160;
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

// The k-th remaining observation goes to bucket k * stride mod size: spread in a fixed order.
uint32_t StrideOf(uint32_t size) noexcept {
  uint32_t stride = std::max(1u, size * 5 / 8);
  while (std::gcd(stride, size) != 1) ++stride;
  return stride;
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
  // Scrapes that were torn differently may differ by less at a higher bound.
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

std::optional<ExponentialForm> MakeExponentialForm(std::span<const double> bounds) {
  if (bounds.empty() || bounds.front() < 0 || bounds.back() <= 0) return std::nullopt;
  const size_t first = bounds.front() > 0 ? 0 : 1;
  ExponentialForm form;
  form.zero_threshold = bounds[first];
  for (form.scale = kScaleMax;; --form.scale) {
    // A bucket includes its upper edge, so a bound is in the bucket below it.
    form.offset = ExponentialIndex(bounds[first], form.scale) + 1;
    const int64_t above = int64_t{ExponentialIndex(bounds.back(), form.scale)} + 1;
    form.buckets = static_cast<uint32_t>(std::min<int64_t>(above - form.offset + 1, UINT32_MAX));
    if (form.buckets <= kBucketsMax || form.scale == kScaleMin) break;
  }
  form.ends.assign(first + 1, 0);
  for (double bound : bounds.subspan(first + 1))
    form.ends.push_back(static_cast<uint32_t>(ExponentialIndex(bound, form.scale) + 1 - form.offset));
  form.ends.push_back(form.buckets);
  return form;
}

uint64_t SpreadCounts(const ExponentialForm& form, std::span<const uint64_t> counts,
                      std::span<uint64_t> out) {
  std::fill(out.begin(), out.end(), 0);
  uint64_t zero = 0;
  uint32_t begin = 0;
  for (size_t i = 0; i < form.ends.size() && i < counts.size(); ++i) {
    const uint32_t size = form.ends[i] - begin;
    if (form.ends[i] == 0) {
      zero += counts[i];
    } else if (size == 0) {
      out[begin - 1] += counts[i];
    } else {
      const uint64_t each = counts[i] / size, left = counts[i] % size;
      const uint32_t stride = StrideOf(size);
      for (uint32_t k = 0; k < size; ++k) out[begin + (size / 2 + k * stride) % size] += each + (k < left);
    }
    begin = form.ends[i];
  }
  return zero;
}

// Doubles the rows and moves the oldest to the start.
void SlidingRows::Grow() {
  size_t rows = std::min(std::max<size_t>(2, 2 * from_ns_.size()), rows_max_);
  std::rotate(from_ns_.begin(), from_ns_.begin() + static_cast<ptrdiff_t>(first_), from_ns_.end());
  std::rotate(cells_.begin(), cells_.begin() + static_cast<ptrdiff_t>(first_ * width_), cells_.end());
  first_ = 0;
  from_ns_.reserve(rows);
  cells_.reserve(rows * width_);
  from_ns_.resize(rows);
  cells_.resize(rows * width_);
}

std::span<double> SlidingRows::Push(int64_t from_ns) {
  if (size_ == from_ns_.size() && size_ < rows_max_) Grow();
  if (size_ == from_ns_.size()) {
    first_ = (first_ + 1) % from_ns_.size();
    --size_;
  }
  from_ns_[IndexOf(size_)] = from_ns;
  ++size_;
  std::span<double> row = Last();
  std::fill(row.begin(), row.end(), 0.0);
  return row;
}

void SlidingRows::Expire(int64_t since_ns) noexcept {
  while (size_ > 1 && from_ns(0) < since_ns) {
    first_ = (first_ + 1) % from_ns_.size();
    --size_;
  }
}

void SlidingRows::Reset(size_t width) {
  first_ = size_ = 0;
  if (width == width_) return;
  width_ = width;
  cells_.resize(from_ns_.size() * width);
}

void SlidingRows::Sum(std::span<double> out) const noexcept {
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t i = 0; i < size_; ++i) {
    std::span<const double> row = (*this)[i];
    for (size_t k = 0; k < row.size(); ++k) out[k] += row[k];
  }
}

}  // namespace gpulens
