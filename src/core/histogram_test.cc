#include "core/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Shape ShapeOf(std::vector<double> bounds, bool has_sum = true, bool has_count = true) {
  Shape shape;
  shape.bounds = std::move(bounds);
  shape.has_sum = has_sum;
  shape.has_count = has_count;
  return shape;
}

Buckets Make(std::vector<double> bounds, std::vector<double> counts, double count,
             std::optional<double> sum = std::nullopt) {
  return {std::move(bounds), std::move(counts), count, sum, false};
}

// The reference: buckets by counting samples one by one.
Buckets Count(const std::vector<double>& bounds, const std::vector<double>& samples) {
  Buckets out;
  out.bounds = bounds;
  for (double bound : bounds) {
    out.counts.push_back(
        static_cast<double>(std::ranges::count_if(samples, [&](double sample) { return sample <= bound; })));
  }
  out.count = static_cast<double>(samples.size());
  out.sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return out;
}

Instant At(int seconds) { return {int64_t{1'000'000'000} * (seconds + 1), 0}; }

TEST(CopyNumbers, ReadsTheRightMember) {
  std::vector<Cell> cells(2);
  std::vector<double> out = {9, 9, 9};
  cells[0].d = 1.5;
  cells[1].d = 2.5;
  CopyNumbers(cells, Number::kDouble, out);
  EXPECT_THAT(out, ElementsAre(1.5, 2.5));
  cells[0].i = 7;
  cells[1].i = -1;
  CopyNumbers(cells, Number::kInt, out);
  EXPECT_THAT(out, ElementsAre(7, -1));
}

TEST(ReadBuckets, SplitsCellsByShape) {
  Buckets buckets = ReadBuckets(ShapeOf({1, 2, kInf}), std::vector<double>{3, 5, 9, 20.5, 9});
  EXPECT_THAT(buckets.bounds, ElementsAre(1, 2));
  EXPECT_THAT(buckets.counts, ElementsAre(3, 5));
  EXPECT_EQ(buckets.count, 9);
  EXPECT_EQ(buckets.sum, 20.5);
  EXPECT_FALSE(buckets.repaired);
}

TEST(ReadBuckets, WithoutInfinityTheCountIsAll) {
  EXPECT_EQ(ReadBuckets(ShapeOf({1, 2}), std::vector<double>{3, 5, 20, 9}).count, 9);
}

TEST(ReadBuckets, WithoutCountInfinityIsAll) {
  Buckets buckets = ReadBuckets(ShapeOf({1, kInf}, false, false), std::vector<double>{3, 5});
  EXPECT_EQ(buckets.count, 5);
  EXPECT_FALSE(buckets.sum.has_value());
  EXPECT_FALSE(buckets.repaired);
}

TEST(ReadBuckets, WithoutBothTheLastBucketIsAll) {
  EXPECT_EQ(ReadBuckets(ShapeOf({1, 2}, false, false), std::vector<double>{3, 5}).count, 5);
}

TEST(ReadBuckets, FallingCountsAreRaised) {
  Buckets buckets = ReadBuckets(ShapeOf({1, 2, 3, kInf}), std::vector<double>{3, 2, 5, 4, 0, 1});
  EXPECT_THAT(buckets.counts, ElementsAre(3, 3, 5));
  EXPECT_EQ(buckets.count, 5);
  EXPECT_TRUE(buckets.repaired);
}

TEST(ReadBuckets, RoundingIsNoRepair) {
  Buckets buckets = ReadBuckets(ShapeOf({1, 2}, false, false), std::vector<double>{1e6, 1e6 - 1e-7});
  EXPECT_FALSE(buckets.repaired);
  EXPECT_THAT(buckets.counts, ElementsAre(1e6, 1e6));
}

TEST(ReadBuckets, NegativeAndNotANumberAreNotCounted) {
  Buckets buckets = ReadBuckets(ShapeOf({1, 2, 3}), std::vector<double>{-4, kNan, 6, 1, kNan});
  EXPECT_THAT(buckets.bounds, ElementsAre(1, 3));
  EXPECT_THAT(buckets.counts, ElementsAre(0, 6));
  EXPECT_EQ(buckets.count, 6);
  EXPECT_TRUE(buckets.repaired);
}

TEST(ReadBuckets, BoundsThatDoNotAscendAreLeftOut) {
  Buckets buckets =
      ReadBuckets(ShapeOf({-kInf, 1, 1, 0.5, kNan, 2}, false, false), std::vector<double>{0, 1, 2, 3, 4, 5});
  EXPECT_THAT(buckets.bounds, ElementsAre(1, 2));
  EXPECT_THAT(buckets.counts, ElementsAre(1, 5));
}

TEST(ReadBuckets, TooFewNumbersGiveNothing) {
  Buckets buckets = ReadBuckets(ShapeOf({1, 2}), std::vector<double>{3, 5});
  EXPECT_THAT(buckets.bounds, IsEmpty());
  EXPECT_EQ(buckets.count, 0);
}

TEST(DeltaOf, Subtracts) {
  BucketsDelta delta = DeltaOf(Make({1, 2}, {3, 5}, 9, 20), Make({1, 2}, {4, 8}, 14, 31));
  EXPECT_FALSE(delta.reset);
  EXPECT_THAT(delta.buckets.counts, ElementsAre(1, 3));
  EXPECT_EQ(delta.buckets.count, 5);
  EXPECT_EQ(delta.buckets.sum, 11);
}

TEST(DeltaOf, AFallingCountOrBucketIsAReset) {
  Buckets before = Make({1, 2}, {3, 5}, 9, 20);
  for (const Buckets& after : {Make({1, 2}, {3, 5}, 8, 1), Make({1, 2}, {2, 9}, 12, 1),
                               Make({1, 2}, {3, 4}, 12, 1), Make({1, 3}, {9, 9}, 12, 1)}) {
    BucketsDelta delta = DeltaOf(before, after);
    EXPECT_TRUE(delta.reset);
    EXPECT_EQ(delta.buckets.counts, after.counts);
    EXPECT_EQ(delta.buckets.count, after.count);
    EXPECT_EQ(delta.buckets.sum, 1);
  }
}

TEST(DeltaOf, TornScrapesDoNotMakeCountsFall) {
  BucketsDelta delta = DeltaOf(Make({1, 2}, {3, 5}, 9), Make({1, 2}, {7, 6}, 10));
  EXPECT_FALSE(delta.reset);
  EXPECT_THAT(delta.buckets.counts, ElementsAre(4, 4));
  EXPECT_EQ(delta.buckets.count, 4);
  EXPECT_TRUE(delta.buckets.repaired);
}

TEST(DeltaOf, NoSumUnlessBothHaveOne) {
  EXPECT_FALSE(DeltaOf(Make({1}, {3}, 9), Make({1}, {3}, 9, 5)).buckets.sum.has_value());
  EXPECT_FALSE(DeltaOf(Make({1}, {3}, 9, 5), Make({1}, {3}, 9)).buckets.sum.has_value());
}

TEST(Merge, EqualBoundsAreExact) {
  Buckets both = Merge(Make({1, 2}, {1, 2}, 3, 4), Make({1, 2}, {10, 20}, 30, 40));
  EXPECT_THAT(both.bounds, ElementsAre(1, 2));
  EXPECT_THAT(both.counts, ElementsAre(11, 22));
  EXPECT_EQ(both.count, 33);
  EXPECT_EQ(both.sum, 44);
}

TEST(Merge, OtherBoundsKeepWhatBothHave) {
  Buckets both = Merge(Make({1, 2, 5}, {1, 2, 3}, 4, 4), Make({0.5, 2, 3, 5}, {10, 20, 30, 40}, 50));
  EXPECT_THAT(both.bounds, ElementsAre(2, 5));
  EXPECT_THAT(both.counts, ElementsAre(22, 43));
  EXPECT_EQ(both.count, 54);
  EXPECT_FALSE(both.sum.has_value());
}

TEST(Merge, NoCommonBoundLeavesTheCount) {
  Buckets both = Merge(Make({1}, {1}, 4, 1), Make({2}, {1}, 5, 2));
  EXPECT_THAT(both.bounds, IsEmpty());
  EXPECT_EQ(both.count, 9);
  EXPECT_EQ(both.sum, 3);
}

TEST(Quantile, InterpolatesWithinTheBucket) {
  Buckets buckets = Make({1, 2, 4}, {10, 30, 40}, 40);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.125), 0.5);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.25), 1);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.875), 3);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 1), 4);
}

