// Roll-ups on their way through the runner of a sink, and through a reload.

#include "pipeline/sink_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/testing/allocations.h"
#include "net/io_loop.h"
#include "pipeline/delivery/send_setup.h"
#include "pipeline/pipeline.h"
#include "pipeline/rollup/rollup_testing.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What one sink was given.
struct Given {
  struct Result {
    double value = 0;
    int64_t at_ns = 0;  // wall clock: the end of the interval
  };
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Ref<const Snapshot>> snapshots;
  bool block = false;
  bool ended = false;

  void Block(bool on) {
    std::lock_guard lock(mutex);
    block = on;
    wake.notify_all();
  }
  size_t count() {
    std::lock_guard lock(mutex);
    return snapshots.size();
  }
  // Of a series, each once, in the order in which they came. Stale ones are left out.
  std::vector<Result> Results(std::string_view name) {
    std::lock_guard lock(mutex);
    std::vector<Result> results;
    for (const auto& snapshot : snapshots) {
      for (const SnapshotEntry& entry : snapshot->frames) {
        const Frame& frame = *entry.frame;
        for (uint32_t slot = 0; slot < frame.quality.size(); ++slot) {
          const SeriesInfo& info = (*frame.layout)[slot];
          if (!info.desc || info.desc->name != name || frame.quality[slot] != Quality::kOk) continue;
          const Cell cell = frame.cells[info.first_cell];
          const double value = info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
          if (results.empty() || results.back().at_ns != frame.read_at.unix_ns)
            results.push_back({value, frame.read_at.unix_ns});
        }
      }
    }
    return results;
  }
  std::vector<double> Values(std::string_view name) {
    std::vector<double> values;
    for (const Result& one : Results(name)) values.push_back(one.value);
    return values;
  }
};

class GivenSink final : public Sink {
 public:
  explicit GivenSink(Given& given) : given_(given) {}
  Status Write(const Snapshot& snapshot) override {
    std::unique_lock lock(given_.mutex);
    given_.wake.wait(lock, [this] { return !given_.block; });
    auto copy = MakeRef<Snapshot>();
    copy->closed_at = snapshot.closed_at;
    copy->tick = snapshot.tick;
    copy->frames = snapshot.frames;
    given_.snapshots.push_back(Ref<const Snapshot>(copy));
    given_.wake.notify_all();
    return Ok();
  }
  Status EndStream() override {
    std::lock_guard lock(given_.mutex);
    given_.ended = true;
    return Ok();
  }

 private:
  Given& given_;
};

// As the loader gives it.
Config RollupConfig(std::vector<std::string> functions, int64_t max_groups = 2000,
                    std::vector<std::string> metrics = {"*"}) {
  Config rule;
  rule.Set("metrics", std::move(metrics), {});
  rule.Set("kinds", std::vector<std::string>{}, {});
  rule.Set("by", std::vector<std::string>{"k8s.pod.name"}, {});
  rule.Set("without", std::vector<std::string>{}, {});
  rule.Set("functions", std::move(functions), {});
  rule.Set("name", std::string(), {});
  rule.Set("interval", Duration(seconds(60)), {});
  rule.Set("keep_input", false, {});
  rule.Set("max_groups", max_groups, {});
  return rule;
}

Config SinkConfig(std::vector<Config> rules, const std::string& more = "") {
  Config sink;
  sink.Set("rollups", std::move(rules), {});
  sink.Set("more", more, {});
  return sink;
}

const SinkSpec kWholeOnly{.name = "whole", .help = "x.", .threaded = true};

class RollupRunner : public ::testing::Test {
 protected:
  std::shared_ptr<SinkRunner> Runner(std::vector<Config> rules, Duration interval = {}) {
    auto made = SinkRunner::Make({"whole", &kWholeOnly, SinkConfig(std::move(rules)), interval},
                                 std::make_unique<GivenSink>(given_), RealClock());
    return made ? *made : nullptr;
  }
  // The next tick, at that second, with readings of both.
  Ref<const Snapshot> Tick(int64_t second, double power, double energy) {
    if (!power_) {
      power_ = source_.Declare(rollup_testing::kPower, "a", 0);
      energy_ = source_.Declare(rollup_testing::kEnergy, "a", 0);
    }
    source_.writer.Begin(rollup_testing::At(second));
    source_.writer.Set(power_, power);
    source_.writer.Set(energy_, energy);
    source_.frame = source_.writer.Finish();
    Ref<const Snapshot> snapshot = rollup_testing::SnapshotOf({&source_}, rollup_testing::At(second));
    hub_.Put(snapshot);
    return snapshot;
  }
  static Instant Soon() { return RealClock().Now() + seconds(20); }

