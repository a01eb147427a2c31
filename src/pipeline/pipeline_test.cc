#include "pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/testing/allocations.h"
#include "core/series_finder.h"
#include "net/io_loop.h"

namespace gpulens {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr MetricDesc kRuns{.name = "test.runs", .unit = "{run}", .help = "Runs.", .number = Number::kInt};
constexpr MetricDesc kDoubled{
    .name = "test.doubled", .unit = "{run}", .help = "Twice.", .number = Number::kInt};

// What the collectors of one test do; set before the pipeline starts.
struct Script {
  std::atomic<int> created{0}, collected{0}, fetched{0};
  std::atomic<bool> available{true}, fail{false};
  std::mutex mutex;
  std::condition_variable wake;
  bool block = false;  // Collect waits while this holds

  void Block(bool on) {
    std::lock_guard lock(mutex);
    block = on;
    wake.notify_all();
  }
};
Script* script = nullptr;

class TestCollector : public Collector {
 public:
  Status Collect(FrameWriter& out) override {
    int run = ++script->collected;
    if (!runs_) runs_ = out.table().Declare(kRuns, {});
    {
      std::unique_lock lock(script->mutex);
      script->wake.wait(lock, [] { return !script->block; });
    }
    if (script->fail) return {Code::kIo, "told to fail"};
    out.Set(runs_, run);
    return Ok();
  }

 private:
  Series runs_;
};

class FetchingCollector final : public TestCollector {
 public:
  bool fetches() const noexcept override { return true; }
  void Fetch(Instant, std::function<void(Status)> done) override {
    ++script->fetched;
    done(script->fail ? Status{Code::kTimeout, "nobody answered"} : Ok());
  }
};

template <class T>
Result<std::unique_ptr<Collector>> Make(const Config&, Env&) {
  ++script->created;
  if (!script->available) return Status{Code::kUnavailable, "not on this machine"};
  return std::unique_ptr<Collector>(std::make_unique<T>());
}

const CollectorSpec kPlain{.name = "plain",
                           .help = "Plain.",
                           .period = seconds(1),
                           .ttl = seconds(1),
                           .create = &Make<TestCollector>};
const CollectorSpec kFetching{.name = "fetching",
                              .help = "Fetching.",
                              .period = seconds(1),
                              .ttl = seconds(1),
                              .create = &Make<FetchingCollector>};

// What most collectors are on most machines.
const CollectorSpec kElsewhere{.name = "elsewhere",
                               .help = "Not here.",
                               .period = seconds(1),
                               .ttl = seconds(1),
                               .create = [](const Config&, Env&) -> Result<std::unique_ptr<Collector>> {
                                 return Status{Code::kUnavailable,
                                               "no such device on the bus of this machine"};
                               }};

class Doubler final : public Analyzer {
 public:
  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    if (!doubled_) doubled_ = out.table().Declare(kDoubled, {});
    finder_.ForEach(snapshot, [&](const SeriesInfo&, double value, const Frame&, uint32_t) {
      out.Set(doubled_, 2 * value);
    });
    return Ok();
  }

 private:
  SeriesFinder finder_{kRuns};
  Series doubled_;
};
const AnalyzerSpec kDoubler{.name = "doubler",
                            .help = "Doubles.",
                            .create = [](const Config&, Env&) -> Result<std::unique_ptr<Analyzer>> {
                              return std::unique_ptr<Analyzer>(std::make_unique<Doubler>());
                            }};

// The value of a family in a snapshot; -1 when it has none.
double ValueOf(const Snapshot& snapshot, const MetricDesc& desc) {
  double found = -1;
  SeriesFinder(desc).ForEach(snapshot,
                             [&](const SeriesInfo&, double value, const Frame&, uint32_t) { found = value; });
  return found;
}

class PipelineTest : public ::testing::Test {
 protected:
  static constexpr Duration kInterval = milliseconds(20);

  void SetUp() override {
    script = &script_;
    env_.io = &io_;
    env_.latest = &hub_;
    io_.Start();
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
    pipeline_->OnTick([this](const Ref<const Snapshot>& snapshot) {
      std::lock_guard lock(mutex_);
      last_ = snapshot;
      ++ticks_;
      ticked_.notify_all();
    });
  }
  void TearDown() override {
    script_.Block(false);
    pipeline_->Stop(env_.clock->Now() + seconds(1));
    io_.Stop();
  }