TEST(Quantile, EdgesAreThoseOfPrometheus) {
  EXPECT_EQ(Quantile(Make({1, 2}, {1, 2}, 10), 0.9), 2) << "above the last bound";
  EXPECT_EQ(Quantile(Make({1, 2}, {0, 0}, 10), 0), 2);
  EXPECT_EQ(Quantile(Make({0, 2}, {5, 10}, 10), 0.25), 0) << "first bound is not positive";
  EXPECT_EQ(Quantile(Make({-3, 2}, {5, 10}, 10), 0.25), -3);
  EXPECT_EQ(Quantile(Make({1}, {1}, 1), -0.1), -kInf);
  EXPECT_EQ(Quantile(Make({1}, {1}, 1), 1.1), kInf);
}

TEST(Quantile, NothingIsNotANumber) {
  EXPECT_EQ(Quantile(Make({1}, {0}, 0), 0.5), std::nullopt);
  EXPECT_EQ(Quantile(Make({}, {}, 9), 0.5), std::nullopt);
  EXPECT_EQ(Quantile(Make({1}, {1}, 1), kNan), std::nullopt);
  EXPECT_EQ(Quantile(Buckets{}, 2), std::nullopt);
}

TEST(Quantile, HugeBoundsAndCounts) {
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(Quantile(Make({-kMost, kMost}, {0, 2}, 2), 0.5), 0);
  EXPECT_EQ(Quantile(Make({1}, {kInf}, kInf), 0.5), std::nullopt);
}