  Given given_;
  rollup_testing::TestSource source_{"nvidia"};
  Series power_, energy_;
  LatestSnapshot hub_;
};

constexpr std::string_view kAvg = "gpu.power.draw.avg", kSum = "gpu.energy.sum";

TEST_F(RollupRunner, WithoutRulesNothingChanges) {
  auto runner = Runner({});
  ASSERT_TRUE(runner);
  EXPECT_FALSE(runner->rollup_stats());
  const auto tick = Tick(0, 100, 0);
  runner->Offer(tick);
  EXPECT_FALSE(runner->EndIntervals(hub_));
  runner->BeginIntervals(tick);
  EXPECT_TRUE(runner->Stop(Soon()));
  ASSERT_EQ(given_.count(), 1u);
  EXPECT_EQ(given_.snapshots[0]->frames[0].frame, tick->frames[0].frame);
}

TEST_F(RollupRunner, RefusedRulesMakeNoRunner) {
  Config bad = RollupConfig({"avg", "avg"});
  auto made = SinkRunner::Make({"whole", &kWholeOnly, SinkConfig({bad}), {}},
                               std::make_unique<GivenSink>(given_), RealClock());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_THAT(made.error().detail, HasSubstr("twice"));
}

TEST_F(RollupRunner, EveryTickIsReadAndTheResultComesWithTheTickThatEndsIt) {
  // Whole snapshots at 0 and 55 s; the interval ends at 60 s.
  auto runner = Runner({RollupConfig({"avg", "sum"})}, seconds(55));
  for (int64_t second = 0; second <= 75; ++second) {
    runner->Offer(Tick(second, second < 60 ? double(second) : 500, 10.0 * double(second)));
    ASSERT_TRUE(runner->WaitUntilWritten(Soon()));
  }
  EXPECT_TRUE(runner->Stop(Soon()));
  EXPECT_THAT(given_.Values(kAvg), ElementsAre(29.5)) << "of 0 to 59";
  EXPECT_THAT(given_.Values(kSum), ElementsAre(590));
  EXPECT_THAT(given_.Values("gpu.power.draw"), IsEmpty());
  EXPECT_EQ(given_.snapshots.size(), 3u);
  EXPECT_EQ(given_.snapshots.back()->closed_at.boot_ns, rollup_testing::At(60).boot_ns);
  ASSERT_TRUE(runner->rollup_stats());
  EXPECT_EQ(runner->rollup_stats()->intervals, 1u);
  EXPECT_EQ(runner->rollup_stats()->groups, 2u);
}

TEST_F(RollupRunner, WhenTheAgentEndsTheSinkGetsWhatItHasNotGotAndThenTheOpenInterval) {
  auto runner = Runner({RollupConfig({"avg", "sum"})});
  given_.Block(true);
  runner->Offer(Tick(0, 7, 0));
  for (int64_t second = 1; second <= 60; ++second) runner->Offer(Tick(second, 7, 10.0 * double(second)));
  const auto last = Tick(61, 9, 620);
  runner->Offer(last);
  runner->OfferLast(last);
  runner->OfferLast(last);
  given_.Block(false);
  EXPECT_TRUE(runner->Stop(Soon()));
  EXPECT_THAT(given_.Values(kAvg), ElementsAre(7, 8)) << "60 s, and the readings of 60 and 61";
  EXPECT_THAT(given_.Values(kSum), ElementsAre(590, 620));
  EXPECT_TRUE(given_.ended);
  EXPECT_EQ(runner->rollup_stats()->intervals, 2u) << "they end once";
}

// The result of 60 s came between two whole snapshots of a sink that was not due yet.
TEST_F(RollupRunner, AnEndDoesNotTakeThePlaceOfAResultThatWaits) {
  Config rule = RollupConfig({"sum"});
  auto rollup = Rollup::Make(SinkConfig({rule}));
  ASSERT_TRUE(rollup);
  // Longer than that of the rule, which no configuration may have: no result is sent before the end.
  SinkRunner runner({"whole", &kWholeOnly, SinkConfig({rule}), std::chrono::hours(1)},
                    std::make_unique<GivenSink>(given_), RealClock(), std::move(*rollup));
  for (int64_t second = 0; second <= 62; ++second) runner.Offer(Tick(second, 7, 10.0 * double(second)));
  runner.OfferLast(hub_.latest());
  EXPECT_TRUE(runner.Stop(Soon()));
  EXPECT_THAT(given_.Values(kSum), ElementsAre(590, 620));
}

