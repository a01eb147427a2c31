// Numbers for KEDA from the ticks of simulated engines, and replicas that follow them.

#include "plugins/sinks/keda/scaler_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include "plugins/sinks/keda/scaler_testing.h"

namespace gpulens::keda {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

ScaledObjectRef Object(std::map<std::string, std::string, std::less<>> metadata) {
  return {"chat", "ml", std::move(metadata)};
}

class ScalerStateTest : public ::testing::Test {
 protected:
  void Tick(Duration wait = seconds(5)) {
    clock_.Advance(wait);
    state_.Update(*ticks_.Close(clock_.Now()));
  }
  // The number, or -1 and the reason in `why_`.
  double Number(std::map<std::string, std::string, std::less<>> metadata) {
    const auto query = ParseScalerQuery(Object(std::move(metadata)));
    EXPECT_TRUE(query.ok()) << query.error().detail;
    const auto reading = state_.Evaluate(*query, clock_.Now());
    if (reading) return reading->value;
    EXPECT_EQ(reading.error().code, Code::kUnavailable);
    why_ = reading.error().detail;
    return -1;
  }
  // 1, 0, or -1 and the reason in `why_`.
  int Active(std::map<std::string, std::string, std::less<>> metadata) {
    const auto active = state_.IsActive(*ParseScalerQuery(Object(std::move(metadata))), clock_.Now());
    if (active) return *active;
    EXPECT_EQ(active.error().code, Code::kUnavailable);
    why_ = active.error().detail;
    return -1;
  }

  ManualClock clock_;
  TestTicks ticks_;
  ScalerState state_;
  std::string why_;
  std::set<int> started_;  // pods that have a page
};

TEST_F(ScalerStateTest, SumsOfAllReplicas) {
  ticks_.Start("a").waiting = 6;
  ticks_.Start("b").waiting = 3;
  ticks_["a"].running = 10;
  ticks_["a"].cache = 0.9;
  ticks_["b"].cache = 0.5;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 9);
  EXPECT_EQ(Number({{"metric", "running"}, {"target", "4"}}), 10);
  EXPECT_EQ(Number({{"metric", "concurrency"}, {"target", "4"}}), 19);
  EXPECT_DOUBLE_EQ(Number({{"metric", "kv_cache"}, {"target", "0.8"}}), 1.4) << "two replicas of 0.7";
  EXPECT_DOUBLE_EQ(Number({{"metric", "kv_cache"}, {"target", "0.8"}, {"aggregation", "max"}}), 1.8);
  // Of one replica, for metricType Value.
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"metricType", "Value"}}), 4.5);
  EXPECT_DOUBLE_EQ(Number({{"metric", "kv_cache"}, {"target", "0.8"}, {"metricType", "Value"}}), 0.7);
}

TEST_F(ScalerStateTest, SelectsByModelNamespaceAndAttributes) {
  ticks_.Start("a").waiting = 6;
  ticks_.Put("b", std::make_unique<TestEngine>("b", "other")).waiting = 3;
  ticks_.Put("c", std::make_unique<TestEngine>("c", "m", "elsewhere")).waiting = 100;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 9) << "its own namespace";
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"namespace", "*"}}), 109);
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"model", "other"}}), 3);
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"attributes", "app=chat,target=a"}}), 6);
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"attributes", "app=search"}}), -1);
  EXPECT_EQ(why_, "no target has an engine with layer engine, namespace ml, app=search");
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"engine", "sglang"}}), -1);
}

TEST_F(ScalerStateTest, UnknownIsNeverZero) {
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
  ticks_.Start("a");
  ticks_.Start("b");
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 0) << "both are idle";
  EXPECT_EQ(Active({{"metric", "queue"}, {"target", "4"}}), 0);
  ticks_["b"].silent = true;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 0) << "5 s old";
  Tick(seconds(41));
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
  EXPECT_THAT(why_, HasSubstr("waiting requests of 1 of 2 targets is unknown: b does not answer"));
  EXPECT_EQ(Active({{"metric", "queue"}, {"target", "4"}}), -1);
  ticks_["a"].waiting = 5;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1) << "5 of 2 x 4 calls for no more";
  EXPECT_EQ(Active({{"metric", "queue"}, {"target", "4"}}), 1);
  EXPECT_EQ(Active({{"metric", "queue"}, {"target", "4"}, {"activation", "5"}}), -1);
  ticks_["a"].waiting = 9;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 9) << "at least 9";
  ticks_["a"].silent = true;
  Tick(seconds(60));
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"maxAge", "30"}}), -1);
}

