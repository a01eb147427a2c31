// Exponential buckets of OpenTelemetry (base-2): where a value lies, and the sum of several windows of them.
// Pure. Source: OpenTelemetry metrics data model, "ExponentialHistogram".
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpulens::instruments {

// 256 buckets for each doubling: a bucket is 0.27 % wide. Finer ones would tell noise.
inline constexpr int kFinest = 8;
// Of one series; where values need more, two neighbours become one.
inline constexpr uint32_t kWindow = 160;

// By the mantissa: where buckets begin, and the bucket in which each of 512 equal parts begins. A part is
// narrower than any bucket there, so it holds at most one beginning.
struct BucketTables {
  static constexpr int kMantissaBits = 52, kPartBits = 9;
  std::array<uint64_t, (1 << kFinest) + 1> begins{};
  std::array<uint8_t, 1 << kPartBits> first{};
};
extern const BucketTables kBucketTables;

// The bucket of a positive, finite, normal number at kFinest: the i for which 2^(i/256) < value <=
// 2^((i+1)/256). By the bits before its own, so that a power of two ends the bucket below it.
inline int32_t FinestIndex(double value) noexcept {
  constexpr int kMantissa = BucketTables::kMantissaBits;
  const uint64_t bits = std::bit_cast<uint64_t>(value) - 1;
  const uint64_t mantissa = bits & ((uint64_t{1} << kMantissa) - 1);
  const size_t first = kBucketTables.first[mantissa >> (kMantissa - BucketTables::kPartBits)];
  const auto doubling = static_cast<int32_t>(bits >> kMantissa) - 1023;
  return (doubling << kFinest) + static_cast<int32_t>(first) + (mantissa >= kBucketTables.begins[first + 1]);
}

// The same bucket at a coarser scale.
constexpr int32_t Coarser(int32_t index, int by) noexcept { return index >> by; }

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