  static PipelinePlan PlanOf(std::initializer_list<const CollectorSpec*> specs,
                             Duration deadline = seconds(5)) {
    PipelinePlan plan;
    plan.interval = kInterval;
    for (const CollectorSpec* spec : specs) {
      Instance::Setup setup;
      setup.name = spec->name;
      setup.spec = spec;
      setup.period = kInterval;
      setup.deadline = deadline;
      setup.ttl = milliseconds(200);
      plan.instances.push_back(std::move(setup));
    }
    return plan;
  }
  // The first snapshot from now on for which `fits` holds; null after ten seconds.
  Ref<const Snapshot> WaitFor(const std::function<bool(const Snapshot&)>& fits) {
    std::unique_lock lock(mutex_);
    bool found = ticked_.wait_for(lock, seconds(10), [&] { return last_ && fits(*last_); });
    return found ? last_ : nullptr;
  }
  InstanceStats StatsOf(std::string_view name) const {
    for (const auto& view : pipeline_->instances()) {
      if (view.name == name) return view.stats;
    }
    return {};
  }

  Script script_;
  IoLoop io_;
  Workers workers_{2};
  LatestSnapshot hub_;
  SeriesBudget budget_{1000};
  Env env_;
  std::unique_ptr<Pipeline> pipeline_;
  std::mutex mutex_;
  std::condition_variable ticked_;
  Ref<const Snapshot> last_;
  uint64_t ticks_ = 0;
};

TEST_F(PipelineTest, CollectsAnalyzesAndPublishesOneTick) {
  PipelinePlan plan = PlanOf({&kPlain, &kFetching, &kElsewhere});
  plan.analyzers.push_back({&kDoubler, {}});
  plan.resource = {{"host.name", "h"}};
  ASSERT_TRUE(pipeline_->Apply(std::move(plan)));
  pipeline_->Start();
  auto snapshot = WaitFor([&](const Snapshot& s) { return ValueOf(s, kRuns) >= 2 && script_.fetched >= 1; });
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(ValueOf(*snapshot, kDoubled), 2 * ValueOf(*snapshot, kRuns));
  EXPECT_EQ(snapshot->resource.Text("host.name"), "h");
  EXPECT_TRUE(hub_.latest());
  EXPECT_FALSE(pipeline_->Stuck(env_.clock->Now()));
  EXPECT_TRUE(pipeline_->Stuck(env_.clock->Now() + seconds(10))) << "what /health answers 503 to";
}

// Its first run only starts what it reads, as that of a reader process does.
class StartingCollector final : public TestCollector {
 public:
  Status Collect(FrameWriter& out) override {
    if (std::exchange(started_, true)) return TestCollector::Collect(out);
    return {Code::kTimeout, "the reader process is starting"};
  }
  bool starting() const noexcept override { return script->collected == 0; }

 private:
  bool started_ = false;
};
const CollectorSpec kStarting{.name = "starting",
                              .help = "Starts.",
                              .period = seconds(60),
                              .ttl = seconds(120),
                              .create = &Make<StartingCollector>};

TEST_F(PipelineTest, ASlowCollectorThatHasOnlyBegunRunsAgainAtTheNextTickAndThenEachPeriod) {
  PipelinePlan plan = PlanOf({&kStarting});
  plan.instances[0].period = seconds(60);
  plan.instances[0].ttl = seconds(120);
  ASSERT_TRUE(pipeline_->Apply(std::move(plan)));
  pipeline_->Start();
  auto snapshot = WaitFor([](const Snapshot& s) { return ValueOf(s, kRuns) >= 1; });
  ASSERT_TRUE(snapshot) << "not only after a minute";
  const uint64_t tick = snapshot->tick;
  ASSERT_TRUE(WaitFor([&](const Snapshot& s) { return s.tick >= tick + 5; }));
  EXPECT_EQ(script_.collected, 1) << "with a value it keeps its period";
  EXPECT_EQ(StatsOf("starting").runs_error, 0u) << "to start is no error";
  EXPECT_EQ(StatsOf("starting").errors, (std::array<uint64_t, kCodes>{}));
}

TEST_F(PipelineTest, AHangingCollectorTimesOutAndDelaysNoOther) {
  script_.Block(true);
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kPlain}, milliseconds(40))));
  pipeline_->Start();
  auto many = WaitFor([](const Snapshot& s) { return s.tick >= 10; });
  ASSERT_TRUE(many) << "ticks go on";
  EXPECT_EQ(script_.collected, 1) << "never started twice";
  EXPECT_EQ(StatsOf("plain").last.code, Code::kTimeout);
  EXPECT_EQ(StatsOf("plain").runs_timeout, 1u);
  script_.Block(false);
  EXPECT_TRUE(WaitFor([](const Snapshot& s) { return ValueOf(s, kRuns) >= 2; })) << "it goes on by itself";
  EXPECT_TRUE(StatsOf("plain").up);
}

