#include "energy/energy_curve.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include "energy/time_testing.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace gpulens::energy {
namespace {

EnergyCurve PowerCurve(std::initializer_list<std::pair<double, double>> points) {
  EnergyCurve curve({.longest_gap_ns = 60'000 * kMs});
  for (auto [seconds, watts] : points)
    curve.Add(
        {.at_ns = static_cast<int64_t>(seconds * 1e9), .counter_joules = kNotMeasured, .power_watts = watts});
  return curve;
}

TEST(EnergyCurve, IntegratesPowerByTrapezoids) {
  const EnergyCurve steady = PowerCurve({{0, 300}, {1, 300}, {10, 300}});
  EXPECT_DOUBLE_EQ(steady.Between(0, 10'000 * kMs).joules, 3000);
  EXPECT_DOUBLE_EQ(steady.Between(0, 10'000 * kMs).half_width_joules, 0);
  EXPECT_EQ(steady.Between(0, 10'000 * kMs).method, SpanMethod::kPowerIntegral);
  const EnergyCurve ramp = PowerCurve({{0, 0}, {1, 100}, {2, 200}, {3, 300}, {4, 400}});
  EXPECT_DOUBLE_EQ(ramp.Between(0, 4000 * kMs).joules, 800);
  EXPECT_DOUBLE_EQ(ramp.Between(0, 4000 * kMs).half_width_joules, 200) << "600 to 1,000 J";
  EXPECT_DOUBLE_EQ(ramp.Between(500 * kMs, 1500 * kMs).joules, 37.5 + 62.5);
}

TEST(EnergyCurve, GoesThroughTheCountersReadings) {
  EnergyCurve curve({.counter_step_joules = 0.001});
  // The power is 100 W, the counter grows by 60 W: the counter has precedence.
  for (int i = 0; i <= 10; ++i)
    curve.Add({.at_ns = i * 100 * kMs, .counter_joules = 6.0 * i, .power_watts = 100});
  const EnergySpan whole = curve.Between(0, 1000 * kMs);
  EXPECT_EQ(whole.method, SpanMethod::kCounter);
  EXPECT_DOUBLE_EQ(whole.joules, 60);
  EXPECT_DOUBLE_EQ(whole.half_width_joules, 0.001) << "both ends are readings";
  const EnergySpan inside = curve.Between(250 * kMs, 270 * kMs);
  EXPECT_NEAR(inside.joules, 1.2, 1e-9);
  EXPECT_NEAR(inside.half_width_joules, 6 - 1.2 + 0.001, 1e-9) << "not more than there is in the piece";
  EXPECT_DOUBLE_EQ(curve.Between(300 * kMs, 300 * kMs).joules, 0);
}

TEST(EnergyCurve, TheShapeInsideAPieceIsThatOfThePower) {
  EnergyCurve curve({});
  curve.Add({.at_ns = 0, .counter_joules = 0, .power_watts = 0});
  curve.Add({.at_ns = 100 * kMs, .counter_joules = 10, .power_watts = 200});
  EXPECT_NEAR(curve.Between(0, 50 * kMs).joules, 2.5, 1e-9);
  EXPECT_NEAR(curve.Between(50 * kMs, 100 * kMs).joules, 7.5, 1e-9);
}

TEST(EnergyCurve, ReportsGapsAndUnknownSpans) {
  EnergyCurve curve({.readings = 100, .longest_gap_ns = 1000 * kMs});
  EXPECT_EQ(curve.Between(0, 1).flaw, EnergyFlaw::kOutside);
  curve.Add({.at_ns = 100 * kMs, .counter_joules = 5, .power_watts = kNotMeasured});
  curve.Add({.at_ns = 200 * kMs, .counter_joules = 6, .power_watts = kNotMeasured});
  curve.Add({.at_ns = 150 * kMs, .counter_joules = 99, .power_watts = kNotMeasured});  // late: ignored
  EXPECT_DOUBLE_EQ(curve.Between(100 * kMs, 200 * kMs).joules, 1);
  EXPECT_EQ(curve.Between(99 * kMs, 150 * kMs).flaw, EnergyFlaw::kOutside);
  EXPECT_EQ(curve.Between(150 * kMs, 1300 * kMs).flaw, EnergyFlaw::kOutside) << "too long after the last";
  EXPECT_DOUBLE_EQ(curve.Between(100 * kMs, 250 * kMs).joules, 1.5) << "as it went before";
  EXPECT_DOUBLE_EQ(curve.Between(100 * kMs, 250 * kMs).half_width_joules, 0.5 + 0.001) << "wholly a guess";
  EXPECT_EQ(curve.Between(180 * kMs, 150 * kMs).flaw, EnergyFlaw::kOutside);
  curve.Add({.at_ns = 300 * kMs, .counter_joules = 2, .power_watts = kNotMeasured});
  EXPECT_EQ(curve.Between(150 * kMs, 250 * kMs).flaw, EnergyFlaw::kCounterReset);
  // A reading that failed is bridged by the counter, up to a second.
  curve.Add({.at_ns = 400 * kMs, .counter_joules = kNotMeasured, .power_watts = kNotMeasured});
  curve.Add({.at_ns = 500 * kMs, .counter_joules = kNotMeasured, .power_watts = 3});
  curve.Add({.at_ns = 600 * kMs, .counter_joules = 3, .power_watts = 3});
  EXPECT_DOUBLE_EQ(curve.Between(300 * kMs, 600 * kMs).joules, 1);
  EXPECT_EQ(curve.Between(300 * kMs, 600 * kMs).method, SpanMethod::kCounter);
  curve.Add({.at_ns = 1700 * kMs, .counter_joules = 9, .power_watts = 3});
  EXPECT_EQ(curve.Between(700 * kMs, 800 * kMs).flaw, EnergyFlaw::kGap);
  EXPECT_EQ(curve.Between(500 * kMs, 800 * kMs).flaw, EnergyFlaw::kGap);
  EXPECT_TRUE(std::isnan(curve.Between(700 * kMs, 800 * kMs).joules));
  EXPECT_TRUE(curve.Between(400 * kMs, 600 * kMs).valid()) << "what is wrong begins later";
  EnergyCurve silent({});
  silent.Add({.at_ns = 1});
  EXPECT_EQ(silent.Between(0, 1).flaw, EnergyFlaw::kNoSensor);
}

TEST(EnergyCurve, ForgetsTheOldest) {
  EnergyCurve curve({.readings = 4});
  for (int i = 0; i < 10; ++i) curve.Add({.at_ns = i * kMs, .counter_joules = 1.0 * i, .power_watts = 1});
  EXPECT_EQ(curve.size(), 4u);
  EXPECT_EQ(*curve.first_ns(), 6 * kMs);
  EXPECT_DOUBLE_EQ(curve.Between(6 * kMs, 9 * kMs).joules, 3);
  EXPECT_EQ(curve.Between(5 * kMs, 9 * kMs).flaw, EnergyFlaw::kOutside);
  curve.Keep(6);
  for (int i = 10; i < 12; ++i) curve.Add({.at_ns = i * kMs, .counter_joules = 1.0 * i, .power_watts = 1});
  EXPECT_EQ(curve.size(), 6u);
  EXPECT_DOUBLE_EQ(curve.Between(6 * kMs, 11 * kMs).joules, 5);
  curve.Add({.at_ns = 12 * kMs, .counter_joules = 12, .power_watts = 1});
  EXPECT_EQ(*curve.first_ns(), 7 * kMs);
}

TEST(EnergyCurve, AValueThatIsReadMayBeOld) {
  // Written every 100 ms (at 30, 130, …), 10 J each; read every 40 ms.
  EnergyCurve curve(
      {.most_watts = 200, .counter_step_joules = 0, .counter_lag_ns = EnergyCurve::kLagUnknown});
  for (int ms = 0; ms <= 1000; ms += 40)
    curve.Add({.at_ns = ms * kMs, .counter_joules = 10.0 * ((ms + 70) / 100), .power_watts = 100});
  const EnergySpan span = curve.Between(200 * kMs, 700 * kMs);
  EXPECT_NEAR(span.joules, 50, 4);
  EXPECT_LE(std::abs(span.joules - 50), span.half_width_joules);
  EXPECT_LE(span.half_width_joules, 2 * 200 * 0.05);
}

TEST(EnergyCurve, LearnsHowOftenTheCounterIsWritten) {
  auto curve_of = [](bool closely, int stuck_ms) {
    EnergyCurve curve({.most_watts = 200, .counter_lag_ns = EnergyCurve::kLagUnknown});
    for (int ms = 0; ms <= 2000; ms += closely && ms < 300 ? 2 : 50) {
      const int written = std::min((ms + 7) / 20 * 20 - 7, stuck_ms);  // every 20 ms
      // Without a power, which would bound a steady load more narrowly.
      curve.Add({.at_ns = ms * kMs, .counter_joules = std::max(0.0, 0.1 * written)});
    }
    return curve;
  };
  EXPECT_TRUE(curve_of(false, 9999).learning()) << "each reading sees a step";
  const EnergyCurve learnt = curve_of(true, 9999);
  EXPECT_FALSE(learnt.learning());
  const double before = curve_of(false, 9999).Between(1010 * kMs, 1530 * kMs).half_width_joules;
  EXPECT_LT(learnt.Between(1010 * kMs, 1530 * kMs).half_width_joules, before);
  EXPECT_TRUE(curve_of(true, 1500).learning()) << "it was written more rarely than was learnt";
}

TEST(EnergyCurve, BeforeTheFirstStepAndAfterTheLastThePowerSpeaks) {
  EnergyCurve curve({.most_watts = 200, .counter_lag_ns = 100 * kMs});
  curve.Add({.at_ns = 0, .counter_joules = kNotMeasured, .power_watts = 100});
  for (int ms = 50; ms <= 450; ms += 50)
    curve.Add({.at_ns = ms * kMs, .counter_joules = 5.0 * (ms / 100), .power_watts = 100});
  const EnergySpan first = curve.Between(10 * kMs, 30 * kMs);
  EXPECT_NEAR(first.joules, 2, 1e-9);
  EXPECT_LE(std::abs(first.joules - 1), first.half_width_joules) << "the counter says half of the power";
  const CurvePosition late = curve.At(490 * kMs);
  EXPECT_FALSE(late.settled);
  EXPECT_GT(late.high, late.joules);
  EXPECT_NEAR(late.joules - curve.At(450 * kMs).joules, 0.5 * 100 * 0.04, 1) << "scaled as the counter was";
}

// A load that changes every few milliseconds, its true energy, and what a sensor makes of it.
struct World {
  std::vector<double> watts;   // by millisecond
  std::vector<double> joules;  // up to it

  explicit World(uint32_t seed) : watts(4000), joules(4001) {
    std::mt19937 random(seed);
    double level = 100;
    for (size_t ms = 0; ms < watts.size(); ++ms) {
      if (random() % 7 == 0) level = 60 + static_cast<double>(random() % 640);
      watts[ms] = level;
      joules[ms + 1] = joules[ms] + level * 1e-3;
    }
  }
  EnergyCurve Read(int every_ms, bool counter) const {
    EnergyCurve curve({.most_watts = 700});
    for (size_t ms = 0; ms < watts.size(); ms += static_cast<size_t>(every_ms)) {
      // The counter has whole millijoules.
      const double reported = std::floor(joules[ms] * 1000) / 1000;
      curve.Add({.at_ns = static_cast<int64_t>(ms) * kMs,
                 .counter_joules = counter ? reported : kNotMeasured,
                 .power_watts = watts[ms]});
    }
    return curve;
  }
};

RC_GTEST_PROP(EnergyCurveProperty, TheTruthIsWithinTheBoundOfACounter, (uint32_t seed)) {
  const World world(seed);
  const EnergyCurve curve = world.Read(50, true);
  const int64_t length = *rc::gen::inRange<int64_t>(20, 501),
                begin = *rc::gen::inRange<int64_t>(0, 3900 - length);
  const EnergySpan span = curve.Between(begin * kMs, (begin + length) * kMs);
  const double truth =
      world.joules[static_cast<size_t>(begin + length)] - world.joules[static_cast<size_t>(begin)];
  RC_ASSERT(span.valid());
  RC_ASSERT(std::abs(span.joules - truth) <= span.half_width_joules + 1e-9);
  RC_ASSERT(span.half_width_joules < 0.05 * 700);
}

// The same for a counter that is updated every `step` milliseconds and read at another pace, with and without
// known steps, and also for edges after the last reading.
RC_GTEST_PROP(EnergyCurveProperty, TheTruthIsWithinTheBoundOfASlowCounter, (uint32_t seed, bool reported)) {
  const World world(seed);
  const int step = *rc::gen::inRange(1, 120), phase = *rc::gen::inRange(0, step),
            every = *rc::gen::inRange(2, 60);
  EnergyCurve curve({.most_watts = 700, .counter_lag_ns = reported ? step * kMs : EnergyCurve::kLagUnknown});
  const int64_t length = *rc::gen::inRange<int64_t>(20, 501),
                begin = *rc::gen::inRange<int64_t>(200, 3900 - length);
  const int64_t after = *rc::gen::inRange<int64_t>(0, 300);
  for (int ms = 0; ms < 4000 && ms <= begin + length + after; ms += every) {
    const int written = std::max(0, (ms - phase) / step * step + phase);
    const auto at = static_cast<size_t>(std::min(ms, written));
    curve.Add({.at_ns = ms * kMs,
               .counter_joules = std::floor(world.joules[at] * 1000) / 1000,
               .power_watts = world.watts[static_cast<size_t>(ms)]});
  }
  const EnergySpan span = curve.Between(begin * kMs, (begin + length) * kMs);
  const double truth =
      world.joules[static_cast<size_t>(begin + length)] - world.joules[static_cast<size_t>(begin)];
  RC_ASSERT(span.valid());
  RC_ASSERT(std::abs(span.joules - truth) <= span.half_width_joules + 1e-9);
  RC_ASSERT(span.half_width_joules < 2 * 0.2 * 700);
}

RC_GTEST_PROP(EnergyCurveProperty, PartsAddUpToTheWhole, (uint32_t seed, bool counter)) {
  const World world(seed);
  const EnergyCurve curve = world.Read(50, counter);
  std::vector<int64_t> cuts =
      *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 3900 * kMs));
  cuts.push_back(0);
  cuts.push_back(3900 * kMs);
  std::sort(cuts.begin(), cuts.end());
  double sum = 0;
  for (size_t i = 1; i < cuts.size(); ++i) sum += curve.Between(cuts[i - 1], cuts[i]).joules;
  RC_ASSERT(std::abs(sum - curve.Between(0, 3900 * kMs).joules) < 1e-6);
}

}  // namespace
}  // namespace gpulens::energy
