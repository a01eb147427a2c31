#include "quality/cross_checks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kGib = 1 << 30;

// One run a second, with these readings made at that time.
class Runs {
 public:
  Runs& Set(CheckedQuantity quantity, double value) {
    values_[static_cast<size_t>(quantity)] = value;
    return *this;
  }
  Runs& Clear(CheckedQuantity quantity) {
    values_[static_cast<size_t>(quantity)].reset();
    return *this;
  }
  CrossCheckResults Run(double after_seconds = 1) {
    now_ns_ += static_cast<int64_t>(after_seconds * 1e9);
    CheckedReadings readings;
    readings.now_ns = now_ns_;
    readings.interval = seconds(1);
    for (size_t i = 0; i < kCheckedQuantities; ++i) {
      if (values_[i]) readings.of[i] = CheckedReading{*values_[i], now_ns_};
    }
    return validate_.Validate(readings);
  }

 private:
  CrossChecker validate_;
  int64_t now_ns_ = kSecond;
  std::array<std::optional<double>, kCheckedQuantities> values_;
};

bool AllAccepted(const CrossCheckResults& results) {
  for (Validation verdict : results.of) {
    if (verdict != Validation::kAccepted) return false;
  }
  return true;
}

TEST(Memory, PartsThatFitAreBelieved) {
  Runs runs;
  runs.Set(CheckedQuantity::kMemoryTotal, 80 * kGib)
      .Set(CheckedQuantity::kMemoryUsed, 70 * kGib)
      .Set(CheckedQuantity::kMemoryFree, 9 * kGib);
  EXPECT_TRUE(AllAccepted(runs.Run())) << "what the driver reserves is missing, not wrong";
  runs.Set(CheckedQuantity::kMemoryReserved, kGib);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(CheckedQuantity::kMemoryReserved, kGib - (1 << 20));
  EXPECT_TRUE(AllAccepted(runs.Run())) << "a MiB is rounding";
}

TEST(Memory, UsedAboveTotal) {
  Runs runs;
  runs.Set(CheckedQuantity::kMemoryTotal, 80 * kGib).Set(CheckedQuantity::kMemoryUsed, 80 * kGib + 1);
  CrossCheckResults results = runs.Run();
  EXPECT_EQ(results[CheckedQuantity::kMemoryUsed], Validation::kInconsistent);
  EXPECT_EQ(results[CheckedQuantity::kMemoryTotal], Validation::kAccepted);
}

TEST(Memory, PartsThatDoNotAddUp) {
  Runs runs;
  runs.Set(CheckedQuantity::kMemoryTotal, 80 * kGib)
      .Set(CheckedQuantity::kMemoryUsed, 70 * kGib)
      .Set(CheckedQuantity::kMemoryFree, 20 * kGib);
  EXPECT_EQ(runs.Run()[CheckedQuantity::kMemoryFree], Validation::kInconsistent);
  runs.Set(CheckedQuantity::kMemoryFree, 8 * kGib).Set(CheckedQuantity::kMemoryReserved, kGib);
  CrossCheckResults results = runs.Run();
  EXPECT_EQ(results[CheckedQuantity::kMemoryUsed], Validation::kInconsistent);
  EXPECT_EQ(results[CheckedQuantity::kMemoryReserved], Validation::kInconsistent);
}

TEST(Memory, PartsOfTwoMomentsNeedNotAddUp) {
  CheckedReadings readings;
  readings.now_ns = 2 * kSecond;
  readings[CheckedQuantity::kMemoryTotal] = {80 * kGib, 1};
  readings[CheckedQuantity::kMemoryUsed] = {60 * kGib, 2 * kSecond};
  readings[CheckedQuantity::kMemoryFree] = {60 * kGib, kSecond};
  EXPECT_TRUE(AllAccepted(CrossChecker().Validate(readings)));
}

TEST(Power, AboveWhatTheBoardCanBeSetTo) {
  Runs runs;
  runs.Set(CheckedQuantity::kPowerLimitMax, 700)
      .Set(CheckedQuantity::kPower, 1050)
      .Set(CheckedQuantity::kPowerInstant, 1400);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(CheckedQuantity::kPower, 1051).Set(CheckedQuantity::kPowerInstant, 1401);
  CrossCheckResults results = runs.Run();
  EXPECT_EQ(results[CheckedQuantity::kPower], Validation::kOutOfRange);
  EXPECT_EQ(results[CheckedQuantity::kPowerInstant], Validation::kOutOfRange);
}

