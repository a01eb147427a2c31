
#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "instruments/window.h"

namespace gpulens::instruments {
namespace {

using ::testing::ElementsAre;

// By the definition, in extended precision.
bool Holds(int32_t index, int scale, double value) {
  const long double low = std::exp2l(std::ldexp(static_cast<long double>(index), -scale));
  const long double high = std::exp2l(std::ldexp(static_cast<long double>(index) + 1, -scale));
  const long double slack = 1e-15L;
  return static_cast<long double>(value) > low * (1 - slack) &&
         static_cast<long double>(value) <= high * (1 + slack);
}

TEST(FinestIndex, PowersOfTwoEndTheirBucket) {
  EXPECT_EQ(FinestIndex(1), -1);
  EXPECT_EQ(FinestIndex(std::nextafter(1.0, 2.0)), 0);
  EXPECT_EQ(FinestIndex(2), 255);
  EXPECT_EQ(FinestIndex(0.5), -257);
  EXPECT_EQ(FinestIndex(std::numeric_limits<double>::max()), 1024 * 256 - 1);
  EXPECT_EQ(FinestIndex(std::numeric_limits<double>::min()), -1022 * 256 - 1);
}

RC_GTEST_PROP(FinestIndexProperty, FollowsTheDefinition, (uint64_t mantissa, int16_t doubling)) {
  const double value = std::ldexp(1.0 + static_cast<double>(mantissa >> 12) * 0x1p-52, doubling % 1000);
  RC_ASSERT(Holds(FinestIndex(value), kFinest, value));
}

RC_GTEST_PROP(WindowProperty, CountsLieWhereTheirValuesAre,
              (const std::vector<std::pair<uint16_t, int16_t>>& parts)) {
  CounterCell cells[kExponentialCells] = {};
  std::vector<double> values;
  for (const auto& [mantissa, doubling] : parts)
    values.push_back(std::ldexp(1.0 + mantissa / 65536.0, doubling % 80));
  for (double value : values) RecordInWindow(cells, value);
  ExponentialCounts whole;
  ReadWindow(cells, whole);
  std::vector<uint64_t> wanted(whole.buckets.counts().size());
  for (double value : values) {
    const int32_t place =
        Coarser(FinestIndex(value), kFinest - whole.buckets.scale()) - whole.buckets.offset();
    RC_ASSERT(place >= 0 && static_cast<size_t>(place) < wanted.size());
    ++wanted[static_cast<size_t>(place)];
  }
  RC_ASSERT(std::vector<uint64_t>(whole.buckets.counts().begin(), whole.buckets.counts().end()) == wanted);
  RC_ASSERT(wanted.size() <= kWindow);
  // No coarser than the range of the values needs, except for half a window on either side.
  if (!values.empty()) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const int finer = kFinest - whole.buckets.scale() - 1;
    if (finer >= 0)
      RC_ASSERT(Coarser(FinestIndex(*most), finer) - Coarser(FinestIndex(*least), finer) >=
                static_cast<int32_t>(kWindow) / 2 - 1);
  }
}

TEST(Window, KeepsZerosAndTheSumApart) {
  CounterCell cells[kExponentialCells] = {};
  for (double value : {0.0, 0.0, 3.0, 5.0}) RecordInWindow(cells, value);
  ExponentialCounts whole;
  ReadWindow(cells, whole);
  EXPECT_EQ(whole.zeros, 2u);
  EXPECT_EQ(whole.sum, 8);
}

TEST(ExponentialSum, PutsWindowsOfOtherScalesTogether) {
  ExponentialSum sum;
  const uint64_t fine[] = {1, 2, 0, 4}, coarse[] = {0, 8, 0};
  sum.Add(2, 4, fine);
  EXPECT_EQ(sum.scale(), 2);
  EXPECT_EQ(sum.offset(), 4);
  sum.Add(1, 2, coarse);  // 3 of scale 1 is 6 and 7 of scale 2
  EXPECT_EQ(sum.scale(), 1);
  EXPECT_EQ(sum.offset(), 2);
  EXPECT_THAT(sum.counts(), ElementsAre(3, 12));
  sum.Add(2, 4, fine);
  EXPECT_THAT(sum.counts(), ElementsAre(6, 16));
  const uint64_t one[] = {1};
  sum.Add(1, -1000, one);
  EXPECT_LE(sum.counts().size(), kWindow);
  EXPECT_EQ(std::accumulate(sum.counts().begin(), sum.counts().end(), uint64_t{0}), 23u);
}

}  // namespace
}  // namespace gpulens::instruments
