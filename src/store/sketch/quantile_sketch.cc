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

constexpr char kVersion = 1;
// Bucket indexes of all positive normal doubles at this scale.
constexpr int64_t kLeastIndex = -1022 * 64 - 1, kMostIndex = 1024 * 64 - 1;
// Maximum count of one sketch; far below where sums of sketches wrap.
constexpr uint64_t kMostCount = uint64_t{1} << 56;

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

bool TakeVarint(std::string_view& rest, uint64_t& value) noexcept {
  value = 0;
  for (int shift = 0; shift < 63 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
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
  // Below `low`: counted in the lowest bucket of the range that Cover chose.
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

void QuantileSketch::AppendSide(std::string& out, const Side& side) {
  uint64_t filled = 0;
  for (uint64_t n : side.counts) filled += n != 0 ? 1 : 0;
  AppendVarint(out, filled);
  int64_t before = 0;
  bool first = true;
  for (size_t i = 0; i < side.counts.size(); ++i) {
    if (side.counts[i] == 0) continue;
    const int64_t index = side.low + static_cast<int64_t>(i);
    if (first) AppendVarint(out, static_cast<uint64_t>(index) << 1 ^ static_cast<uint64_t>(index >> 63));
    else AppendVarint(out, static_cast<uint64_t>(index - before));
    AppendVarint(out, side.counts[i]);
    before = index;
    first = false;
  }
}

void QuantileSketch::AppendBytes(std::string& out) const {
  out += kVersion;
  AppendVarint(out, zeros_);
  AppendSide(out, positive_);
  AppendSide(out, negative_);
}

template <class Take>
bool QuantileSketch::ReadSide(std::string_view& rest, Take take) {
  uint64_t filled = 0;
  if (!TakeVarint(rest, filled) || filled > static_cast<uint64_t>(kMostBuckets)) return false;
  int64_t index = 0, first = 0;
  for (uint64_t i = 0; i < filled; ++i) {
    uint64_t step = 0, n = 0;
    if (!TakeVarint(rest, step) || !TakeVarint(rest, n) || n == 0 || n > kMostCount) return false;
    if (i == 0) {
      index = first = static_cast<int64_t>(step >> 1) ^ -static_cast<int64_t>(step & 1);
    } else {
      if (step == 0 || step >= static_cast<uint64_t>(kMostBuckets)) return false;
      index += static_cast<int64_t>(step);
    }
    if (index < kLeastIndex || index > kMostIndex || index - first >= kMostBuckets) return false;
    take(static_cast<int32_t>(index), n);
  }
  return true;
}

template <class Take>
bool QuantileSketch::Read(std::string_view bytes, Take take) {
  if (bytes.empty() || bytes.front() != kVersion) return false;
  bytes.remove_prefix(1);
  uint64_t zeros = 0;
  if (!TakeVarint(bytes, zeros) || zeros > kMostCount) return false;
  take(0, 0, zeros);
  return ReadSide(bytes, [&](int32_t index, uint64_t n) { take(1, index, n); }) &&
         ReadSide(bytes, [&](int32_t index, uint64_t n) { take(-1, index, n); }) && bytes.empty();
}

Status QuantileSketch::MergeBytes(std::string_view bytes) {
  // Read twice, so that bad ones leave nothing behind; the ends of both sides are known after the first time.
  struct Ends {
    int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();
  } ends[2];
  uint64_t total = 0;
  const bool good = Read(bytes, [&](int sign, int32_t index, uint64_t n) {
    // At most 4,097 counts of at most 2^56: this cannot wrap.
    total += n >> 13;
    if (sign == 0) return;
    Ends& side = ends[sign > 0 ? 0 : 1];
    side.low = std::min(side.low, index);
    side.high = std::max(side.high, index);
  });
  if (!good || total > kMostCount >> 13 || (count() >> 13) + total > kMostCount >> 13)
    return {Code::kDataLoss, "not a sketch, or one of a newer version"};
  if (ends[0].low <= ends[0].high) positive_.Cover(ends[0].low, ends[0].high);
  if (ends[1].low <= ends[1].high) negative_.Cover(ends[1].low, ends[1].high);
  static_cast<void>(Read(bytes, [&](int sign, int32_t index, uint64_t n) {
    if (sign == 0) zeros_ += n;
    else (sign > 0 ? positive_ : negative_).Add(index, n);
  }));
  return Ok();
}

}  // namespace gpulens
