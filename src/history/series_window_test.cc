#include "history/series_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpulens {
namespace {

constexpr double kNone = kNotMeasured;

SeriesWindow Window(Kind kind, std::vector<SeriesSample> samples, Duration period = std::chrono::seconds(1)) {
  return {{0, "m", "W", kind, {}, "nvidia", period}, std::move(samples)};
}

void ExpectNumbers(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    else EXPECT_DOUBLE_EQ(got[i], want[i]) << i;
  }
}

TEST(Steps, ReducesAGauge) {
  // 1 at 0 s, 3 at 1 s, 5 at 3 s, in steps of 2 s; the last one holds for two periods.
  const SteppedSeries steps = ToSteps(Window(Kind::kGauge, {{0, 1}, {1000, 3}, {3000, 5}}), 0, 8000, 2000);
  EXPECT_EQ(steps.start_ms, 0);
  EXPECT_EQ(steps.step_ms, 2000);
  ExpectNumbers(steps.min, {1, 5, 5, kNone});
  ExpectNumbers(steps.max, {3, 5, 5, kNone});
  ExpectNumbers(steps.avg, {2, 5, 5, kNone});  // 1 and 3 for a second each; 5 holds until 5 s
  ExpectNumbers(steps.last, {3, 5, 5, kNone});
  EXPECT_TRUE(steps.rate.empty());
  EXPECT_EQ(steps.stale, (std::vector<uint8_t>{0, 0, 0, 0}));
}

TEST(Steps, WeightsByTheTimeForWhichAValueWasTheLatest) {
  const SteppedSeries steps =
      ToSteps(Window(Kind::kGauge, {{0, 0}, {9000, 100}, {10'000, 0}}), 0, 10'000, 10'000);
  ExpectNumbers(steps.avg, {10});
  ExpectNumbers(steps.max, {100});
}

TEST(Steps, AStepWithoutSampleHasTheValueBeforeButNotInAGap) {
  std::vector<SeriesSample> samples = {{-500, 7}, {5000, kNone, SeriesSample::kGap}, {9000, 8}};
  const SteppedSeries steps =
      ToSteps(Window(Kind::kGauge, samples, std::chrono::seconds(10)), 0, 12'000, 2000);
  ExpectNumbers(steps.avg, {7, 7, 7, kNone, 8, 8});
  ExpectNumbers(steps.last, {7, 7, 7, kNone, 8, 8});
}

TEST(Steps, MarksStepsWhereAllIsStale) {
  std::vector<SeriesSample> samples = {
      {0, 1}, {1000, 1, SeriesSample::kStale}, {2000, 1, SeriesSample::kStale}, {6000, 1}};
  EXPECT_EQ(ToSteps(Window(Kind::kGauge, samples), 0, 8000, 2000).stale, (std::vector<uint8_t>{0, 1, 1, 0}));
}

TEST(Steps, SpreadsTheIncreaseOfACounterOverTheTimeBetweenSamples) {
  // 10 in the second before the window, then 30 a second.
  const SteppedSeries steps =
      ToSteps(Window(Kind::kCounter, {{-500, 0}, {500, 10}, {1500, 40}, {2500, 70}}), 0, 4000, 1000);
  ExpectNumbers(steps.rate, {20, 30, 30, kNone});
  ExpectNumbers(steps.last, {10, 40, 70, 70});
  EXPECT_TRUE(steps.min.empty() && steps.avg.empty() && steps.max.empty());
}

TEST(Steps, ACounterOfASlowSourceHasItsRateInEachStep) {
  const SteppedSeries steps = ToSteps(Window(Kind::kCounter, {{0, 0}, {5000, 50}}), 0, 5000, 1000);
  ExpectNumbers(steps.rate, {10, 10, 10, 10, 10});
}

TEST(Steps, AResetAndAGapAddNoIncrease) {
  std::vector<SeriesSample> samples = {{0, 100}, {1000, 110}, {2000, 5, SeriesSample::kOk, true}, {3000, 25}};
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 3000, 1000).rate, {10, kNone, 20});
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 3000, 3000).rate, {15});
  samples = {{0, 100}, {1000, kNone, SeriesSample::kGap}, {2000, 200}, {3000, 210}};
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 3000, 1000).rate, {kNone, kNone, 10});
}

TEST(Steps, ACounterThatIsStaleHasNoRateOfZero) {
  std::vector<SeriesSample> samples = {{0, 100},
                                       {1000, 110},
                                       {2000, 110, SeriesSample::kStale},
                                       {3000, 110, SeriesSample::kStale},
                                       {4000, 170}};
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 4000, 1000).rate, {10, 20, 20, 20});
  samples.pop_back();
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 4000, 1000).rate, {10, kNone, kNone, kNone});
  samples.push_back({4000, 5, SeriesSample::kStale, true});
  samples.push_back({5000, 25});
  ExpectNumbers(ToSteps(Window(Kind::kCounter, samples), 0, 5000, 1000).rate,
                {10, kNone, kNone, kNone, kNone});
}

TEST(Steps, OfNothingAreNothing) {
  EXPECT_TRUE(ToSteps(Window(Kind::kGauge, {{0, 1}}), 0, 0, 1000).avg.empty());
  EXPECT_TRUE(ToSteps(Window(Kind::kGauge, {{0, 1}}), 0, 1000, 0).avg.empty());
  ExpectNumbers(ToSteps(Window(Kind::kGauge, {}), 0, 2000, 1000).avg, {kNone, kNone});
}

TEST(Selector, SelectsByNameAndByAttributesAsText) {
  const AttributeSet gpu(
      {{"gpu.index", int64_t{0}}, {"gpu.model", "H\"100\\"}, {"share", 0.5}, {"on", true}});
  const auto matches = [&](std::string_view text) {
    const auto selector = ParseSelector(text);
    EXPECT_TRUE(selector.ok()) << text << ": " << selector.status().detail;
    return selector.ok() && selector->Matches("gpu.power.draw", gpu);
  };
  EXPECT_TRUE(matches("gpu.power.draw"));
  EXPECT_TRUE(matches("gpu.power.draw{}"));
  EXPECT_TRUE(matches("gpu.power.draw{gpu.index=\"0\"}"));
  EXPECT_TRUE(matches("gpu.power.draw{ gpu.index=\"0\" , gpu.model=\"H\\\"100\\\\\", }"));
  EXPECT_TRUE(matches("gpu.power.draw{share=\"0.5\",on=\"true\"}"));
  EXPECT_FALSE(matches("gpu.power.draw{gpu.index=\"1\"}"));
  EXPECT_FALSE(matches("gpu.power.draw{gpu.index=\"00\"}"));
  EXPECT_FALSE(matches("gpu.power.draw{none=\"\"}"));
  EXPECT_FALSE(matches("gpu.power"));
}

// Each file of testdata/selector_invalid is refused, with a sentence that names it.
TEST(Selector, RefusesWhatIsNone) {
  const std::string folder = GPULENS_SOURCE_DIR "/src/history/testdata/selector_invalid";
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const auto selector = ParseSelector(text.str());
    ASSERT_FALSE(selector.ok()) << file.path();
    EXPECT_EQ(selector.error().code, Code::kInvalidArgument);
    EXPECT_LE(selector.error().detail.size(), 500u);
    ++count;
  }
  EXPECT_GE(count, 12u);
}

}  // namespace
}  // namespace gpulens
