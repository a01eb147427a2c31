#include "energy/run_share.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "energy/time_testing.h"

namespace gpulens::energy {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

EnergyProcess Own(double use) { return {.own = true, .utilization_ratio = use}; }
EnergyProcess Other(double use) { return {.own = false, .utilization_ratio = use}; }
UseShare Of(std::vector<EnergyProcess> list) { return ShareOf({.list = std::move(list)}); }

// 100 W, by a counter that is written as it is read, each 50 ms.
EnergyCurve Hundred(int64_t from_ns, int64_t to_ns) {
  EnergyCurve curve({.readings = 4096, .most_watts = 300});
  for (int64_t at = from_ns; at <= to_ns; at += 50 * kMs)
    curve.Add({.at_ns = at, .counter_joules = static_cast<double>(at) * 1e-7, .power_watts = 100});
  return curve;
}

TEST(ShareOf, NamesTheKindOfSharing) {
  EXPECT_EQ(Of({}).sharing, SharingMethod::kNone);
  EXPECT_EQ(Of({Other(0.5)}).own, 0);
  EXPECT_EQ(Of({Own(0), Own(0.1)}).own, 1);
  EXPECT_EQ(Of({Own(0), Own(0.1)}).sharing, SharingMethod::kExclusive);
  const UseShare busy = Of({Own(0.3), Other(0.1)});
  EXPECT_DOUBLE_EQ(busy.own, 0.75);
  EXPECT_DOUBLE_EQ(busy.spread, 0.25);
  EXPECT_EQ(busy.sharing, SharingMethod::kByUtilization);
  const UseShare idle = Of({Own(0), Other(0), Other(0), Other(0)});
  EXPECT_DOUBLE_EQ(idle.own, 0.25);
  EXPECT_EQ(idle.sharing, SharingMethod::kEqually);
  const UseShare dumb = Of({Own(kNotMeasured), Other(0.5)});
  EXPECT_DOUBLE_EQ(dumb.own, 0.5);
  EXPECT_DOUBLE_EQ(dumb.spread, 0.5) << "it may be all or nothing";
  EXPECT_EQ(dumb.sharing, SharingMethod::kEqually);
  const UseShare cpu = ShareOf({.list = {Own(0.2), Other(0.6)}, .since_last = true});
  EXPECT_DOUBLE_EQ(cpu.own, 0.25);
  EXPECT_EQ(cpu.sharing, SharingMethod::kByCpuTime);
}

TEST(RunShare, AnExclusiveRunGetsAllEnergy) {
  const EnergyCurve curve = Hundred(0, 2000 * kMs);
  RunShare run(500 * kMs, 300);
  for (int64_t at = 500; at <= 1500; at += 200) run.Observe({.at_ns = at * kMs, .share = Of({Own(0.5)})});
  run.Settle(curve);
  const RunPart part = run.Upto(1500 * kMs, curve);
  EXPECT_NEAR(part.joules, 100, 1e-9);
  EXPECT_NEAR(part.device_joules, 100, 1e-9);
  EXPECT_LT(part.half_width, 0.1);
  EXPECT_EQ(part.sharing_half_width, 0);
  EXPECT_NEAR(part.by[static_cast<size_t>(SharingMethod::kExclusive)], 100, 1e-9);
}

TEST(RunShare, ADeviceUsedOnlyByOthersAddsNoEnergy) {
  const EnergyCurve curve = Hundred(0, 2000 * kMs);
  RunShare run(0, 300);
  for (int64_t at = 0; at <= 2000; at += 200) run.Observe({.at_ns = at * kMs, .share = Of({Other(1)})});
  run.Settle(curve);
  const RunPart part = run.Upto(2000 * kMs, curve);
  EXPECT_EQ(part.joules, 0);
  EXPECT_FALSE(part.used());
}

TEST(RunShare, ComingAndGoingIsUncertainByHalfASlice) {
  const EnergyCurve curve = Hundred(0, 2000 * kMs);
  RunShare run(0, 300);
  for (int64_t at = 0; at <= 2000; at += 200) {
    const bool there = at >= 400 && at < 1600;  // seen 6 times, a second apart from first to last
    run.Observe({.at_ns = at * kMs, .share = there ? Of({Own(1)}) : Of({})});
  }
  run.Settle(curve);
  const RunPart part = run.Upto(2000 * kMs, curve);
  EXPECT_NEAR(part.joules, 100 + 2 * 10, 1e-9);
  EXPECT_NEAR(part.sharing_half_width, 20, 1e-9);
}

TEST(RunShare, TimeBeforeTheFirstReadingIsEstimatedWithABound) {
  const EnergyCurve curve = Hundred(1000 * kMs, 2000 * kMs);
  RunShare run(980 * kMs, 300);
  run.Observe({.at_ns = 1000 * kMs, .share = kWholeBoard});
  run.Settle(curve);
  const RunPart part = run.Upto(1100 * kMs, curve);
  EXPECT_NEAR(part.joules, 2 + 10, 1e-9);
  EXPECT_NEAR(part.guessed_seconds, 0.02, 1e-9);
  EXPECT_GE(part.half_width, 0.02 * 200) << "it may have drawn all that it can, or nothing";
  // One that ended before anything was read.
  RunShare brief(900 * kMs, 300);
  brief.Observe({.at_ns = 1000 * kMs, .share = Of({Own(1)})});
  const RunPart all = brief.Upto(920 * kMs, curve);
  EXPECT_NEAR(all.joules, 2, 1e-9);
  EXPECT_NEAR(all.half_width, 4, 1e-9);
  EXPECT_GE(all.sharing_half_width, 2) << "it was seen there only afterwards";
}

TEST(RunShare, AFlawCountsOnlyWhileTheDeviceIsUsed) {
  EnergyCurve curve = Hundred(0, 1000 * kMs);
  curve.Add({.at_ns = 1050 * kMs, .counter_joules = 1, .power_watts = 100});  // it fell
  curve.Add({.at_ns = 1100 * kMs, .counter_joules = 6, .power_watts = 100});
  for (bool used : {false, true}) {
    RunShare run(500 * kMs, 300);
    for (int64_t at = 500; at <= 1100; at += 50)
      run.Observe({.at_ns = at * kMs, .share = used ? Of({Own(1)}) : Of({Other(1)})});
    run.Settle(curve);
    EXPECT_EQ(run.Upto(1100 * kMs, curve).flaw, used ? EnergyFlaw::kCounterReset : EnergyFlaw::kNone);
  }
}

// Runs that share one device with others, and idle times: each joule is counted once, whenever it is settled.
RC_GTEST_PROP(RunShareProperty, RunsAndOthersAreWhatTheDeviceDrew, (uint32_t seed)) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  constexpr int kRuns = 3;  // owner kRuns: processes of no run
  EnergyCurve curve({.readings = 4096, .most_watts = kInf});
  std::vector<RunShare> runs(kRuns + 1, RunShare(0, kInf));
  double joules = 0;
  int64_t at = 0, end = 0;
  curve.Add({.at_ns = at, .counter_joules = 0, .power_watts = 0});
  const bool reported = below(4) != 0;
  for (int i = 0; i < 60; ++i) {
    at += (1 + below(200)) * kMs;
    joules += below(400) * 0.1;
    curve.Add({.at_ns = at, .counter_joules = joules, .power_watts = static_cast<double>(below(500))});
    if (below(3) != 0) {
      const int64_t observed_ns = at - below(2);
      std::vector<std::pair<int, double>> users;
      for (int n = below(5); n > 0; --n)
        users.emplace_back(below(kRuns + 1), reported ? below(101) / 100.0 : kNotMeasured);
      for (int run = 0; run <= kRuns; ++run) {
        std::vector<EnergyProcess> list;
        for (const auto& [owner, use] : users) list.push_back(owner == run ? Own(use) : Other(use));
        UseShare share = Of(list);
        if (run == kRuns && users.empty()) share.own = 1;  // idle
        runs[static_cast<size_t>(run)].Observe({.at_ns = observed_ns, .share = share});
      }
    }
    if (below(2) != 0)
      for (RunShare& run : runs) run.Settle(curve);
    end = at;
  }
  double sum = 0;
  for (const RunShare& run : runs) {
    const RunPart part = run.Upto(end, curve);
    RC_ASSERT(part.flaw == EnergyFlaw::kNone);
    RC_ASSERT(part.joules >= -1e-9 && part.joules <= joules + 1e-9);
    RC_ASSERT(part.half_width >= 0 && part.sharing_half_width >= 0);
    double by = 0;
    for (double one : part.by) by += one;
    RC_ASSERT(std::abs(by - part.joules) < 1e-6);
    sum += part.joules;
  }
  if (runs.front().seen_ns()) RC_ASSERT(std::abs(sum - joules) < 1e-6);
}

// What was settled on the way is what it would have been at once.
RC_GTEST_PROP(RunShareProperty, SettlingEarlyChangesNothing, (uint32_t seed)) {
  std::mt19937 random(seed);
  EnergyCurve curve({.readings = 4096, .most_watts = kInf});
  RunShare early(3 * kMs, 400), late(3 * kMs, 400);
  double joules = 0;
  for (int64_t at = 0; at < 4000; at += 20) {
    joules += static_cast<double>(random() % 8);
    curve.Add(
        {.at_ns = at * kMs, .counter_joules = joules, .power_watts = static_cast<double>(random() % 400)});
    const UseShare share = Of({Own(static_cast<double>(random() % 3)), Other(1)});
    for (RunShare* run : {&early, &late}) run->Observe({.at_ns = at * kMs - 1, .share = share});
    early.Settle(curve);
  }
  const RunPart one = early.Upto(3990 * kMs, curve), two = late.Upto(3990 * kMs, curve);
  RC_ASSERT(std::abs(one.joules - two.joules) < 1e-6);
  RC_ASSERT(std::abs(one.sharing_half_width - two.sharing_half_width) < 1e-6);
}

}  // namespace
}  // namespace gpulens::energy
