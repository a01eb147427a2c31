// Exponential buckets of base 2 (OpenTelemetry metrics data model, "ExponentialHistogram"). Pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpulens::buckets {

// 256 buckets per doubling: a bucket is 0.27 % wide. Finer ones would hold noise.
inline constexpr int kFinest = 8;

// By the mantissa: the begins of buckets, and the bucket at the begin of each of 512 equal parts. A part is
// narrower than any bucket, so at most one bucket begins in it.
struct BucketTables {
  static constexpr int kMantissaBits = 52, kPartBits = 9;
  std::array<uint64_t, (1 << kFinest) + 1> begins{};
  std::array<uint8_t, 1 << kPartBits> first{};
};
extern const BucketTables kBucketTables;

// The bucket of a positive, finite, normal number at kFinest: the i with 2^(i/256) < value <= 2^((i+1)/256).
// Uses the bits of the next smaller number, since a power of two belongs to the bucket below it.
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

}  // namespace gpulens::buckets
