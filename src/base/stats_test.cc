// The numbers are those that the seed's own tests assert, where it has such, in our units.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include <gpulens/stats.h>

namespace gpulens {
namespace {

std::vector<double> Range(double first, double last, double step = 1) {
  std::vector<double> out;
  for (double value = first; value <= last; value += step) out.push_back(value);
  return out;
}

std::vector<TimePoint> At(std::initializer_list<int> milliseconds) {
  std::vector<TimePoint> out;
  for (int ms : milliseconds) out.push_back(TimePoint{} + std::chrono::milliseconds(ms));
  return out;
}

TEST(Percentile, IsLinearBetweenRanks) {
  EXPECT_DOUBLE_EQ(Percentile(Range(1, 100), 0.9), 90.1);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{10, 20}, 0.5), 15);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{42}, 0.99), 42);
  EXPECT_DOUBLE_EQ(Percentile(Range(1, 5), 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(Range(1, 5), 1), 5);
  EXPECT_TRUE(std::isnan(Percentile({}, 0.5)));
  for (double fraction : {-0.1, 1.1, kNotMeasured})
    EXPECT_TRUE(std::isnan(Percentile(Range(1, 5), fraction)));
}

TEST(Describe, DescribesADistribution) {
  const Distribution five = Describe(std::vector<double>{50, 10, 40, 20, 30});
  EXPECT_EQ(five.n, 5u);
  EXPECT_DOUBLE_EQ(five.mean, 30);
  EXPECT_DOUBLE_EQ(five.p50, 30);
  EXPECT_DOUBLE_EQ(five.p90, 46);
  EXPECT_DOUBLE_EQ(five.p95, 48);
  EXPECT_DOUBLE_EQ(five.p99, 49.6);
  EXPECT_NEAR(five.std, 15.811, 0.001);
  EXPECT_DOUBLE_EQ(Describe(Range(1, 10)).p90, 9.1);
}

TEST(Describe, IgnoresMissingValues) {
  const Distribution none = Describe(std::vector<double>{kNotMeasured, kNotMeasured});
  EXPECT_EQ(none.n, 0u);
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.p50) && std::isnan(none.max));
  const Distribution one = Describe(std::vector<double>{kNotMeasured, 7});
  EXPECT_EQ(one.n, 1u);
  EXPECT_EQ(one.mean, 7);
  EXPECT_TRUE(std::isnan(one.std)) << "one value has no spread that is known";
}

TEST(Describe, LargeNumbersCloseTogetherKeepTheirSpread) {
  const Distribution far = Describe(std::vector<double>{1e9 + 1, 1e9 + 2, 1e9 + 3});
  EXPECT_DOUBLE_EQ(far.std, 1);
}

TEST(InterTokenLatency, IsInSeconds) {
  const Distribution itl = InterTokenLatency(At({0, 1, 3, 6, 10}));
  EXPECT_EQ(itl.n, 4u);
  EXPECT_NEAR(itl.min, 1e-3, 1e-12);
  EXPECT_NEAR(itl.max, 4e-3, 1e-12);
  EXPECT_NEAR(itl.mean, 2.5e-3, 1e-12);
  EXPECT_NEAR(itl.p50, 2.5e-3, 1e-12);
  EXPECT_NEAR(itl.p90, 3.7e-3, 1e-12);
  EXPECT_NEAR(itl.p99, 3.97e-3, 1e-12);
  EXPECT_EQ(InterTokenLatency(At({})).n, 0u);
  EXPECT_EQ(InterTokenLatency(At({5})).n, 0u);
  EXPECT_EQ(InterTokenLatency(At({5, 4, 6})).n, 1u);
}

// The number of the value with which it is steady; 0: never.
size_t SteadyAt(SteadyStateOptions options, const std::vector<double>& values) {
  SteadyStateDetector detector(options);
  for (size_t i = 0; i < values.size(); ++i) {
    if (detector.Record(values[i])) return i + 1;
  }
  return 0;
}

TEST(SteadyState, SettlesWhenWindowsAreQuiet) {
  EXPECT_EQ(SteadyAt({}, std::vector<double>(20, 100)), 12u);
  EXPECT_EQ(SteadyAt({.warmup = 3, .window = 3, .consecutive = 2}, std::vector<double>(20, 100)), 7u);
  EXPECT_EQ(SteadyAt({.warmup = 2, .window = 3, .consecutive = 1}, {50, 60, 100, 101, 100}), 5u);
  std::vector<double> restless;
  for (int i = 0; i < 100; ++i) restless.push_back(i % 2 ? 10 : 1000);
  EXPECT_EQ(SteadyAt({.warmup = 2, .window = 3, .consecutive = 1, .cv_below = 0.01}, restless), 0u);
}

TEST(SteadyState, NothingMeasuredIsNeverSteady) {
  EXPECT_EQ(SteadyAt({}, std::vector<double>(100, 0)), 0u);
  EXPECT_EQ(SteadyAt({}, std::vector<double>(100, -5)), 0u);
  EXPECT_EQ(SteadyAt({}, std::vector<double>(100, kNotMeasured)), 0u);
  std::vector<double> gap(40, 100);
  gap[8] = kNotMeasured;
  EXPECT_EQ(SteadyAt({}, gap), 16u) << "the first three windows without the NaN";
}

TEST(SteadyState, StaysSteadyUntilReset) {
  SteadyStateDetector detector;
  for (int i = 0; i < 12; ++i) detector.Record(100);
  EXPECT_TRUE(detector.Record(1));
  EXPECT_EQ(detector.recorded(), 13u);
  detector.Reset();
  EXPECT_FALSE(detector.steady());
  for (int i = 0; i < 11; ++i) EXPECT_FALSE(detector.Record(100));
  EXPECT_TRUE(detector.Record(100));
}

}  // namespace
}  // namespace gpulens
