#include "pipeline/gpu_quality/twin_rules.h"

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
  Runs& Set(Twin twin, double value) {
    values_[static_cast<size_t>(twin)] = value;
    return *this;
  }
  Runs& Clear(Twin twin) {
    values_[static_cast<size_t>(twin)].reset();
    return *this;
  }
  TwinVerdicts Run(double after_seconds = 1) {
    now_ns_ += static_cast<int64_t>(after_seconds * 1e9);
    TwinReadings readings;
    readings.now_ns = now_ns_;
    readings.interval = seconds(1);
    for (size_t i = 0; i < kTwins; ++i) {
      if (values_[i]) readings.of[i] = TwinReading{*values_[i], now_ns_};
    }
    return judge_.Judge(readings);
  }

 private:
  TwinJudge judge_;
  int64_t now_ns_ = kSecond;
  std::array<std::optional<double>, kTwins> values_;
};

bool AllAccepted(const TwinVerdicts& verdicts) {
  for (Verdict verdict : verdicts.of) {
    if (verdict != Verdict::kAccepted) return false;
  }
  return true;
}

TEST(Memory, PartsThatFitAreBelieved) {
  Runs runs;
  runs.Set(Twin::kMemoryTotal, 80 * kGib).Set(Twin::kMemoryUsed, 70 * kGib).Set(Twin::kMemoryFree, 9 * kGib);
  EXPECT_TRUE(AllAccepted(runs.Run())) << "what the driver reserves is missing, not wrong";
  runs.Set(Twin::kMemoryReserved, kGib);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(Twin::kMemoryReserved, kGib - (1 << 20));
  EXPECT_TRUE(AllAccepted(runs.Run())) << "a MiB is rounding";
}