// The agent has just started: a target that was not read may have any queue.
TEST_F(ScalerStateTest, ATargetThatWasNotReadYetCounts) {
  ticks_.Start("a");
  ticks_.Start("b");
  ticks_.unread_["b"] = true;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
  EXPECT_THAT(why_, HasSubstr("b does not answer"));
  ticks_.unread_.clear();
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 0);
  ticks_.Stop("b");
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 0) << "it was removed";
  ticks_.Stop("a");
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
}

TEST_F(ScalerStateTest, ATargetThatNeverAnsweredCountsIfItMayBeMeant) {
  ticks_.Start("a");
  ticks_.Start("b").silent = true;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), -1);
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"model", "x"}}), -1) << "its model is not known";
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}, {"attributes", "target=a"}}), 0)
      << "what is known of it contradicts";
}

TEST_F(ScalerStateTest, AnEngineWithoutANumberIsNotIdle) {
  ticks_.Start("a").has_running = false;
  Tick();
  EXPECT_EQ(Number({{"metric", "queue"}, {"target", "4"}}), 0);
  EXPECT_EQ(Number({{"metric", "running"}, {"target", "4"}}), -1);
  EXPECT_EQ(why_, "running requests of 1 of 1 target is unknown: a does not report it");
  EXPECT_EQ(Active({{"metric", "queue"}, {"target", "4"}}), 1) << "it may be working";
}

TEST_F(ScalerStateTest, LatenciesAreOfTheWindow) {
  std::map<std::string, std::string, std::less<>> ttft = {
      {"metric", "ttft"}, {"target", "0.5"}, {"quantile", "p50"}, {"window", "30s"}};
  ticks_.Start("a").Observe(8, 1000);
  ticks_.Start("b");
  Tick();
  EXPECT_EQ(Number(ttft), -1);
  EXPECT_EQ(why_, "the window begins with the second reading of a target");
  ticks_["a"].Observe(0.2, 10);
  ticks_["b"].Observe(0.9, 30);
  Tick();
  // 10 of 40 are up to 0.25, the other 30 between 0.5 and 1: half of all is a third of the way.
  EXPECT_NEAR(Number(ttft), 2 * (0.5 + 0.5 / 3), 1e-9);
  ttft["metricType"] = "Value";
  EXPECT_NEAR(Number(ttft), 0.5 + 0.5 / 3, 1e-9);
  for (int i = 0; i < 5; ++i) Tick();
  EXPECT_NEAR(Number(ttft), 0.5 + 0.5 / 3, 1e-9) << "25 s later";
  Tick(seconds(6));
  EXPECT_EQ(Number(ttft), -1);
  EXPECT_EQ(why_, "no request observed a time to first token in the last 30 s");
  ttft["whenIdle"] = "0";
  EXPECT_EQ(Number(ttft), 0) << "nothing waits or runs: the user wants 0";
  ticks_["b"].waiting = 1;
  Tick();
  EXPECT_EQ(Number(ttft), -1) << "a request that waits has no first token yet, not one of 0 s";
  ticks_["a"].Observe(0.2, 10);
  ticks_["b"].silent = true;
  Tick(seconds(46));
  EXPECT_EQ(Number(ttft), -1) << "a quantile of a part is none of all";
  EXPECT_THAT(why_, HasSubstr("b does not answer, its last reading is 46 s old"));
}

TEST_F(ScalerStateTest, ARestartedEngineCountsFromZero) {
  ticks_.Start("a").Observe(8, 1000);
  Tick();
  ticks_.Start("a").Observe(0.2, 10);  // another page at the same address
  Tick();
  ticks_["a"].Observe(0.2, 10);
  Tick();
  EXPECT_LE(Number({{"metric", "ttft"}, {"target", "0.5"}}), 0.25);
}

// The replicas of a workload, as an HPA sets them: behaviour of Kubernetes' replica calculator for external
// metrics, with its tolerance of 10 % and a stabilization of scale-downs over 5 minutes.
class Hpa {
 public:
  Hpa(size_t least, size_t most) : least_(least), most_(most) {}

