#include "store/sketch/quantile_sketch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/power_buckets.h"

namespace gpulens {
namespace {

constexpr double kGrowth = 1.0108892860517005;  // 2^(1/64)

// The value that is no further than kRelativeError from any in its bucket.
double MiddleOf(int32_t index) noexcept {
  return std::exp2(static_cast<double>(index) / 64) * (2 * kGrowth / (1 + kGrowth));
}

}  // namespace

// Keeps the buckets furthest from zero. Which those are follows from the largest of all values alone, so the
// order of adding and merging cannot matter.
void QuantileSketch::Side::Cover(int32_t from, int32_t to) {
  const int32_t end = counts.empty() ? to : std::max(to, high());
  const int32_t least = end - kMostBuckets + 1;
  const int32_t begin = std::max(least, counts.empty() ? from : std::min(from, low));
  if (counts.empty()) {
    low = begin;
  } else if (begin < low) {
    counts.insert(counts.begin(), static_cast<size_t>(low - begin), 0);
    low = begin;
  } else if (begin > low) {
    uint64_t folded = 0;
    const auto gone = std::min(static_cast<size_t>(begin - low), counts.size());
    for (size_t i = 0; i < gone; ++i) folded += counts[i];
    counts.erase(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(gone));
    low = begin;
    counts.resize(static_cast<size_t>(end - begin) + 1);
    counts.front() += folded;
  }
  counts.resize(static_cast<size_t>(end - begin) + 1);
}

void QuantileSketch::Side::Add(int32_t index, uint64_t n) {
  if (counts.empty() || index < low || index > high()) Cover(index, index);
  // Below `low`: what Cover made room for has become the lowest bucket.
  counts[static_cast<size_t>(std::max(index, low) - low)] += n;
  total += n;
}

double QuantileSketch::Side::At(uint64_t rank) const noexcept {
  uint64_t seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    seen += counts[i];
    if (seen > rank) return MiddleOf(low + static_cast<int32_t>(i));
  }
  return MiddleOf(high());
}

bool QuantileSketch::Add(double value) {
  if (!std::isfinite(value)) return false;
  const double magnitude = std::abs(value);
  // A subnormal is zero to anyone.
  if (magnitude < std::numeric_limits<double>::min()) return ++zeros_, true;
  const int32_t index = buckets::Coarser(buckets::FinestIndex(magnitude), buckets::kFinest - kScale);
  (value > 0 ? positive_ : negative_).Add(index, 1);
  return true;
}

void QuantileSketch::Merge(const QuantileSketch& other) {
  zeros_ += other.zeros_;
  const auto merge = [](Side& to, const Side& from) {
    if (from.counts.empty()) return;
    to.Cover(from.low, from.high());
    for (size_t i = 0; i < from.counts.size(); ++i)
      to.counts[static_cast<size_t>(std::max(from.low + static_cast<int32_t>(i), to.low) - to.low)] +=
          from.counts[i];
    to.total += from.total;
  };
  merge(positive_, other.positive_);
  merge(negative_, other.negative_);
}

double QuantileSketch::At(uint64_t rank) const noexcept {
  if (rank < negative_.total) return -negative_.At(negative_.total - 1 - rank);
  rank -= negative_.total;
  return rank < zeros_ ? 0 : positive_.At(rank - zeros_);
}

double QuantileSketch::Quantile(double fraction) const noexcept {
  const uint64_t n = count();
  if (n == 0 || !(fraction >= 0 && fraction <= 1)) return std::numeric_limits<double>::quiet_NaN();
  const double rank = static_cast<double>(n - 1) * fraction;
  const auto below = std::min(static_cast<uint64_t>(rank), n - 1);
  const double low = At(below), part = rank - static_cast<double>(below);
  if (part <= 0 || below + 1 >= n) return low;
  return std::lerp(low, At(below + 1), part);  // never falls as the fraction grows, and cannot overflow
}

}  // namespace gpulens
