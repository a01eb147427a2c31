#include "wire/otlp/exponential_bounds.h"

#include <gmock/gmock.h>
#include <gpulens/instruments.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ClassicBuckets Of(int scale, int32_t offset, const std::vector<uint64_t>& counts, uint64_t zeros = 0) {
  ClassicBuckets out;
  ToClassicBuckets(scale, offset, counts, zeros, out);
  return out;
}

TEST(ExponentialBounds, NeighboursBecomeOne) {
  // Scale 2 has four buckets for each doubling: (1, 2^(1/4)], (2^(1/4), 2^(1/2)], …
  const ClassicBuckets buckets = Of(2, 0, {1, 2, 3, 4, 5}, 10);
  EXPECT_THAT(buckets.bounds, ElementsAre(0x1.6a09e667f3bccp0, 2, 0x1.6a09e667f3bccp1));
  EXPECT_THAT(buckets.counts, ElementsAre(13, 20, 25));
  EXPECT_EQ(buckets.count, 25u);
  EXPECT_THAT(Of(2, -2, {1, 1}).bounds, ElementsAre(1));
}

TEST(ExponentialBounds, CoarseOnesKeepTheirBounds) {
  EXPECT_THAT(Of(0, -1, {1, 1}).bounds, ElementsAre(1, 2));
  EXPECT_THAT(Of(-1, 0, {1, 1}).bounds, ElementsAre(4, 16));
  EXPECT_THAT(Of(-10, -1, {3, 4}).bounds, ElementsAre(1)) << "2^1024 is no double";
  EXPECT_EQ(Of(-10, -1, {3, 4}).count, 7u);
  EXPECT_THAT(Of(-10, INT32_MAX, {1}).bounds, IsEmpty());
  EXPECT_THAT(Of(1, INT32_MIN, {1}).bounds, IsEmpty()) << "nor is anything as small";
  EXPECT_EQ(Of(1, INT32_MIN, {1}).count, 1u);
}

TEST(ExponentialBounds, WithoutBucketsThereAreNoBounds) {
  EXPECT_THAT(Of(8, 0, {}).bounds, IsEmpty());
  EXPECT_EQ(Of(8, 0, {}, 4).count, 4u);
}

// Compares with counts of the recorded values: each count is that of the values up to the bound.
TEST(ExponentialBounds, CountsAreThoseOfTheValues) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    Registry registry;
    const Histogram histogram("h", {}, registry);
    std::vector<double> values;
    std::uniform_real_distribution<double> exponent(-10.0 - 10 * round, 3.0 + 5 * round);
    for (int i = 0; i < 500; ++i) {
      double value = std::exp2(exponent(random));
      // On the bounds themselves, and next to them.
      if (i % 5 == 0) value = std::exp2(std::floor(std::log2(value)));
      if (i % 10 == 0) value *= 0x1.6a09e667f3bccp0;
      if (i % 20 == 0) value = std::nextafter(value, std::numeric_limits<double>::infinity());
      if (i % 97 == 0) value = 0;
      histogram.Record(value);
      values.push_back(value);
    }
    const Sample sample = registry.Snapshot().front();
    const ClassicBuckets buckets = Of(sample.scale, sample.offset, sample.counts, sample.zeros);
    ASSERT_EQ(buckets.count, values.size());
    ASSERT_FALSE(buckets.bounds.empty());
    EXPECT_EQ(buckets.counts.back(), buckets.count);
    for (size_t i = 0; i < buckets.bounds.size(); ++i) {
      const auto below = std::count_if(values.begin(), values.end(),
                                       [&](double value) { return value <= buckets.bounds[i]; });
      EXPECT_EQ(buckets.counts[i], static_cast<uint64_t>(below))
          << buckets.bounds[i] << " at scale " << sample.scale;
      if (i > 0) {
        EXPECT_GT(buckets.bounds[i], buckets.bounds[i - 1]);
      }
    }
  }
}

}  // namespace
}  // namespace gpulens
