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
#include <random>

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

TEST(Quantile, AnEmptyTextIsNoNumber) {
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
}

RC_GTEST_PROP(HistogramProperty, IndexAndEdgesAgree, ()) {
  int scale = *rc::gen::inRange(-10, 21);
  double value = *rc::gen::inRange(1, 1'000'000) * std::exp2(*rc::gen::inRange(-40, 40));
  int32_t index = ExponentialIndex(value, scale);
  RC_ASSERT(ExponentialLowerEdge(index, scale) < value);
  RC_ASSERT(value <= ExponentialLowerEdge(index + 1, scale));
}

using ::testing::ElementsAre;

std::vector<uint64_t> Spread(const ExponentialForm& form, std::vector<uint64_t> counts,
                             uint64_t* zero = nullptr) {
  std::vector<uint64_t> out(form.buckets);
  const uint64_t zeros = SpreadCounts(form, counts, out);
  if (zero) *zero = zeros;
  return out;
}

TEST(ExponentialForm, BoundsStayWhereTheyAre) {
  const std::vector<double> bounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  const auto form = MakeExponentialForm(bounds);
  ASSERT_TRUE(form);
  EXPECT_LE(form->buckets, 160u);
  EXPECT_GE(form->scale, 3);
  EXPECT_EQ(form->zero_threshold, 0.005);
  std::vector<uint64_t> counts(bounds.size() + 1);
  std::iota(counts.begin(), counts.end(), 100);
  uint64_t zero = 0;
  const std::vector<uint64_t> out = Spread(*form, counts, &zero);
  EXPECT_EQ(zero, 100u);
  // What is at most a bound, read from the exponential buckets, equals the explicit ones.
  uint64_t upto = zero, wanted = counts[0];
  size_t next = 0;
  for (size_t i = 1; i < bounds.size(); ++i) {
    for (; next < out.size(); ++next) {
      const double upper = ExponentialLowerEdge(form->offset + static_cast<int32_t>(next) + 1, form->scale);
      if (upper > bounds[i] * std::exp2(std::exp2(-form->scale))) break;
      upto += out[next];
      if (upper >= bounds[i]) {
        ++next;
        break;
      }
    }
    wanted += counts[i];
    EXPECT_EQ(upto, wanted) << bounds[i];
  }
  EXPECT_EQ(out.back(), counts.back()) << "above the last bound";
}

TEST(ExponentialForm, PowersOfTwoAreExact) {
  const auto form = MakeExponentialForm(std::vector<double>{0, 1, 2, 4});
  ASSERT_TRUE(form);
  uint64_t zero = 0;
  const auto out = Spread(*form, {1, 2, 640, 0, 3}, &zero);
  EXPECT_EQ(zero, 3u) << "0 and what is up to 1";
  EXPECT_EQ(ExponentialLowerEdge(form->offset, form->scale), 1);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), uint64_t{0}), 643u);
  EXPECT_EQ(out[form->ends[2] - 1], 640 / form->ends[2]);
  EXPECT_EQ(out[form->ends[2]], 0u);
}

// A falling bucket would be a restart to Prometheus.
TEST(ExponentialForm, NoBucketEverFalls) {
  const auto form = MakeExponentialForm(std::vector<double>{0.1, 0.7, 0.8, 13});
  ASSERT_TRUE(form);
  std::mt19937 random(1);
  std::vector<uint64_t> counts(5), before(form->buckets);
  for (int i = 0; i < 3000; ++i) {
    counts[random() % counts.size()] += random() % 3;
    uint64_t zero = 0;
    const auto out = Spread(*form, counts, &zero);
    for (size_t k = 0; k < out.size(); ++k) ASSERT_GE(out[k], before[k]) << i;
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), zero),
              std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    before = out;
  }
}

TEST(ExponentialForm, BoundsThatAreTooCloseShareABucket) {
  const auto form = MakeExponentialForm(std::vector<double>{1e-300, 1, 1.0001, 1e300});
  ASSERT_TRUE(form);
  EXPECT_LT(form->scale, 0);
  const auto out = Spread(*form, {0, 0, 5, 0, 0});
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), uint64_t{0}), 5u);
  const double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  const auto widest = MakeExponentialForm(std::vector<double>{least, most});
  ASSERT_TRUE(widest);
  EXPECT_LE(widest->buckets, 160u);
}

