#include "src/compat/power_trace.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "energy/time_testing.h"

namespace gpulens::energy {
namespace {

// A trace of constant power, with a sample each 100 ms.
struct Constant : PowerTrace {
  Constant(double gpu, double cpu, int samples) : PowerTrace(1000) {
    for (int i = 0; i < samples; ++i) Add({.at_ns = i * 100 * kMs, .gpu_watts = gpu, .cpu_watts = cpu});
  }
};

TEST(PowerTrace, IntegratesByTrapezoids) {
  const auto energy = Constant(100, 50, 11).EnergyJoules(0, 1000 * kMs);
  EXPECT_DOUBLE_EQ(energy.gpu, 100);
  EXPECT_DOUBLE_EQ(energy.cpu, 50);
  PowerTrace ramp(1000);
  ramp.Add({.at_ns = 0});
  ramp.Add({.at_ns = 1000 * kMs, .gpu_watts = 200, .cpu_watts = 100});
  EXPECT_DOUBLE_EQ(ramp.EnergyJoules(0, 1000 * kMs).gpu, 100);
  EXPECT_DOUBLE_EQ(ramp.EnergyJoules(500 * kMs, 1000 * kMs).cpu, 37.5);
}

TEST(PowerTrace, InterpolatesEdgesBetweenSamples) {
  const Constant trace(300, 0, 11);
  EXPECT_NEAR(trace.EnergyJoules(140 * kMs, 260 * kMs).gpu, 36, 1e-9);
  EXPECT_NEAR(trace.EnergyJoules(110 * kMs, 130 * kMs).gpu, 6, 1e-9);  // within one piece
  const double whole = trace.EnergyJoules(0, 980 * kMs).gpu;
  EXPECT_NEAR(trace.EnergyJoules(0, 140 * kMs).gpu + trace.EnergyJoules(140 * kMs, 980 * kMs).gpu, whole,
              1e-9);
  EXPECT_NEAR(whole, 294, 1e-9);
}

TEST(PowerTrace, AddsNothingOutsideTheSamples) {
  const Constant trace(100, 0, 11);
  EXPECT_DOUBLE_EQ(trace.EnergyJoules(-5000 * kMs, 5000 * kMs).gpu, 100);
  EXPECT_DOUBLE_EQ(trace.EnergyJoules(2000 * kMs, 3000 * kMs).gpu, 0);
  EXPECT_DOUBLE_EQ(trace.EnergyJoules(500 * kMs, 500 * kMs).gpu, 0);
  EXPECT_DOUBLE_EQ(trace.EnergyJoules(800 * kMs, 200 * kMs).gpu, 0);
  EXPECT_DOUBLE_EQ(Constant(100, 0, 1).EnergyJoules(0, 1000 * kMs).gpu, 0);
  EXPECT_DOUBLE_EQ(PowerTrace(5).EnergyJoules(0, 1000 * kMs).gpu, 0);
}

TEST(PowerTrace, AddsNothingForMissingReadings) {
  PowerTrace trace(10);
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  for (int i = 0; i < 5; ++i) trace.Add({.at_ns = i * 1000 * kMs, .gpu_watts = i == 2 ? unknown : 10.0});
  EXPECT_DOUBLE_EQ(trace.EnergyJoules(0, 4000 * kMs).gpu, 20);
  EXPECT_DOUBLE_EQ(trace.MeanWatts(0, 4000 * kMs).gpu, 10);
}

TEST(PowerTrace, KeepsTheNewestSamples) {
  PowerTrace trace(3);
  for (int i = 0; i < 5; ++i) trace.Add({.at_ns = i * 1000, .gpu_watts = static_cast<double>(i)});
  EXPECT_EQ(trace.size(), 3U);
  const auto kept = trace.Within(0, 10'000);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept.front().at_ns, 2000);
  EXPECT_EQ(kept.back().at_ns, 4000);
  trace.Add({.at_ns = 3500});  // out of order
  EXPECT_EQ(trace.Within(0, 10'000).back().at_ns, 4000);
  trace.Clear();
  EXPECT_EQ(trace.size(), 0U);
  trace.Add({.at_ns = 1});
  EXPECT_EQ(trace.size(), 1U);
}

TEST(PowerTrace, WindowsIncludeBothEnds) {
  PowerTrace trace(100);
  for (int i = 0; i < 10; ++i) trace.Add({.at_ns = i * 1000});
  EXPECT_EQ(trace.Within(2000, 6000).size(), 5U);
  EXPECT_TRUE(trace.Within(6000, 2000).empty());
}

TEST(PowerTrace, MeansAreOverSamples) {
  PowerTrace trace(100);
  trace.Add({.at_ns = 0, .gpu_watts = 100, .cpu_watts = 40});
  trace.Add({.at_ns = 1000, .gpu_watts = 200, .cpu_watts = 60});
  EXPECT_DOUBLE_EQ(trace.MeanWatts(0, 1000).gpu, 150);
  EXPECT_DOUBLE_EQ(trace.MeanWatts(0, 1000).cpu, 50);
  EXPECT_DOUBLE_EQ(trace.MeanWatts(5000, 6000).gpu, 0);
}

}  // namespace
}  // namespace gpulens::energy
