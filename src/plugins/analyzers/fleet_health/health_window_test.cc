#include "plugins/analyzers/fleet_health/health_window.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr int64_t kSecond = 1'000'000'000;

HealthWindow FiveMinutes() { return HealthWindow(seconds(300)); }

TEST(HealthWindow, OneReadingHasNoRate) {
  HealthWindow window = FiveMinutes();
  window.Observe(kSecond, {60, 10, 0});
  EXPECT_FALSE(window.CorrectedPerHour());
  EXPECT_FALSE(window.XidsPerHour());
  EXPECT_FALSE(window.RampPerMinute());
}

TEST(HealthWindow, TenErrorsInTheWindowAre120AnHour) {
  HealthWindow window = FiveMinutes();
  for (int t = 0; t <= 300; ++t) window.Observe((t + 1) * kSecond, {{}, 5.0 + t / 30, {}});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 120);
}

TEST(HealthWindow, FirstReadingIsTheBase) {
  HealthWindow window = FiveMinutes();
  window.Observe(kSecond, {{}, 1e6, 5});
  window.Observe(2 * kSecond, {{}, 1e6, 6});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 0);
  EXPECT_DOUBLE_EQ(window.XidsPerHour().value(), 12) << "one in five minutes, not one in a second";
}

TEST(HealthWindow, ErrorsLeaveWithTheWindow) {
  HealthWindow window = FiveMinutes();
  for (int t = 0; t <= 10; ++t) window.Observe((t + 1) * kSecond, {{}, t < 5 ? 0.0 : 3.0, {}});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 36);
  for (int t = 11; t <= 400; ++t) window.Observe((t + 1) * kSecond, {{}, 3, {}});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 0);
  EXPECT_LE(window.size(), HealthWindow::kMoments);
}

TEST(HealthWindow, CounterResetCountsFromZero) {
  HealthWindow window = FiveMinutes();
  window.Observe(1 * kSecond, {{}, 100, {}});
  window.Observe(2 * kSecond, {{}, 101, {}});
  window.Observe(3 * kSecond, {{}, 2, {}});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 3 * 12);
}

TEST(HealthWindow, MissingInputIsNotLive) {
  HealthWindow window = FiveMinutes();
  window.Observe(1 * kSecond, {60, 1, 1});
  window.Observe(2 * kSecond, {60, {}, 1});
  EXPECT_FALSE(window.CorrectedPerHour());
  EXPECT_TRUE(window.XidsPerHour());
  window.Observe(3 * kSecond, {60, 4, 1});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 36) << "what happened unseen is seen afterwards";
}

TEST(HealthWindow, TenDegreesInTheWindowAreTwoAMinute) {
  HealthWindow window = FiveMinutes();
  for (int t = 0; t <= 300; ++t) window.Observe((t + 1) * kSecond, {50 + t / 30.0, {}, {}});
  EXPECT_NEAR(window.RampPerMinute().value(), 2, 1e-4);
}

TEST(HealthWindow, ARampNeedsHalfAWindow) {
  HealthWindow window = FiveMinutes();
  for (int t = 0; t <= 149; ++t) window.Observe((t + 1) * kSecond, {50.0 + t, {}, {}});
  EXPECT_FALSE(window.RampPerMinute());
  window.Observe(151 * kSecond, {200, {}, {}});
  EXPECT_TRUE(window.RampPerMinute());
}

TEST(HealthWindow, OneOddEndDoesNotMakeARamp) {
  HealthWindow window = FiveMinutes();
  for (int t = 0; t <= 300; ++t) window.Observe((t + 1) * kSecond, {t == 300 ? 60.0 : 50.0, {}, {}});
  EXPECT_LT(window.RampPerMinute().value(), 0.5) << "end points alone would say 2";
}

TEST(HealthWindow, HandlesLongPauses) {
  HealthWindow window = FiveMinutes();
  window.Observe(1 * kSecond, {50, 1, {}});
  window.Observe(100'000 * kSecond, {60, 5, {}});
  EXPECT_DOUBLE_EQ(window.CorrectedPerHour().value(), 48);
  EXPECT_FALSE(window.RampPerMinute()) << "two points are no slope";
}

}  // namespace
}  // namespace gpulens