// Power and energy over some time; the last verdict.
template <class Power>
CrossCheckResults Meter(Runs& runs, int for_seconds, Power&& power, double energy_scale,
                        double energy = 1e6) {
  CrossCheckResults results;
  for (int t = 0; t <= for_seconds; ++t) {
    results = runs.Set(CheckedQuantity::kPower, power(t)).Set(CheckedQuantity::kEnergy, energy).Run();
    energy += (power(t) + power(t + 1)) / 2 * energy_scale;
  }
  return results;
}

TEST(Energy, TwoMetersThatAgree) {
  Runs runs;
  EXPECT_TRUE(AllAccepted(Meter(runs, 200, [](int) { return 500.0; }, 1)));
  EXPECT_TRUE(AllAccepted(Meter(runs, 200, [](int) { return 500.0; }, 1.04)));
  EXPECT_TRUE(AllAccepted(Meter(
      runs, 200, [](int t) { return t % 2 ? 100.0 : 700.0; }, 1.2)))
      << "power that moves so much between readings says little of its integral";
}

TEST(Energy, PowerThatIsAThousandTimesTooHigh) {
  Runs runs;
  CrossCheckResults results = Meter(runs, 59, [](int) { return 350'000.0; }, 1e-3);
  EXPECT_TRUE(AllAccepted(results)) << "not before the window is full";
  results = Meter(runs, 61, [](int) { return 350'000.0; }, 1e-3);
  EXPECT_EQ(results[CheckedQuantity::kPower], Validation::kInconsistent);
  EXPECT_EQ(results[CheckedQuantity::kEnergy], Validation::kAccepted);
}

TEST(Energy, PowerOfZeroWattsOnAGpuThatDraws) {
  Runs runs;
  for (int t = 0; t <= 61; ++t)
    runs.Set(CheckedQuantity::kPower, 0).Set(CheckedQuantity::kEnergy, 500.0 * t).Run();
  EXPECT_EQ(runs.Run()[CheckedQuantity::kPower], Validation::kInconsistent);
}

TEST(Energy, AConstantCounter) {
  Runs runs;
  CrossCheckResults results = Meter(runs, 61, [](int) { return 500.0; }, 0);
  EXPECT_EQ(results[CheckedQuantity::kEnergy], Validation::kInconsistent);
  EXPECT_EQ(results[CheckedQuantity::kPower], Validation::kAccepted);
}

TEST(Energy, ACounterThatOutrunsTheBoard) {
  Runs runs;
  runs.Set(CheckedQuantity::kPowerLimitMax, 700);
  CrossCheckResults results = Meter(runs, 61, [](int) { return 500.0; }, 3);
  EXPECT_EQ(results[CheckedQuantity::kEnergy], Validation::kInconsistent);
}

TEST(Energy, AVerdictLastsUntilAWindowAgrees) {
  Runs runs;
  double energy = 1e6;
  for (int t = 0; t <= 130; ++t) {
    CrossCheckResults results =
        runs.Set(CheckedQuantity::kPower, 500).Set(CheckedQuantity::kEnergy, energy).Run();
    energy += t < 60 ? 250 : 500;
    Validation expected = t >= 60 && t < 120 ? Validation::kInconsistent : Validation::kAccepted;
    ASSERT_EQ(results[CheckedQuantity::kPower], expected) << t;
  }
}

TEST(Energy, APauseIsNotBridgedAndAResetIsNoDisagreement) {
  Runs runs;
  for (int t = 0; t < 40; ++t)
    runs.Set(CheckedQuantity::kPower, 500).Set(CheckedQuantity::kEnergy, 500.0 * t).Run();
  runs.Set(CheckedQuantity::kEnergy, 1e6);
  EXPECT_TRUE(AllAccepted(runs.Run(30)));
  for (int t = 0; t < 40; ++t) runs.Set(CheckedQuantity::kEnergy, 1e6 + 500.0 * t).Run();
  for (int t = 0; t < 50; ++t)
    EXPECT_TRUE(AllAccepted(runs.Set(CheckedQuantity::kEnergy, 500.0 * t).Run())) << t;
}

TEST(Busy, ProfilingThatStopped) {
  Runs runs;
  runs.Set(CheckedQuantity::kBusy, 1).Set(CheckedQuantity::kSmActive, 0).Set(CheckedQuantity::kProcesses, 1);
  for (int t = 0; t < 30; ++t) EXPECT_TRUE(AllAccepted(runs.Run())) << t;
  EXPECT_EQ(runs.Run()[CheckedQuantity::kSmActive], Validation::kInconsistent);
  EXPECT_EQ(runs.Run()[CheckedQuantity::kBusy], Validation::kAccepted);
  runs.Set(CheckedQuantity::kSmActive, 0.9);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(CheckedQuantity::kSmActive, 0);
  EXPECT_TRUE(AllAccepted(runs.Run())) << "the thirty seconds begin anew";
}

TEST(Busy, LoadOfAGpuWithoutProcesses) {
  Runs runs;
  runs.Set(CheckedQuantity::kBusy, 1).Set(CheckedQuantity::kSmActive, 0).Set(CheckedQuantity::kProcesses, 0);
  CrossCheckResults results;
  for (int t = 0; t <= 31; ++t) results = runs.Run();
  EXPECT_EQ(results[CheckedQuantity::kBusy], Validation::kInconsistent);
  EXPECT_EQ(results[CheckedQuantity::kSmActive], Validation::kAccepted);
}

TEST(Busy, NeedsBothReadings) {
  Runs runs;
  runs.Set(CheckedQuantity::kBusy, 1);
  for (int t = 0; t <= 60; ++t) EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(CheckedQuantity::kSmActive, 0).Set(CheckedQuantity::kBusy, 0.6);
  for (int t = 0; t <= 60; ++t) EXPECT_TRUE(AllAccepted(runs.Run()));
}

TEST(Stuck, ATemperatureThatStaysWhilePowerMoves) {
  Runs runs;
  runs.Set(CheckedQuantity::kEdge, 47)
      .Set(CheckedQuantity::kHotspot, 60)
      .Clear(CheckedQuantity::kMemoryTemperature);
  CrossCheckResults results;
  for (int t = 0; t <= 3600; ++t) {
    runs.Set(CheckedQuantity::kPower, t < 1800 ? 70 : 600).Set(CheckedQuantity::kHotspot, t < 1800 ? 50 : 80);
    results = runs.Run();
    ASSERT_TRUE(t >= 3599 || AllAccepted(results)) << t;
  }
  EXPECT_EQ(results[CheckedQuantity::kEdge], Validation::kStuck);
  EXPECT_EQ(results[CheckedQuantity::kHotspot], Validation::kAccepted);
  EXPECT_EQ(runs.Run()[CheckedQuantity::kEdge], Validation::kStuck);
  runs.Set(CheckedQuantity::kEdge, 48);
  EXPECT_EQ(runs.Run()[CheckedQuantity::kEdge], Validation::kAccepted);
}

TEST(Stuck, ASteadyLoadHasASteadyTemperature) {
  Runs runs;
  runs.Set(CheckedQuantity::kEdge, 64);
  for (int t = 0; t <= 7200; ++t) {
    // A peak of a few seconds does not heat a board.
    runs.Set(CheckedQuantity::kPower, t % 600 < 3 ? 700 : 590 + 10 * std::sin(t));
    ASSERT_TRUE(AllAccepted(runs.Run())) << t;
  }
}

TEST(Estimate, IsTheIntegralOfPower) {
  EnergyEstimate estimate;
  EXPECT_FALSE(estimate.begun());
  estimate.Observe({100, 1 * kSecond}, seconds(1));
  EXPECT_EQ(estimate.joules(), 0);
  EXPECT_TRUE(estimate.begun());
  estimate.Observe({200, 2 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 150);
  EXPECT_DOUBLE_EQ(estimate.error_joules(), 50 + 7.5);
  estimate.Observe({200, 2 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 150) << "the same reading again";
  estimate.Observe({200, 4 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 550);
  EXPECT_DOUBLE_EQ(estimate.error_joules(), 57.5 + 20);
}

TEST(Estimate, APauseIsNotMadeUp) {
  EnergyEstimate estimate;
  estimate.Observe({100, 1 * kSecond}, seconds(1));
  estimate.Observe({100, 6 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 500) << "five intervals are bridged";
  estimate.Observe({100, 12 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 500);
  estimate.Observe({100, 13 * kSecond}, seconds(1));
  EXPECT_DOUBLE_EQ(estimate.joules(), 600);
}

// The bound is one: for powers that do not leave the range of their neighbours between readings.
TEST(Estimate, TheTruthIsWithinTheBound) {
  EnergyEstimate estimate;
  double truth = 0;
  auto power = [](double t) { return 400 + 300 * std::sin(t / 7); };
  for (int t = 0; t <= 600; ++t) {
    estimate.Observe({power(t), (t + 1) * kSecond}, seconds(1));
    for (int part = 0; t < 600 && part < 100; ++part) truth += power(t + (part + 0.5) / 100) / 100;
  }
  EXPECT_LT(std::abs(estimate.joules() - truth), estimate.error_joules());
  EXPECT_LT(estimate.error_joules(), 0.1 * truth);
}

}  // namespace
}  // namespace gpulens