TEST_F(PipelineTest, ValuesOfAFailingCollectorTurnStaleThenVanish) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kFetching})));
  pipeline_->Start();
  ASSERT_TRUE(WaitFor([](const Snapshot& s) { return ValueOf(s, kRuns) >= 1; }));
  script_.fail = true;
  EXPECT_TRUE(WaitFor([](const Snapshot& s) {
    return !s.frames.empty() && s.frames[0].frame->quality[0] == Quality::kStale;
  }));
  EXPECT_TRUE(WaitFor([](const Snapshot& s) { return ValueOf(s, kRuns) == -1; }));
  EXPECT_FALSE(StatsOf("fetching").up);
  EXPECT_GE(StatsOf("fetching").errors[static_cast<size_t>(Code::kTimeout)], 1u);
}

TEST_F(PipelineTest, AnUnavailableCollectorIsReportedAndRetriedLater) {
  script_.available = false;
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kPlain})));
  pipeline_->Start();
  ASSERT_TRUE(WaitFor([](const Snapshot& s) { return s.tick >= 5; }));
  EXPECT_EQ(script_.created, 1);
  EXPECT_EQ(StatsOf("plain").last.detail, "not on this machine");
  EXPECT_FALSE(StatsOf("plain").up);
}

TEST_F(PipelineTest, AReloadKeepsWhatIsEqualAndSwapsWhatChangedWithoutAGap) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kPlain})));
  pipeline_->Start();
  ASSERT_TRUE(WaitFor([](const Snapshot& s) { return ValueOf(s, kRuns) >= 1; }));
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kPlain, &kFetching})));
  ASSERT_TRUE(WaitFor([&](const Snapshot&) { return script_.fetched >= 1; }));
  EXPECT_EQ(script_.created, 2) << "plain was kept, fetching is new";
  PipelinePlan changed = PlanOf({&kPlain});
  changed.instances[0].ttl = milliseconds(300);
  ASSERT_TRUE(pipeline_->Apply(std::move(changed)));
  uint64_t gaps = 0;
  WaitFor([&](const Snapshot& s) {
    gaps += ValueOf(s, kRuns) == -1;
    return script_.created >= 3;
  });
  EXPECT_EQ(gaps, 0u);
  EXPECT_EQ(pipeline_->instances().size(), 1u);
}

// A sink that takes what the test lets it take.
struct TestSinkState {
  std::atomic<int> written{0}, flushed{0};
  std::mutex mutex;
  std::condition_variable wake;
  bool block = false, fail = false, all_the_time = false;
};
TestSinkState* sink_state = nullptr;
class TestSink final : public Sink {
 public:
  Status Write(const Snapshot&) override {
    std::unique_lock lock(sink_state->mutex);
    sink_state->wake.wait(lock, [] { return !sink_state->block; });
    ++sink_state->written;
    return sink_state->fail ? Status{Code::kIo, "told to fail"} : Ok();
  }
  Status Flush(Instant deadline) override {
    if (sink_state->all_the_time) {
      std::unique_lock lock(sink_state->mutex);
      sink_state->wake.wait_for(lock, deadline - RealClock().Now() + milliseconds(20), [] { return false; });
    }
    return ++sink_state->flushed, Ok();
  }
};
const SinkSpec kSink{.name = "test",
                     .help = "Test.",
                     .threaded = true,
                     .create = [](const Config&, Env&) -> Result<std::unique_ptr<Sink>> {
                       return std::unique_ptr<Sink>(std::make_unique<TestSink>());
                     }};
const SinkSpec kBadSink{
    .name = "bad", .help = "Bad.", .create = [](const Config&, Env&) -> Result<std::unique_ptr<Sink>> {
      return Status{Code::kInvalidArgument, "no such path"};
    }};

TEST_F(PipelineTest, ASlowSinkDropsTheOldestAndCounts) {
  TestSinkState state;
  sink_state = &state;
  state.block = true;
  SinkRunner runner({"test", &kSink, {}, {}}, std::make_unique<TestSink>(), *env_.clock);
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->closed_at = env_.clock->Now();
  for (int i = 0; i < 10; ++i) runner.Offer(snapshot);
  uint64_t dropped = runner.stats().dropped[static_cast<size_t>(SinkDropReason::kOverload)];
  EXPECT_GE(dropped, 7u) << "one in Write, two wait";
  {
    std::lock_guard lock(state.mutex);
    state.block = false;
    state.wake.notify_all();
  }
  runner.Stop(env_.clock->Now() + seconds(5));
  EXPECT_EQ(state.flushed, 1);
  EXPECT_EQ(static_cast<uint64_t>(state.written) + dropped, 10u);
  EXPECT_EQ(runner.stats().delivered, static_cast<uint64_t>(state.written));
}