TEST(Quantile, EmptyBucketsAtTheStartAreSkipped) {
  Buckets buckets = Make({1, 2, 4, 8}, {0, 0, 4, 4}, 4);
  EXPECT_EQ(Quantile(buckets, 0), 2);
  EXPECT_EQ(Quantile(buckets, 0.5), 3);
  EXPECT_EQ(Quantile(buckets, 1), 4);
}

TEST(WindowedQuantile, NeedsTwoScrapes) {
  WindowedQuantile window(std::chrono::seconds(60));
  EXPECT_EQ(window.Quantile(0.5), std::nullopt);
  window.Add(Make({1, 2}, {100, 100}, 100), At(0));
  EXPECT_EQ(window.Quantile(0.5), std::nullopt);
  window.Add(Make({1, 2}, {100, 110}, 110), At(10));
  EXPECT_DOUBLE_EQ(*window.Quantile(0.5), 1.5);
}

TEST(WindowedQuantile, NoObservationsNoQuantile) {
  WindowedQuantile window(std::chrono::seconds(60));
  window.Add(Make({1}, {5}, 5), At(0));
  window.Add(Make({1}, {5}, 5), At(10));
  EXPECT_EQ(window.Quantile(0.5), std::nullopt);
}

TEST(WindowedQuantile, OldScrapesLeave) {
  WindowedQuantile window(std::chrono::seconds(20));
  window.Add(Make({1, 2}, {0, 0}, 0), At(0));
  window.Add(Make({1, 2}, {10, 10}, 10), At(10));
  window.Add(Make({1, 2}, {10, 20}, 20), At(20));
  EXPECT_EQ(window.Observed().count, 20);
  window.Add(Make({1, 2}, {10, 30}, 30), At(30));
  EXPECT_EQ(window.Observed().count, 20) << "the step from 0 to 10 s is older than the window";
  EXPECT_THAT(window.Observed().counts, ElementsAre(0, 20));
}

TEST(WindowedQuantile, TheLastTwoScrapesAlwaysCount) {
  WindowedQuantile window(std::chrono::seconds(5));
  window.Add(Make({1}, {0}, 0), At(0));
  window.Add(Make({1}, {3}, 3), At(100));
  EXPECT_EQ(window.Observed().count, 3);
  window.Add(Make({1}, {4}, 4), At(200));
  EXPECT_EQ(window.Observed().count, 1);
}

