#include "sources/nvml/simulated/load_schedule.h"

#include <gtest/gtest.h>

#include <map>

#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kS = kNsPerSecond;

LoadSchedule Make() {
  LoadSchedule out(10, {500, 0, -1, 1000});
  out.SetChanges({{25, 47, 800}, {60, 61, -1}, {90, INT64_MAX, 100}});
  return out;
}

TEST(LoadSchedule, LevelsAreThoseOfStepsOrOfAChange) {
  const LoadSchedule load = Make();
  EXPECT_EQ(load.LevelAt(5 * kS), 500);
  EXPECT_EQ(load.LevelAt(24 * kS), -1);
  EXPECT_EQ(load.LevelAt(25 * kS), 800);
  EXPECT_EQ(load.LevelAt(47 * kS), 500) << "the steps repeat";
  EXPECT_EQ(load.LevelAt(60 * kS), -1);
  EXPECT_EQ(load.LevelAt(10'000 * kS), 100);
  EXPECT_EQ(load.MomentAt(46 * kS), (std::pair<int, int64_t>{800, 25 * kS}));
}

TEST(LoadSchedule, TheIntegralIsTheSumOfItsLevels) {
  const LoadSchedule load = Make();
  __int128 sum = 0;
  for (int64_t second = 0; second < 200; ++second) {
    EXPECT_EQ(static_cast<int64_t>(load.Integral(second * kS)), static_cast<int64_t>(sum)) << second;
    std::map<int, int64_t> times;
    load.ForEachStretch(second * kS, [&](int level, int64_t ns) { times[level] += ns; });
    __int128 of_times = 0;
    int64_t whole = 0;
    for (auto [level, ns] : times) {
      EXPECT_GE(ns, 0);
      of_times += static_cast<__int128>(std::max(level, 0)) * ns;
      whole += ns;
    }
    EXPECT_EQ(whole, second * kS);
    EXPECT_EQ(static_cast<int64_t>(of_times), static_cast<int64_t>(sum));
    sum += static_cast<__int128>(std::max(load.LevelAt(second * kS), 0)) * kS;
  }
}

TEST(LoadSchedule, AProfileMayHaveOne) {
  auto profile = ParseFakeProfile(
      "gpus: 2\neach: [{gpu: 1, load: {schedule: {step: 10, levels: [500, -1], changes: [[5, 8, 1000], [90, "
      "0, 0]], "
      "carried: 2500}}}]\n");
  ASSERT_TRUE(profile) << profile.error().detail;
  const FakeLoad& load = profile->gpus[1].load;
  EXPECT_DOUBLE_EQ(load.At(6), 1);
  EXPECT_DOUBLE_EQ(load.At(15), 0);
  EXPECT_DOUBLE_EQ(load.Integral(20), 2.5 + 5 * 0.5 + 3 + 2 * 0.5);
  EXPECT_DOUBLE_EQ(load.Integral(1e6), load.Integral(90));
  for (const char* wrong : {"{step: 0, levels: [1]}", "{step: 5}", "{step: 5, levels: [1001]}",
                            "{step: 5, levels: [1], changes: [[1, 2]]}",
                            "{step: 5, levels: [1], changes: [[5, 9, 1], [8, 12, 1]]}"}) {
    EXPECT_FALSE(ParseFakeProfile("load: {schedule: " + std::string(wrong) + "}\n")) << wrong;
  }
}

}  // namespace
}  // namespace gpulens::nvml
