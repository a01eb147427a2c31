#include "store/sketch/quantile_sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <gpulens/stats.h>

namespace gpulens {
namespace {

QuantileSketch Of(const std::vector<double>& values) {
  QuantileSketch sketch;
  for (double value : values) sketch.Add(value);
  return sketch;
}

std::string BytesOf(const QuantileSketch& sketch) {
  std::string bytes;
  sketch.AppendBytes(bytes);
  return bytes;
}

QuantileSketch Sum(QuantileSketch a, const QuantileSketch& b) {
  a.Merge(b);
  return a;
}

// Magnitudes of 2^±1000 reach beyond what a sketch has room for.
rc::Gen<std::vector<double>> Values(int doublings) {
  return rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::tuple(rc::gen::inRange(-doublings, doublings), rc::gen::inRange(0, 1 << 20),
                                  rc::gen::inRange(0, 8)),
                   [](const std::tuple<int, int, int>& parts) {
                     const auto [doubling, mantissa, kind] = parts;
                     const double value = std::ldexp(1 + mantissa / 1048576.0, doubling);
                     return kind == 0 ? 0 : kind == 1 ? -value : value;
                   }));
}

TEST(QuantileSketch, AnEmptySketchHasNoQuantile) {
  QuantileSketch sketch;
  EXPECT_EQ(sketch.count(), 0u);
  EXPECT_TRUE(std::isnan(sketch.Quantile(0.5)));
  EXPECT_FALSE(sketch.Add(std::nan("")));
  EXPECT_FALSE(sketch.Add(INFINITY));
  EXPECT_EQ(sketch.count(), 0u);
}

TEST(QuantileSketch, ZerosAndNegativesAreInOrder) {
  QuantileSketch sketch = Of({-100, -1, 0, 0, 1e-310, 1, 100});
  EXPECT_EQ(sketch.count(), 7u);
  EXPECT_NEAR(sketch.Quantile(0), -100, 0.55);
  EXPECT_NEAR(sketch.Quantile(1.0 / 6), -1, 0.0055);
  EXPECT_EQ(sketch.Quantile(0.5), 0);
  EXPECT_NEAR(sketch.Quantile(1), 100, 0.55);
  EXPECT_TRUE(std::isnan(sketch.Quantile(1.01)));
  EXPECT_TRUE(std::isnan(sketch.Quantile(std::nan(""))));
}

TEST(QuantileSketch, TheLargestNumbersFit) {
  const double most = std::numeric_limits<double>::max();
  QuantileSketch sketch = Of({most, -most});
  EXPECT_NEAR(sketch.Quantile(1) / most, 1, QuantileSketch::kRelativeError * 2);
  EXPECT_TRUE(std::isfinite(sketch.Quantile(0.5)));
}

TEST(QuantileSketch, BeyondItsRoomTheSmallOnesBecomeOne) {
  QuantileSketch sketch = Of({1e-300, 1e-200, 1, 2, 4e9});
  EXPECT_EQ(sketch.count(), 5u);
  EXPECT_NEAR(sketch.Quantile(1), 4e9, 4e9 * QuantileSketch::kRelativeError);
  EXPECT_NEAR(sketch.Quantile(0.75), 2, 2 * QuantileSketch::kRelativeError);
  EXPECT_LT(sketch.Quantile(0), 1.02);
}

RC_GTEST_PROP(SketchProperty, QuantilesAreWithinTheBound, ()) {
  auto values = *rc::gen::nonEmpty(Values(12));
  const double fraction = *rc::gen::inRange(0, 1001) / 1000.0;
  const double reported = Of(values).Quantile(fraction);
  std::ranges::sort(values);
  const double exact = Percentile(values, fraction);
  const double rank = static_cast<double>(values.size() - 1) * fraction;
  const auto reach = [&](double at) { return std::abs(values[static_cast<size_t>(at)]); };
  // Between two signs the error is that of the larger neighbour.
  const double bound =
      QuantileSketch::kRelativeError * std::max(reach(std::floor(rank)), reach(std::ceil(rank)));
  RC_ASSERT(std::abs(reported - exact) <= bound * (1 + 1e-9) + 1e-12);
}

RC_GTEST_PROP(SketchProperty, MergingIsAddingInAnyOrder, ()) {
  const auto a = *Values(1000), b = *Values(1000), c = *Values(30);
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  const QuantileSketch whole = Of(all), left = Sum(Sum(Of(a), Of(b)), Of(c)),
                       right = Sum(Of(a), Sum(Of(b), Of(c)));
  RC_ASSERT(left == whole);
  RC_ASSERT(right == whole);
  RC_ASSERT(Sum(Of(c), Sum(Of(b), Of(a))) == whole);
  RC_ASSERT(BytesOf(left) == BytesOf(whole));
  RC_ASSERT(whole.count() == all.size());
}

RC_GTEST_PROP(SketchProperty, BytesAreAddedAsTheSketchWouldBe, ()) {
  const QuantileSketch a = Of(*Values(1000)), b = Of(*Values(40));
  QuantileSketch read = a;
  RC_ASSERT(read.MergeBytes(BytesOf(b)).ok());
  RC_ASSERT(read == Sum(a, b));
}

RC_GTEST_PROP(SketchProperty, BytesThatAreCutAddNothing, ()) {
  const QuantileSketch a = Of(*rc::gen::nonEmpty(Values(20)));
  const std::string bytes = BytesOf(a);
  QuantileSketch read = a;
  const auto kept = static_cast<size_t>(*rc::gen::inRange(0, static_cast<int>(bytes.size())));
  RC_ASSERT(read.MergeBytes(std::string_view(bytes).substr(0, kept)).code == Code::kDataLoss);
  RC_ASSERT(read == a);
}

class BadSketch : public ::testing::TestWithParam<const char*> {};
TEST_P(BadSketch, IsRefused) {
  std::ifstream file(std::string(GPULENS_SOURCE_DIR) + "/src/store/sketch/testdata/quantile_sketch_corpus/" +
                     GetParam());
  ASSERT_TRUE(file) << GetParam();
  std::stringstream bytes;
  bytes << file.rdbuf();
  QuantileSketch sketch = Of({1, 2}), before = sketch;
  EXPECT_EQ(sketch.MergeBytes(bytes.str()).code, Code::kDataLoss);
  EXPECT_EQ(sketch, before);
}
INSTANTIATE_TEST_SUITE_P(Named, BadSketch,
                         ::testing::Values("bad_empty", "bad_newer_version", "bad_count_of_zero",
                                           "bad_index_out_of_range", "bad_long_varint", "bad_not_shortest",
                                           "bad_side_too_wide", "bad_too_many_buckets", "bad_trailing_byte",
                                           "bad_counts_wrap"));

}  // namespace
}  // namespace gpulens