  // `number`: of all replicas together; negative: an error, which changes nothing.
  size_t Decide(size_t replicas, double number, double target, int64_t now_ns) {
    if (number < 0) return replicas;
    size_t wanted = replicas;
    const double ratio = number / (target * static_cast<double>(replicas));
    if (std::abs(1 - ratio) > 0.1) wanted = static_cast<size_t>(std::ceil(number / target));
    wanted = std::clamp(wanted, least_, most_);
    advised_.push_back({now_ns, wanted});
    while (advised_.front().first < now_ns - 300'000'000'000) advised_.pop_front();
    for (const auto& [at, before] : advised_) wanted = std::max(wanted, std::min(before, replicas));
    return wanted;
  }

 private:
  const size_t least_, most_;
  std::deque<std::pair<int64_t, size_t>> advised_;
};

// A day in two hours: load rises to that of 12 replicas and falls again. Each replica serves 8 requests at
// once for 10 s; new ones are ready after a minute. Some do not answer for a while, and the scaler restarts.
TEST_F(ScalerStateTest, ReplicasFollowTheQueueAndDoNotFallOnUnknown) {
  const auto query = *ParseScalerQuery(Object({{"metric", "concurrency"}, {"target", "6"}}));
  Hpa hpa(1, 20);
  struct Pod {
    int number;
    double work = 0;  // requests that it has
    int64_t ready_ns = 0;
  };
  std::vector<Pod> pods = {{0}};
  int made = 1, changes_of_direction = 0, errors = 0;
  size_t most = 1;
  std::string course;
  int direction = 0;
  double queue = 0, longest_queue = 0;
  auto name = [](const Pod& pod) { return "pod-" + std::to_string(pod.number); };
  auto state = std::make_unique<ScalerState>();
  const int64_t start_ns = clock_.Now().boot_ns;
  for (int second = 0; second < 7200; second += 5) {
    const int64_t now_ns = clock_.Now().boot_ns;
    const double hour = second / 3600.0;
    const double arrivals = 5 * std::max(0.0, std::sin(hour / 2 * 3.14159265) * 9.0);  // in 5 s
    queue += arrivals;
    std::vector<Pod*> ready;
    for (Pod& pod : pods)
      if (pod.ready_ns <= now_ns) ready.push_back(&pod);
    for (Pod* pod : ready) {
      pod->work = std::max(0.0, pod->work - pod->work / 2);
      const double taken = std::min(queue, 8 - pod->work);
      pod->work += taken;
      queue -= taken;
    }
    longest_queue = std::max(longest_queue, queue);
    for (Pod* pod : ready) {
      TestEngine& engine =
          started_.insert(pod->number).second ? ticks_.Start(name(*pod)) : ticks_[name(*pod)];
      engine.running = pod->work;
      engine.waiting = queue / static_cast<double>(ready.size());
      // The oldest pod is out of reach for five minutes on the way up, and all of them at the top and on the
      // way down.
      const bool out = (pod == ready.front() && second >= 1500 && second < 1800) ||
                       (second >= 3600 && second < 3900) || (second >= 6000 && second < 6300);
      engine.silent = out;
    }
    clock_.Advance(seconds(5));
    if (second == 2700) state = std::make_unique<ScalerState>();  // the scaler restarts
    state->Update(*ticks_.Close(clock_.Now()));
    if (second % 15 != 0) continue;
    const auto reading = state->Evaluate(query, clock_.Now());
    errors += !reading.ok();
    const size_t replicas = pods.size();
    const size_t wanted =
        hpa.Decide(replicas, reading ? reading->value : -1, query.target, clock_.Now().boot_ns);
    EXPECT_TRUE(reading.ok() || wanted == replicas) << "second " << second;
    EXPECT_FALSE(reading.ok() && second >= 3660 && second < 3900) << "nothing answers";
    if (wanted > replicas || wanted < replicas) {
      const int now_direction = wanted > replicas ? 1 : -1;
      changes_of_direction += direction != 0 && direction != now_direction;
      course += " " + std::to_string(second) + "s:" + std::to_string(wanted);
      direction = now_direction;
    }
    while (pods.size() < wanted)
      pods.push_back(
          {made++, 0, clock_.Now().boot_ns + (now_ns == start_ns ? 0 : Duration(seconds(60)).count())});
    while (pods.size() > wanted) {
      // The HPA removes the youngest; what it had goes back to the queue.
      queue += pods.back().work;
      if (started_.contains(pods.back().number)) ticks_.Stop(name(pods.back()));
      pods.pop_back();
    }
    most = std::max(most, pods.size());
  }
  EXPECT_GE(most, 10u) << "it follows the load up";
  EXPECT_LE(most, 18u);
  EXPECT_LE(pods.size(), 3u) << "and down";
  EXPECT_LE(changes_of_direction, 3) << "it does not flap:" << course;
  EXPECT_GT(errors, 30) << "what was unknown was an error";
  EXPECT_LT(longest_queue, 400);
}

}  // namespace
}  // namespace gpulens::keda