TEST(WindowedQuantile, KeepsABoundedNumberOfScrapes) {
  WindowedQuantile window(std::chrono::hours(1), 3);
  for (int i = 0; i < 10; ++i) window.Add(Make({1}, {1.0 * i}, 1.0 * i), At(i));
  EXPECT_EQ(window.Observed().count, 2);
  WindowedQuantile least(std::chrono::hours(1), 0);
  for (int i = 0; i < 10; ++i) least.Add(Make({1}, {1.0 * i}, 1.0 * i), At(i));
  EXPECT_EQ(least.Observed().count, 1);
}

TEST(WindowedQuantile, AResetCountsWhatCameAfterIt) {
  WindowedQuantile window(std::chrono::seconds(60));
  window.Add(Make({1, 2}, {50, 50}, 50, 9), At(0));
  window.Add(Make({1, 2}, {1, 4}, 4, 5), At(10));
  EXPECT_EQ(window.resets(), 1u);
  EXPECT_EQ(window.Observed().count, 4);
  window.Add(Make({1, 2}, {1, 5}, 6, 8), At(20));
  EXPECT_EQ(window.Observed().count, 6);
  EXPECT_EQ(window.Observed().sum, 8);
}

TEST(WindowedQuantile, OtherBoundsBeginAnew) {
  WindowedQuantile window(std::chrono::seconds(60));
  window.Add(Make({1, 2}, {0, 0}, 0), At(0));
  window.Add(Make({1, 2}, {5, 5}, 5), At(10));
  window.Add(Make({1, 3}, {9, 9}, 9), At(20));
  EXPECT_EQ(window.Quantile(0.5), std::nullopt);
  EXPECT_EQ(window.resets(), 1u);
  window.Add(Make({1, 3}, {9, 11}, 11), At(30));
  EXPECT_EQ(window.Observed().count, 2);
}

TEST(WindowedQuantile, ReadingsOutOfOrderAreIgnored) {
  WindowedQuantile window(std::chrono::seconds(60));
  window.Add(Make({1}, {1}, 1), At(10));
  window.Add(Make({1}, {9}, 9), At(10));
  window.Add(Make({1}, {9}, 9), At(5));
  EXPECT_EQ(window.Observed().count, 0);
  window.Add(Make({1}, {3}, 3), At(11));
  EXPECT_EQ(window.Observed().count, 2);
}

TEST(WindowedQuantile, DoesNotAllocateOnceItIsFull) {
  WindowedQuantile window(std::chrono::seconds(60));
  Buckets reading = Make({1, 2, 4}, {0, 0, 0}, 0, 0);
  auto run = [&](int from, int to) {
    double last = 0;
    for (int i = from; i < to; ++i) {
      reading.counts[1] += 2;
      reading.counts[2] = reading.count += 2;
      window.Add(reading, At(i));
      last = window.Quantile(0.5).value_or(0);
    }
    return last;
  };
  run(0, 200);
  uint64_t before = ThreadAllocations();
  EXPECT_EQ(run(200, 300), 1.5);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(window.memory_bytes(), 63 * 6 * sizeof(double) + 11 * sizeof(double))
      << "a time and five numbers";
}

TEST(Growth, PutsRightWhatFellFromOneBoundToTheNext) {
  std::vector<double> before = {3, 5, 9}, after = {7, 6, 10}, out(3);
  EXPECT_FALSE(AnyFell(before, after));
  EXPECT_TRUE(AnyFell(after, before));
  EXPECT_TRUE(Growth(before, after, out));
  EXPECT_THAT(out, ElementsAre(4, 4, 4));
  EXPECT_FALSE(Growth(before, before, out));
  EXPECT_THAT(out, ElementsAre(0, 0, 0));
}