TEST_F(RollupRunner, OpenIntervalsEndOnceForATickAndBeginAgain) {
  auto runner = Runner({RollupConfig({"avg", "sum"})});
  EXPECT_FALSE(runner->EndIntervals(hub_)) << "nothing was read yet";
  runner->Offer(Tick(0, 1, 0));
  runner->Offer(Tick(1, 3, 10));
  EXPECT_EQ(runner->EndIntervals(hub_), hub_.latest());
  EXPECT_EQ(runner->EndIntervals(hub_), hub_.latest());
  EXPECT_EQ(runner->rollup_stats()->intervals, 1u);
  runner->Offer(Tick(2, 5, 20));
  EXPECT_TRUE(runner->EndIntervals(hub_));
  EXPECT_TRUE(runner->Stop(Soon()));
  EXPECT_THAT(given_.Values(kAvg), ElementsAre(2, 5));
  EXPECT_THAT(given_.Values(kSum), ElementsAre(10, 20)) << "a sum goes on";
}

TEST_F(RollupRunner, WaitsUntilOfferedDataIsWritten) {
  auto runner = Runner({RollupConfig({"sum"})});
  EXPECT_TRUE(runner->WaitUntilWritten(RealClock().Now()));
  given_.Block(true);
  runner->Offer(Tick(0, 1, 0));
  EXPECT_FALSE(runner->WaitUntilWritten(RealClock().Now() + milliseconds(30)));
  given_.Block(false);
  EXPECT_TRUE(runner->WaitUntilWritten(Soon()));
  EXPECT_EQ(given_.count(), 1u);
}

TEST_F(RollupRunner, TheOneThatComesAfterGoesOnWhereRulesAreEqual) {
  auto former = Runner({RollupConfig({"avg", "sum"})});
  former->Offer(Tick(0, 1, 0));
  former->Offer(Tick(1, 3, 10));
  auto other = Runner({RollupConfig({"avg"})});
  auto none = Runner({});
  auto next = Runner({RollupConfig({"avg", "sum"})});
  EXPECT_FALSE(other->TakeRollups(*former));
  EXPECT_FALSE(none->TakeRollups(*former));
  EXPECT_FALSE(next->TakeRollups(*none));
  EXPECT_TRUE(next->TakeRollups(*former));
  // A tick that closes meanwhile is still offered to the former one.
  former->Offer(Tick(2, 5, 20));
  EXPECT_TRUE(former->Stop(Soon()));
  EXPECT_THAT(given_.Values(kSum), IsEmpty()) << "its interval is still open";
  next->Offer(Tick(3, 7, 30));
  next->OfferLast(hub_.latest());
  EXPECT_TRUE(next->Stop(Soon()));
  EXPECT_THAT(given_.Values(kAvg), ElementsAre(4));
  EXPECT_THAT(given_.Values(kSum), ElementsAre(30));
}

TEST_F(RollupRunner, ANewOneCountsFromTheSnapshotWithWhichTheFormerEnded) {
  auto former = Runner({RollupConfig({"sum"})});
  former->Offer(Tick(0, 1, 0));
  former->Offer(Tick(1, 1, 10));
  auto next = Runner({RollupConfig({"avg", "sum"})});
  next->BeginIntervals(former->EndIntervals(hub_));
  EXPECT_TRUE(former->Stop(Soon()));
  EXPECT_THAT(given_.Values(kSum), ElementsAre(10));
  next->Offer(Tick(2, 1, 25));
  next->OfferLast(hub_.latest());
  EXPECT_TRUE(next->Stop(Soon()));
  EXPECT_THAT(given_.Values(kSum), ElementsAre(10, 15)) << "from 10 to 25, of which nothing is missing";
}

TEST_F(RollupRunner, SeriesBeyondTheLimitAreSentAsTheyAreAndCountedAndReported) {
  auto runner = Runner({RollupConfig({"count"}, 1)});
  ::testing::internal::CaptureStderr();
  runner->Offer(Tick(0, 1, 0));
  runner->Offer(Tick(1, 2, 5));
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(runner->Stop(Soon()));
  EXPECT_EQ(runner->rollup_stats()->refused[static_cast<size_t>(RollupRefusal::kLimit)], 1u);
  EXPECT_THAT(logged, HasSubstr("rollup_limit"));
  EXPECT_THAT(logged, HasSubstr("1 series are sent unchanged"));
  EXPECT_EQ(logged.find("rollup_limit"), logged.rfind("rollup_limit")) << "once, not at each tick";
  EXPECT_THAT(given_.Values("gpu.energy"), ElementsAre(0, 5));
  EXPECT_THAT(given_.Values("gpu.power.draw"), IsEmpty());
}