TEST_F(PipelineTest, ASinkWithAnIntervalGetsTheLastTickBeforeItsTime) {
  TestSinkState state;
  sink_state = &state;
  SinkRunner runner({"test", &kSink, {}, std::chrono::hours(1)}, std::make_unique<TestSink>(), *env_.clock);
  auto snapshot = [&](uint64_t tick) {
    Ref<Snapshot> made = MakeRef<Snapshot>();
    made->closed_at = env_.clock->Now();
    made->tick = tick;
    return made;
  };
  runner.Offer(snapshot(1));
  runner.Offer(snapshot(2));
  runner.OfferLast(snapshot(3));
  runner.OfferLast(snapshot(3));
  runner.OfferLast({});
  runner.Stop(env_.clock->Now() + seconds(5));
  EXPECT_EQ(state.written, 2);
}

// As one whose receiver is away: it returns at the deadline and then frees what it has.
TEST_F(PipelineTest, ASinkThatFlushesUntilItsDeadlineIsNotLeftBehind) {
  TestSinkState state;
  sink_state = &state;
  state.all_the_time = true;
  SinkRunner runner({"test", &kSink, {}, {}}, std::make_unique<TestSink>(), *env_.clock);
  EXPECT_TRUE(runner.Stop(env_.clock->Now() + milliseconds(50)));
  EXPECT_EQ(state.flushed, 1);
}

TEST_F(PipelineTest, ASinkThatHangsAtStopIsLeftBehind) {
  static TestSinkState state;  // Outlives the thread that is left behind.
  sink_state = &state;
  state.block = true;
  auto runner = std::make_unique<SinkRunner>(SinkRunner::Setup{std::string(kSink.name), &kSink, {}, {}},
                                             std::make_unique<TestSink>(), *env_.clock);
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->closed_at = env_.clock->Now();
  runner->Offer(snapshot);
  runner->Offer(snapshot);
  Instant before = env_.clock->Now();
  EXPECT_FALSE(runner->Stop(before + milliseconds(50)));
  EXPECT_LT((env_.clock->Now() - before).count(), Duration(seconds(2)).count());
  runner.reset();
  std::lock_guard lock(state.mutex);
  state.block = false;
  state.wake.notify_all();
}

TEST_F(PipelineTest, ABadSinkChangesNothing) {
  ASSERT_TRUE(pipeline_->Apply(PlanOf({&kPlain})));
  PipelinePlan plan = PlanOf({&kPlain, &kFetching});
  plan.sinks.push_back({std::string(kBadSink.name), &kBadSink, {}, {}});
  Status status = pipeline_->Apply(std::move(plan));
  EXPECT_EQ(status.detail, "no such path");
  EXPECT_EQ(pipeline_->instances().size(), 1u);
}

TEST_F(PipelineTest, ASteadyTickAllocatesNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer brings its own operator new";
  PipelinePlan plan = PlanOf({&kPlain, &kFetching});
  plan.analyzers.push_back({&kDoubler, {}});
  ASSERT_TRUE(pipeline_->Apply(std::move(plan)));
  std::atomic<uint64_t> at_tick[64] = {};
  pipeline_->OnTick([&](const Ref<const Snapshot>& snapshot) {
    if (snapshot->tick < 64) at_tick[snapshot->tick] = AllAllocations();
    std::lock_guard lock(mutex_);
    ticks_ = snapshot->tick;
    ticked_.notify_all();
  });
  pipeline_->Start();
  {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(ticked_.wait_for(lock, seconds(20), [&] { return ticks_ >= 60; }));
  }
  // On a loaded machine a tick may be skipped, and a reader that is late makes a pool grow once. Were there
  // an allocation in every tick, no stretch would be without.
  uint64_t least = UINT64_MAX;
  for (size_t first = 10; first + 10 <= 60; ++first) {
    uint64_t before = at_tick[first], after = at_tick[first + 10];
    if (before && after) least = std::min(least, after - before);
  }
  ASSERT_NE(least, UINT64_MAX);
  RecordProperty("allocations_per_tick", std::to_string((least + 9) / 10));  // tools/bench.py reads it
  EXPECT_EQ(least, 0u) << "allocations in ten ticks";
}

}  // namespace
}  // namespace gpulens