TEST(Quantile, OfARow) {
  std::vector<double> bounds = {1, 2, 4}, row = {10, 30, 40, 40};
  EXPECT_DOUBLE_EQ(*Quantile(bounds, row, 0.5), 1.5);
  row.push_back(77);
  EXPECT_DOUBLE_EQ(*Quantile(bounds, row, 0.5), 1.5) << "what comes after the count does not matter";
  EXPECT_EQ(Quantile(bounds, std::vector<double>{1, 2, 3}, 0.5), std::nullopt) << "no count";
}

TEST(ExponentialIndex, UpperEdgesBelongToTheBucket) {
  EXPECT_EQ(ExponentialIndex(1, 0), -1);
  EXPECT_EQ(ExponentialIndex(1.5, 0), 0);
  EXPECT_EQ(ExponentialIndex(2, 0), 0);
  EXPECT_EQ(ExponentialIndex(2.1, 0), 1);
  EXPECT_EQ(ExponentialIndex(4, 1), 3);
  EXPECT_EQ(ExponentialIndex(4, -1), 0);
  EXPECT_EQ(ExponentialIndex(4.1, -1), 1);
  EXPECT_EQ(ExponentialIndex(0.25, -1), -2);
  EXPECT_EQ(ExponentialIndex(std::sqrt(2.0), 1), 0);
  EXPECT_EQ(ExponentialIndex(std::numeric_limits<double>::max(), -10), 0);
  EXPECT_EQ(ExponentialIndex(std::numeric_limits<double>::denorm_min(), -10), -2);
}

TEST(ExponentialLowerEdge, CoversEveryScale) {
  EXPECT_EQ(ExponentialLowerEdge(3, 0), 8);
  EXPECT_EQ(ExponentialLowerEdge(-3, 0), 0.125);
  EXPECT_EQ(ExponentialLowerEdge(1, -2), 16);
  EXPECT_EQ(ExponentialLowerEdge(2, -10), kInf);
  EXPECT_EQ(ExponentialLowerEdge(-2, -10), 0);
  EXPECT_DOUBLE_EQ(ExponentialLowerEdge(1, 1), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(ExponentialLowerEdge(-1, 1), 1 / std::sqrt(2.0));
}

TEST(ToExponential, KeepsCountSumAndZeroBucket) {
  auto out = ToExponential(Make({1, 2, 4}, {3, 5, 11}, 12, 30));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->count, 12u);
  EXPECT_EQ(out->sum, 30);
  EXPECT_EQ(out->zero_count, 3u);
  EXPECT_EQ(out->zero_threshold, 1);
  EXPECT_LE(out->counts.size(), Exponential::kBucketsMax);
  EXPECT_EQ(out->scale, 6) << "two octaves and one bucket above them at 2^6 a octave fit in 160";
  uint64_t in_buckets = std::accumulate(out->counts.begin(), out->counts.end(), uint64_t{0});
  EXPECT_EQ(in_buckets + out->zero_count, out->count);
  EXPECT_EQ(out->counts.back(), 1u) << "what lies above the last bound";
}

TEST(ToExponential, ABoundOfZeroJoinsTheZeroBucket) {
  auto out = ToExponential(Make({0, 1, 2}, {1, 3, 5}, 5));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->zero_count, 3u);
}

TEST(ToExponential, OneBoundIsEnough) {
  auto out = ToExponential(Make({8}, {3}, 5));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->zero_count, 3u);
  EXPECT_THAT(out->counts, ElementsAre(2u));
}

TEST(ToExponential, WideBoundsGetACoarseScale) {
  auto out = ToExponential(Make({1e-300, 1e300}, {1, 2}, 3));
  ASSERT_TRUE(out.has_value());
  EXPECT_LE(out->counts.size(), Exponential::kBucketsMax);
  EXPECT_LT(out->scale, 0);
  out = ToExponential(Make({5e-324, std::numeric_limits<double>::max()}, {1, 2}, 3));
  ASSERT_TRUE(out.has_value());
  EXPECT_LE(out->counts.size(), Exponential::kBucketsMax);
}

TEST(ToExponential, NotForNegativeOrNoBounds) {
  EXPECT_FALSE(ToExponential(Make({-1, 1}, {1, 2}, 3)).has_value());
  EXPECT_FALSE(ToExponential(Make({0}, {1}, 3)).has_value());
  EXPECT_FALSE(ToExponential(Buckets{}).has_value());
}