TEST_F(RollupRunner, ASteadyTickAllocatesNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer brings its own operator new";
  const SinkSpec direct{.name = "direct", .help = "x."};
  struct NoSink final : Sink {
    Status Write(const Snapshot&) override { return Ok(); }
  };
  auto made = SinkRunner::Make({"direct", &direct, SinkConfig({RollupConfig({"avg", "sum"})}), {}},
                               std::make_unique<NoSink>(), RealClock());
  ASSERT_TRUE(made);
  uint64_t allocations = 0;
  for (int64_t second = 0; second <= 50; ++second) {
    const auto tick = Tick(second, 1, double(second));
    const uint64_t before = ThreadAllocations();
    (*made)->Offer(tick);
    if (second >= 10) allocations += ThreadAllocations() - before;
  }
  EXPECT_EQ(allocations, 0u);
}

TEST(RollupEncoder, SinksThatDifferInRollupsDoNotShareAnEncoder) {
  const NetworkSink network;
  const Config one = SinkConfig({RollupConfig({"avg"})}), equal = SinkConfig({RollupConfig({"avg"})});
  EXPECT_EQ(EncoderConfig(one, network), EncoderConfig(equal, network));
  EXPECT_FALSE(EncoderConfig(one, network) == EncoderConfig(SinkConfig({RollupConfig({"sum"})}), network));
  EXPECT_FALSE(EncoderConfig(one, network) == EncoderConfig(SinkConfig({}), network));
}

// --- A whole pipeline ---

constexpr MetricDesc kSteps{
    .name = "test.steps", .unit = "{step}", .help = "Steps.", .kind = Kind::kCounter, .number = Number::kInt};
constexpr std::string_view kStepsSum = "test.steps.sum";

std::atomic<int64_t> steps{0};

class StepCollector final : public Collector {
 public:
  Status Collect(FrameWriter& out) override {
    if (!steps_) steps_ = out.table().Declare(kSteps, {});
    out.Set(steps_, ++steps);
    return Ok();
  }

 private:
  Series steps_;
};
const CollectorSpec kStepper{.name = "stepper",
                             .help = "Steps.",
                             .period = seconds(1),
                             .ttl = seconds(1),
                             .create = [](const Config&, Env&) -> Result<std::unique_ptr<Collector>> {
                               return std::unique_ptr<Collector>(std::make_unique<StepCollector>());
                             }};

Given* first_given = nullptr;
Given* second_given = nullptr;

const SinkSpec kGiven{.name = "given",
                      .help = "x.",
                      .threaded = true,
                      .create =
                          [](const Config& config, Env&) {
                            return Result<std::unique_ptr<Sink>>(std::make_unique<GivenSink>(
                                config.Text("more") == "second" ? *second_given : *first_given));
                          },
                      .several = true};

class RollupReload : public ::testing::Test {
 protected:
  void SetUp() override {
    first_given = &first_;
    second_given = &second_;
    steps = 0;
    env_.io = &io_;
    env_.latest = &hub_;
    io_.Start();
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
  }
  void TearDown() override {
    EXPECT_TRUE(Stop());
    io_.Stop();
  }
  bool Stop() { return pipeline_->Stop(env_.clock->Now() + seconds(5)); }

  static PipelinePlan PlanOf(std::vector<std::pair<std::string, Config>> sinks) {
    PipelinePlan plan;
    plan.interval = milliseconds(20);
    Instance::Setup setup;
    setup.name = kStepper.name;
    setup.spec = &kStepper;
    setup.period = plan.interval;
    setup.deadline = seconds(5);
    setup.ttl = seconds(5);
    plan.instances.push_back(std::move(setup));
    for (auto& [name, config] : sinks) plan.sinks.push_back({name, &kGiven, std::move(config), {}});
    return plan;
  }
  static Config Summed(const std::string& more, std::vector<std::string> functions = {"sum"}) {
    return SinkConfig({RollupConfig(std::move(functions), 2000, {"test.*"})}, more);
  }
  void WaitForSteps(int64_t count) {
    const int64_t until = steps + count;
    const Instant end = env_.clock->Now() + seconds(20);
    while (steps < until && env_.clock->Now().boot_ns < end.boot_ns) {
      std::unique_lock lock(never_mutex_);
      never_.wait_for(lock, milliseconds(5));
    }
    ASSERT_GE(steps, until);
  }
  // The steps that the last tick had.
  int64_t LastSteps() const {
    const auto found = rollup_testing::Find(hub_.latest(), kSteps.name, AttributeSet());
    return found ? static_cast<int64_t>(found->value) : -1;
  }