TEST(Memory, UsedAboveTotal) {
  Runs runs;
  runs.Set(Twin::kMemoryTotal, 80 * kGib).Set(Twin::kMemoryUsed, 80 * kGib + 1);
  TwinVerdicts verdicts = runs.Run();
  EXPECT_EQ(verdicts[Twin::kMemoryUsed], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(verdicts[Twin::kMemoryTotal], Verdict::kAccepted);
}

TEST(Memory, PartsThatDoNotAddUp) {
  Runs runs;
  runs.Set(Twin::kMemoryTotal, 80 * kGib).Set(Twin::kMemoryUsed, 70 * kGib).Set(Twin::kMemoryFree, 20 * kGib);
  EXPECT_EQ(runs.Run()[Twin::kMemoryFree], Verdict::kDisagreesWithTwin);
  runs.Set(Twin::kMemoryFree, 8 * kGib).Set(Twin::kMemoryReserved, kGib);
  TwinVerdicts verdicts = runs.Run();
  EXPECT_EQ(verdicts[Twin::kMemoryUsed], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(verdicts[Twin::kMemoryReserved], Verdict::kDisagreesWithTwin);
}

TEST(Memory, PartsOfTwoMomentsNeedNotAddUp) {
  TwinReadings readings;
  readings.now_ns = 2 * kSecond;
  readings[Twin::kMemoryTotal] = {80 * kGib, 1};
  readings[Twin::kMemoryUsed] = {60 * kGib, 2 * kSecond};
  readings[Twin::kMemoryFree] = {60 * kGib, kSecond};
  EXPECT_TRUE(AllAccepted(TwinJudge().Judge(readings)));
}

TEST(Power, AboveWhatTheBoardCanBeSetTo) {
  Runs runs;
  runs.Set(Twin::kPowerLimitMax, 700).Set(Twin::kPower, 1050).Set(Twin::kPowerInstant, 1400);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(Twin::kPower, 1051).Set(Twin::kPowerInstant, 1401);
  TwinVerdicts verdicts = runs.Run();
  EXPECT_EQ(verdicts[Twin::kPower], Verdict::kOutOfRange);
  EXPECT_EQ(verdicts[Twin::kPowerInstant], Verdict::kOutOfRange);
}

// Power and energy over some time; the last verdict.
template <class Power>
TwinVerdicts Meter(Runs& runs, int for_seconds, Power&& power, double energy_scale, double energy = 1e6) {
  TwinVerdicts verdicts;
  for (int t = 0; t <= for_seconds; ++t) {
    verdicts = runs.Set(Twin::kPower, power(t)).Set(Twin::kEnergy, energy).Run();
    energy += (power(t) + power(t + 1)) / 2 * energy_scale;
  }
  return verdicts;
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
  TwinVerdicts verdicts = Meter(runs, 59, [](int) { return 350'000.0; }, 1e-3);
  EXPECT_TRUE(AllAccepted(verdicts)) << "not before the window is full";
  verdicts = Meter(runs, 61, [](int) { return 350'000.0; }, 1e-3);
  EXPECT_EQ(verdicts[Twin::kPower], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(verdicts[Twin::kEnergy], Verdict::kAccepted);
}

TEST(Energy, PowerOfZeroWattsOnAGpuThatDraws) {
  Runs runs;
  for (int t = 0; t <= 61; ++t) runs.Set(Twin::kPower, 0).Set(Twin::kEnergy, 500.0 * t).Run();
  EXPECT_EQ(runs.Run()[Twin::kPower], Verdict::kDisagreesWithTwin);
}

TEST(Energy, ACounterThatStandsStill) {
  Runs runs;
  TwinVerdicts verdicts = Meter(runs, 61, [](int) { return 500.0; }, 0);
  EXPECT_EQ(verdicts[Twin::kEnergy], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(verdicts[Twin::kPower], Verdict::kAccepted);
}

TEST(Energy, ACounterThatOutrunsTheBoard) {
  Runs runs;
  runs.Set(Twin::kPowerLimitMax, 700);
  TwinVerdicts verdicts = Meter(runs, 61, [](int) { return 500.0; }, 3);
  EXPECT_EQ(verdicts[Twin::kEnergy], Verdict::kDisagreesWithTwin);
}

TEST(Energy, AVerdictLastsUntilAWindowAgrees) {
  Runs runs;
  double energy = 1e6;
  for (int t = 0; t <= 130; ++t) {
    TwinVerdicts verdicts = runs.Set(Twin::kPower, 500).Set(Twin::kEnergy, energy).Run();
    energy += t < 60 ? 250 : 500;
    Verdict expected = t >= 60 && t < 120 ? Verdict::kDisagreesWithTwin : Verdict::kAccepted;
    ASSERT_EQ(verdicts[Twin::kPower], expected) << t;
  }
}

TEST(Energy, APauseIsNotBridgedAndAResetIsNoDisagreement) {
  Runs runs;
  for (int t = 0; t < 40; ++t) runs.Set(Twin::kPower, 500).Set(Twin::kEnergy, 500.0 * t).Run();
  runs.Set(Twin::kEnergy, 1e6);
  EXPECT_TRUE(AllAccepted(runs.Run(30)));
  for (int t = 0; t < 40; ++t) runs.Set(Twin::kEnergy, 1e6 + 500.0 * t).Run();
  for (int t = 0; t < 50; ++t) EXPECT_TRUE(AllAccepted(runs.Set(Twin::kEnergy, 500.0 * t).Run())) << t;
}

TEST(Busy, ProfilingThatStopped) {
  Runs runs;
  runs.Set(Twin::kBusy, 1).Set(Twin::kSmActive, 0).Set(Twin::kProcesses, 1);
  for (int t = 0; t < 30; ++t) EXPECT_TRUE(AllAccepted(runs.Run())) << t;
  EXPECT_EQ(runs.Run()[Twin::kSmActive], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(runs.Run()[Twin::kBusy], Verdict::kAccepted);
  runs.Set(Twin::kSmActive, 0.9);
  EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(Twin::kSmActive, 0);
  EXPECT_TRUE(AllAccepted(runs.Run())) << "the thirty seconds begin anew";
}

TEST(Busy, LoadOfAGpuThatNobodyUses) {
  Runs runs;
  runs.Set(Twin::kBusy, 1).Set(Twin::kSmActive, 0).Set(Twin::kProcesses, 0);
  TwinVerdicts verdicts;
  for (int t = 0; t <= 31; ++t) verdicts = runs.Run();
  EXPECT_EQ(verdicts[Twin::kBusy], Verdict::kDisagreesWithTwin);
  EXPECT_EQ(verdicts[Twin::kSmActive], Verdict::kAccepted);
}

TEST(Busy, WithoutBothThereIsNothingToSay) {
  Runs runs;
  runs.Set(Twin::kBusy, 1);
  for (int t = 0; t <= 60; ++t) EXPECT_TRUE(AllAccepted(runs.Run()));
  runs.Set(Twin::kSmActive, 0).Set(Twin::kBusy, 0.6);
  for (int t = 0; t <= 60; ++t) EXPECT_TRUE(AllAccepted(runs.Run()));
}

TEST(Stuck, ATemperatureThatStaysWhilePowerMoves) {
  Runs runs;
  runs.Set(Twin::kEdge, 47).Set(Twin::kHotspot, 60).Clear(Twin::kMemoryTemperature);
  TwinVerdicts verdicts;
  for (int t = 0; t <= 3600; ++t) {
    runs.Set(Twin::kPower, t < 1800 ? 70 : 600).Set(Twin::kHotspot, t < 1800 ? 50 : 80);
    verdicts = runs.Run();
    ASSERT_TRUE(t >= 3599 || AllAccepted(verdicts)) << t;
  }
  EXPECT_EQ(verdicts[Twin::kEdge], Verdict::kStuck);
  EXPECT_EQ(verdicts[Twin::kHotspot], Verdict::kAccepted);
  EXPECT_EQ(runs.Run()[Twin::kEdge], Verdict::kStuck);
  runs.Set(Twin::kEdge, 48);
  EXPECT_EQ(runs.Run()[Twin::kEdge], Verdict::kAccepted);
}

TEST(Stuck, ASteadyLoadHasASteadyTemperature) {
  Runs runs;
  runs.Set(Twin::kEdge, 64);
  for (int t = 0; t <= 7200; ++t) {
    // A peak of a few seconds does not heat a board.
    runs.Set(Twin::kPower, t % 600 < 3 ? 700 : 590 + 10 * std::sin(t));
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