TEST(ToExponential, MoreThanAnIntegerHoldsIsHeld) {
  auto out = ToExponential(Make({1, 2}, {1e30, 1e31}, kInf));
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->count, out->zero_count);
}

TEST(Downscale, StopsAtTheLeastScale) {
  Exponential histogram;
  histogram.scale = -9;
  histogram.offset = -1;
  histogram.counts = {1, 2};
  Downscale(histogram, 100);
  EXPECT_EQ(histogram.scale, -10);
  EXPECT_EQ(histogram.offset, -1);
  EXPECT_THAT(histogram.counts, ElementsAre(1u, 2u));
  Downscale(histogram, 1);
  Downscale(histogram, -5);
  EXPECT_EQ(histogram.scale, -10);
}

rc::Gen<double> Sample() {
  return rc::gen::map(rc::gen::inRange(0, 2'000'000), [](int x) { return x / 1000.0; });
}
rc::Gen<std::vector<double>> Samples() { return rc::gen::container<std::vector<double>>(Sample()); }
rc::Gen<std::vector<double>> Bounds() {
  return rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(Sample())),
                      [](std::vector<double> bounds) {
                        std::ranges::sort(bounds);
                        bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
                        return bounds;
                      });
}

std::vector<double> Joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

RC_GTEST_PROP(HistogramProperty, DeltaIsWhatCameInBetween, ()) {
  auto bounds = *Bounds();
  auto before = *Samples(), later = *Samples();
  BucketsDelta delta = DeltaOf(Count(bounds, before), Count(bounds, Joined(before, later)));
  Buckets expected = Count(bounds, later);
  RC_ASSERT(!delta.reset);
  RC_ASSERT(delta.buckets.counts == expected.counts);
  RC_ASSERT(delta.buckets.count == expected.count);
  RC_ASSERT(std::abs(*delta.buckets.sum - *expected.sum) < 1e-6);
}

RC_GTEST_PROP(HistogramProperty, MergeIsExactOnCommonBounds, ()) {
  auto common = *Bounds(), of_a = *Samples(), of_b = *Samples();
  auto sorted = [&](const std::vector<double>& more) {
    auto bounds = Joined(common, more);
    std::ranges::sort(bounds);
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
  };
  auto a = *Samples(), b = *Samples();
  Buckets merged = Merge(Count(sorted(of_a), a), Count(sorted(of_b), b));
  RC_ASSERT(merged.counts == Count(merged.bounds, Joined(a, b)).counts);
  RC_ASSERT(merged.count == static_cast<double>(a.size() + b.size()));
  RC_ASSERT(std::ranges::includes(merged.bounds, common));
}

RC_GTEST_PROP(HistogramProperty, QuantileLiesInTheBucketOfTheRankedSample, ()) {
  auto bounds = *Bounds();
  auto samples = *rc::gen::nonEmpty(Samples());
  double q = *rc::gen::inRange(1, 1001) / 1000.0;
  auto estimate = Quantile(Count(bounds, samples), q);
  RC_ASSERT(estimate.has_value());
  std::ranges::sort(samples);
  auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(samples.size()) - 1e-9));
  double sample = samples[std::min(std::max<size_t>(rank, 1), samples.size()) - 1];
  auto upper = std::ranges::lower_bound(bounds, sample);
  if (upper == bounds.end()) {
    RC_ASSERT(*estimate == bounds.back());
  } else {
    double low = upper == bounds.begin() ? 0 : *(upper - 1);
    RC_ASSERT(*estimate >= low - 1e-9);
    RC_ASSERT(*estimate <= *upper + 1e-9);
  }
}