  Given first_, second_;
  IoLoop io_;
  Workers workers_{2};
  LatestSnapshot hub_;
  SeriesBudget budget_{1000};
  Env env_;
  std::unique_ptr<Pipeline> pipeline_;
  std::mutex never_mutex_;
  std::condition_variable never_;
};

TEST_F(RollupReload, ARecreatedSinkWithEqualRulesContinuesTheOpenInterval) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}})));
  pipeline_->Start();
  WaitForSteps(10);
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("second")}})));
  WaitForSteps(10);
  ASSERT_TRUE(Stop());
  EXPECT_THAT(first_.Values(kStepsSum), IsEmpty()) << "the interval was not over";
  ASSERT_EQ(second_.Values(kStepsSum).size(), 1u);
  EXPECT_EQ(second_.Values(kStepsSum)[0], static_cast<double>(LastSteps() - 1)) << "from 1 to the last";
}

TEST_F(RollupReload, ASinkWhoseRulesChangeSendsTheOpenIntervalAndCountsOn) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}})));
  pipeline_->Start();
  WaitForSteps(10);
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("second", {"sum", "count"})}})));
  WaitForSteps(10);
  ASSERT_TRUE(Stop());
  ASSERT_EQ(first_.Values(kStepsSum).size(), 1u);
  ASSERT_EQ(second_.Values(kStepsSum).size(), 1u);
  EXPECT_GE(first_.Values(kStepsSum)[0], 8);
  EXPECT_EQ(first_.Values(kStepsSum)[0] + second_.Values(kStepsSum)[0], static_cast<double>(LastSteps() - 1));
  EXPECT_FALSE(first_.ended) << "the agent goes on";
}

TEST_F(RollupReload, ASinkThatIsRemovedSendsTheOpenInterval) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}, {"given/b", Summed("second")}})));
  pipeline_->Start();
  WaitForSteps(10);
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}})));
  ASSERT_EQ(second_.Values(kStepsSum).size(), 1u) << "before the reload is done";
  EXPECT_GE(second_.Values(kStepsSum)[0], 8);
  EXPECT_THAT(first_.Values(kStepsSum), IsEmpty()) << "the other's stays open";
  WaitForSteps(5);
  ASSERT_TRUE(Stop());
  EXPECT_EQ(second_.Values(kStepsSum).size(), 1u);
  EXPECT_EQ(first_.Values(kStepsSum).back(), static_cast<double>(LastSteps() - 1));
}

TEST_F(RollupReload, RefusedRulesChangeNothing) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}})));
  pipeline_->Start();
  WaitForSteps(3);
  const Status status = pipeline_->Apply(PlanOf({{"given", Summed("", {"sum", "sum"})}}));
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  WaitForSteps(3);
  ASSERT_TRUE(Stop());
  EXPECT_EQ(first_.Values(kStepsSum).back(), static_cast<double>(LastSteps() - 1));
}

TEST_F(RollupReload, TheAgentReportsGroupsSeriesAndIntervals) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({{"given", Summed("")}, {"given/b", SinkConfig({}, "second")}})));
  pipeline_->Start();
  WaitForSteps(10);
  const auto value = [&](std::string_view name, AttributeSet attributes) {
    const auto found = rollup_testing::Find(hub_.latest(), name, attributes);
    return found ? found->value : -1;
  };
  EXPECT_EQ(value("gpulens.sink.rollup.groups", {{"sink", "given"}}), 1);
  EXPECT_EQ(value("gpulens.sink.rollup.series", {{"sink", "given"}, {"result", "combined"}}), 1);
  EXPECT_EQ(value("gpulens.sink.rollup.series", {{"sink", "given"}, {"result", "not_sent"}}), 1);
  EXPECT_EQ(value("gpulens.sink.rollup.refused", {{"sink", "given"}, {"reason", "limit"}}), 0);
  EXPECT_EQ(value("gpulens.sink.rollup.intervals", {{"sink", "given"}}), 0);
  EXPECT_EQ(value("gpulens.sink.rollup.groups", {{"sink", "given/b"}}), -1) << "it has no roll-ups";
}

}  // namespace
}  // namespace gpulens