TEST(ExponentialForm, OneBoundIsEnough) {
  const auto form = MakeExponentialForm(std::vector<double>{8});
  ASSERT_TRUE(form);
  uint64_t zero = 0;
  EXPECT_THAT(Spread(*form, {3, 4}, &zero), ElementsAre(4));
  EXPECT_EQ(zero, 3u);
}

TEST(ExponentialForm, NegativeBoundsHaveNone) {
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{}));
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{-1, 1}));
  EXPECT_FALSE(MakeExponentialForm(std::vector<double>{0}));
}

using testing::ElementsAre;

std::vector<double> SumOf(const SlidingRows& rows) {
  std::vector<double> out(rows.width(), 99);
  rows.Sum(out);
  return out;
}
void Push(SlidingRows& rows, int64_t from_ns, double a, double b) {
  auto row = rows.Push(from_ns);
  row[0] = a;
  row[1] = b;
}

TEST(SlidingRows, AddsUpWhatItKeeps) {
  SlidingRows rows(2, 8);
  EXPECT_TRUE(rows.empty());
  EXPECT_THAT(SumOf(rows), ElementsAre(0, 0));
  Push(rows, 10, 1, 2);
  Push(rows, 20, 3, 4);
  Push(rows, 30, 5, 6);
  EXPECT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.from_ns(0), 10);
  EXPECT_THAT(rows[1], ElementsAre(3, 4));
  EXPECT_THAT(rows.Last(), ElementsAre(5, 6));
  EXPECT_THAT(SumOf(rows), ElementsAre(9, 12));
}

TEST(SlidingRows, TheOldestLeaveAndTheNewestStays) {
  SlidingRows rows(2, 8);
  for (int i = 1; i <= 5; ++i) Push(rows, i * 10, i, i);
  rows.Expire(30);
  EXPECT_THAT(SumOf(rows), ElementsAre(12, 12));
  EXPECT_EQ(rows.from_ns(0), 30);
  rows.Expire(1000);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_THAT(SumOf(rows), ElementsAre(5, 5));
}

TEST(SlidingRows, GrowsInOrderThenDropsTheOldest) {
  SlidingRows rows(2, 5);
  Push(rows, 10, 1, 1);
  Push(rows, 20, 2, 2);
  rows.Expire(20);  // So that the oldest is not at the start of the buffer when it grows.
  for (int i = 3; i <= 12; ++i) Push(rows, i * 10, i, i);
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows.from_ns(0), 80);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(rows[i][0], 8.0 + static_cast<double>(i));
}

TEST(SlidingRows, APushedRowIsEmpty) {
  SlidingRows rows(2, 1);
  Push(rows, 10, 1, 1);
  rows.Push(20);
  EXPECT_THAT(SumOf(rows), ElementsAre(0, 0));
  EXPECT_EQ(SlidingRows(2, 0).Push(1).size(), 2u) << "there is always room for one";
}

TEST(SlidingRows, AnotherWidthDropsAllRows) {
  SlidingRows rows(2, 4);
  for (int i = 0; i < 6; ++i) Push(rows, i, 1, 1);
  rows.Reset(3);
  EXPECT_TRUE(rows.empty());
  rows.Push(50)[2] = 7;
  rows.Push(60)[0] = 1;
  EXPECT_THAT(SumOf(rows), ElementsAre(1, 0, 7));
}

TEST(SlidingRows, AFullWindowDoesNotAllocate) {
  SlidingRows rows(26, 21);
  for (int i = 0; i < 30; ++i) rows.Push(i);
  EXPECT_EQ(rows.memory_bytes(), 21 * (26 * sizeof(double) + sizeof(int64_t)));
  uint64_t before = ThreadAllocations();
  for (int i = 30; i < 100; ++i) {
    rows.Push(i)[0] = 1;
    rows.Expire(i - 10);
  }
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

}  // namespace

}  // namespace gpulens
