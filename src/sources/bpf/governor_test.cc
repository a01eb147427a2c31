#include "sources/bpf/governor.h"

#include <gtest/gtest.h>

namespace gpulens::bpf {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A target whose calls come at a rate, as long as it is attached.
class SimulatedTarget {
 public:
  explicit SimulatedTarget(const GovernorOptions& options = {}) : governor(options) {}

  // Runs for a time; the last decision is the present one.
  void Run(Duration time, double rate) {
    for (Duration spent{}; spent < time;) {
      const Duration wait = std::max<Duration>(governor.Wait(clock.Now()), milliseconds(1));
      clock.Advance(wait);
      spent += wait;
      if (attached) {
        attached_time += wait;
        const double calls = rate * std::chrono::duration<double>(wait).count();
        load.events += static_cast<uint64_t>(calls);
        if (sampling > 0) load.timed_events += static_cast<uint64_t>(calls / sampling);
      }
      load.processes = {{7, 1, load.events, load.timed_events}};
      for (const Decision& one : governor.Step(clock.Now(), {load})) {
        decisions.push_back(one);
        attached = one.attached, sampling = one.sampling;
        if (!attached && detached_at == 0) detached_at = clock.Now().boot_ns;
      }
    }
  }
  ProbeState state() const { return governor.Of("library")->state; }

  Governor governor;
  ManualClock clock;
  TargetLoad load{"library", 0, 0, {}, 700, 1300};
  std::vector<Decision> decisions;
  bool attached = true;
  uint32_t sampling = 1;
  Duration attached_time{};
  int64_t detached_at = 0;
};

TEST(GovernorTest, LeavesWhatFits) {
  SimulatedTarget target;
  target.Run(seconds(60), 1000);  // 0.13 % of a thread
  EXPECT_TRUE(target.decisions.empty());
  EXPECT_EQ(target.state(), ProbeState::kTimed);
  EXPECT_NEAR(target.governor.thread_overhead(), 0.0013, 1e-5);
  EXPECT_TRUE(target.governor.Of("library")->exact);
}

TEST(GovernorTest, TimesFewerCallsFirst) {
  SimulatedTarget target;
  target.Run(seconds(2), 2000);  // 0.26 % when all are timed, 0.17 % with one in four
  ASSERT_EQ(target.decisions.size(), 1u);
  EXPECT_EQ(target.decisions[0].state, ProbeState::kTimed);
  EXPECT_EQ(target.decisions[0].sampling, 4u);
  EXPECT_TRUE(target.decisions[0].exact);
  EXPECT_NE(target.decisions[0].reason.find("2000 calls/s"), std::string::npos) << target.decisions[0].reason;
  target.Run(seconds(20), 2000);
  EXPECT_EQ(target.decisions.size(), 1u);  // and stays there
  target.Run(seconds(20), 100);
  EXPECT_EQ(target.decisions.back().sampling, 1u);
}

TEST(GovernorTest, ThenCountsOnly) {
  SimulatedTarget target({.most_sampling = 4});
  target.Run(seconds(2), 2800);  // 0.196 % counted, 0.24 % with one in four timed
  EXPECT_EQ(target.state(), ProbeState::kCounted);
  EXPECT_EQ(target.sampling, 0u);
  EXPECT_TRUE(target.governor.Of("library")->exact);
}

TEST(GovernorTest, ThenMeasuresInWindows) {
  SimulatedTarget target;
  target.Run(seconds(2), 100'000);  // 7 % of a thread, 0.07 % in windows
  EXPECT_EQ(target.state(), ProbeState::kPaused);
  EXPECT_FALSE(target.governor.Of("library")->exact);
  target.attached_time = {};
  target.Run(seconds(100), 100'000);
  EXPECT_NEAR(std::chrono::duration<double>(target.attached_time).count(), 1.0, 0.15);
  EXPECT_EQ(target.governor.Of("library")->state == ProbeState::kGivenUp, false);
  target.Run(seconds(30), 500);  // fits again
  EXPECT_EQ(target.state(), ProbeState::kTimed);
  EXPECT_FALSE(target.governor.Of("library")->exact);
}

TEST(GovernorTest, DetachesAStormWithinASecond) {
  SimulatedTarget target;
  target.Run(seconds(5), 1000);
  const int64_t begin = target.clock.Now().boot_ns;
  target.Run(seconds(3), 2'000'000);
  EXPECT_EQ(target.state(), ProbeState::kDetached);
  EXPECT_LE(target.detached_at - begin, 750'000'000);
  EXPECT_NE(target.decisions.back().reason.find("tried again in 60 s"), std::string::npos);
}

TEST(GovernorTest, TriesAgainLaterAndGivesUp) {
  SimulatedTarget target;
  target.Run(seconds(2), 2'000'000);
  EXPECT_EQ(target.state(), ProbeState::kDetached);
  target.Run(seconds(55), 2'000'000);
  EXPECT_EQ(target.state(), ProbeState::kDetached);
  target.attached_time = {};
  target.Run(seconds(10), 2'000'000);  // a window, and off again for 120 s
  EXPECT_EQ(target.state(), ProbeState::kDetached);
  EXPECT_LE(target.attached_time, milliseconds(150));
  EXPECT_NE(target.decisions.back().reason.find("tried again in 120 s"), std::string::npos);
  target.Run(seconds(130), 2'000'000);
  EXPECT_EQ(target.state(), ProbeState::kGivenUp);
  target.attached_time = {};
  target.Run(seconds(600), 2'000'000);
  EXPECT_EQ(target.attached_time.count(), 0);
}

TEST(GovernorTest, OneLateIntervalIsForgiven) {
  SimulatedTarget target;
  target.Run(seconds(1), 1000);
  target.Run(milliseconds(250), 2'000'000);
  target.Run(seconds(10), 1000);
  EXPECT_TRUE(target.decisions.empty());
}

TEST(GovernorTest, TheDearestGivesWayForTheHost) {
  Governor governor({});
  ManualClock clock;
  std::vector<TargetLoad> loads = {{"small", 0, 0, {}, 700, 700}, {"large", 0, 0, {}, 300, 300}};
  std::vector<Decision> all;
  for (int i = 0; i < 40; ++i) {
    clock.Advance(milliseconds(250));
    loads[0].events += 250;  // 0.07 %
    const Decision* large = governor.Of("large");
    if (!large || large->attached) loads[1].events += 10'000;  // 1.2 % of the host
    for (const Decision& one : governor.Step(clock.Now(), loads)) all.push_back(one);
  }
  ASSERT_FALSE(all.empty());
  for (const Decision& one : all) EXPECT_EQ(one.target, "large");
  EXPECT_LT(governor.host_overhead(), 0.01);
}

TEST(GovernorTest, ManyProcessesAreNotOneThread) {
  Governor governor({.host_budget = 1});
  ManualClock clock;
  TargetLoad load{"library", 0, 0, {}, 700, 1300};
  for (int i = 0; i < 40; ++i) {
    clock.Advance(milliseconds(250));
    load.processes.clear();
    load.events = static_cast<uint64_t>(i) * 2500;
    for (int pid = 1; pid <= 10; ++pid) load.processes.push_back({pid, 1, static_cast<uint64_t>(i) * 250, 0});
    EXPECT_TRUE(governor.Step(clock.Now(), {load}).empty());
  }
  EXPECT_NEAR(governor.thread_overhead(), 0.0007, 1e-5);
  EXPECT_NEAR(governor.host_overhead(), 0.007, 1e-4);
}

}  // namespace
}  // namespace gpulens::bpf