RC_GTEST_PROP(HistogramProperty, AnyNumbersAreReadIntoSaneBuckets, ()) {
  auto number = rc::gen::oneOf(rc::gen::arbitrary<double>(), rc::gen::element(kNan, kInf, -kInf, 0.0, -1.0));
  auto bounds = *rc::gen::container<std::vector<double>>(number);
  bool has_sum = *rc::gen::arbitrary<bool>(), has_count = *rc::gen::arbitrary<bool>();
  Shape shape = ShapeOf(bounds, has_sum, has_count);
  auto numbers = *rc::gen::container<std::vector<double>>(shape.cells(), number);
  Buckets buckets = ReadBuckets(shape, numbers);
  RC_ASSERT(buckets.bounds.size() == buckets.counts.size());
  RC_ASSERT(std::ranges::adjacent_find(buckets.bounds, std::greater_equal<>{}) == buckets.bounds.end());
  RC_ASSERT(std::ranges::is_sorted(buckets.counts));
  if (!buckets.counts.empty()) RC_ASSERT(buckets.count >= buckets.counts.back());
  RC_ASSERT(buckets.count >= 0);
  for (double bound : buckets.bounds) RC_ASSERT(std::isfinite(bound));
  for (double q : {0.0, 0.5, 1.0}) {
    auto value = Quantile(buckets, q);
    if (value) RC_ASSERT(std::isfinite(*value));
  }
  Quantile(DeltaOf(buckets, buckets).buckets, 0.5);
  ToExponential(buckets);
}

RC_GTEST_PROP(HistogramProperty, ExponentialBucketsOverlapTheExplicitOnes, ()) {
  auto bounds = *Bounds();
  RC_PRE(bounds.back() > 0);
  auto samples = *Samples();
  Buckets buckets = Count(bounds, samples);
  auto out = ToExponential(buckets);
  RC_ASSERT(out.has_value());
  RC_ASSERT(out->counts.size() <= Exponential::kBucketsMax);
  RC_ASSERT(out->count == samples.size());
  uint64_t total = out->zero_count;
  for (uint64_t count : out->counts) total += count;
  RC_ASSERT(total == out->count);
  for (size_t k = 0; k < bounds.size(); ++k) {
    if (bounds[k] <= 0) continue;
    // Up to the bucket that holds what is just above the bound, and before it.
    auto at = ExponentialIndex(std::nextafter(bounds[k], kInf), out->scale) - out->offset;
    uint64_t before = out->zero_count;
    for (int32_t i = 0; i < at; ++i) before += out->counts[static_cast<size_t>(i)];
    uint64_t with = before + out->counts[static_cast<size_t>(at)];
    RC_ASSERT(static_cast<double>(before) <= buckets.counts[k]);
    RC_ASSERT(static_cast<double>(with) >= buckets.counts[k]);
  }
}

RC_GTEST_PROP(HistogramProperty, IndexAndEdgesAgree, ()) {
  int scale = *rc::gen::inRange(Exponential::kScaleMin, Exponential::kScaleMax + 1);
  double value = *rc::gen::inRange(1, 1'000'000) * std::exp2(*rc::gen::inRange(-40, 40));
  int32_t index = ExponentialIndex(value, scale);
  RC_ASSERT(ExponentialLowerEdge(index, scale) < value);
  RC_ASSERT(value <= ExponentialLowerEdge(index + 1, scale));
}

RC_GTEST_PROP(HistogramProperty, DownscaleIsWhatTheCoarserScaleWouldHaveCounted, ()) {
  int scale = *rc::gen::inRange(-5, 8), times = *rc::gen::inRange(0, 5);
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::inRange(1, 4000), [](int x) { return x / 64.0; })));
  auto build = [&](int at_scale) {
    std::map<int32_t, uint64_t> by_index;
    for (double value : values) ++by_index[ExponentialIndex(value, at_scale)];
    Exponential out;
    out.scale = at_scale;
    out.offset = by_index.begin()->first;
    out.counts.resize(static_cast<size_t>(by_index.rbegin()->first - out.offset) + 1);
    for (auto [index, count] : by_index) out.counts[static_cast<size_t>(index - out.offset)] = count;
    return out;
  };
  Exponential coarse = build(scale);
  Downscale(coarse, times);
  Exponential expected = build(scale - times);
  RC_ASSERT(coarse.scale == expected.scale);
  RC_ASSERT(coarse.offset == expected.offset);
  RC_ASSERT(coarse.counts == expected.counts);
}

}  // namespace
}  // namespace gpulens
