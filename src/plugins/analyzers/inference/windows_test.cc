// Rules of windows: resets, label sets that come and go, gaps, and new series.

#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "catalog/inference.h"
#include "plugins/analyzers/inference/engine_group.h"
#include "plugins/analyzers/inference/engine_testing.h"

namespace gpulens::windows {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

#define REASON(reason) {"finish_reason", reason}

// A vLLM of one model, read every 10 s.
class Windows : public ::testing::Test {
 protected:
  void Scrape(EnginePage& what, seconds wait = seconds(10)) {
    run.Wait(wait);
    run.Scrape(what);
  }
  void Scrape() { Scrape(page); }
  void AddTokens(const char* rank, double count) {
    page.Add(kInferenceGenerationTokens, {MODEL, RANK(rank)}, count);
  }
  double Tokens() const { return run.Value(kVllmGenerationThroughput); }

  EnginePage page{"vllm"};
  AnalyzerRun run;
};

TEST_F(Windows, RatesAreOverTheTrueTimeOfTheWindow) {
  AddTokens("0", 1e6);
  Scrape();
  for (int i = 0; i < 20; ++i) {
    AddTokens("0", 100);
    Scrape(page, seconds(15));
  }
  EXPECT_DOUBLE_EQ(Tokens(), 100.0 / 15);
  AddTokens("0", 6000);
  Scrape(page, seconds(15));
  EXPECT_DOUBLE_EQ(Tokens(), 6300.0 / 60) << "four readings in 60 s";
  AddTokens("0", 900);
  Scrape(page, seconds(300));
  EXPECT_DOUBLE_EQ(Tokens(), 3) << "the last two always count, however old";
}

TEST_F(Windows, ScrapesMoreOftenThanATwentiethShareRows) {
  AddTokens("0", 5);
  Scrape();
  for (int i = 0; i < 300; ++i) {
    AddTokens("0", i < 150 ? 1000 : 1);
    Scrape(page, seconds(1));
  }
  EXPECT_DOUBLE_EQ(Tokens(), 1) << "nothing of 150 s ago";
}

TEST_F(Windows, UnchangedFrameIsNotAReading) {
  AddTokens("0", 100);
  Scrape();
  AddTokens("0", 100);
  Scrape();
  for (int i = 0; i < 8; ++i) {
    run.Wait(seconds(1));
    run.Tick();
    EXPECT_DOUBLE_EQ(Tokens(), 10) << "fresh as long as its frame is";
  }
  run.snapshot().frames[0].overdue = true;
  run.Wait(seconds(1));
  run.Tick();
  EXPECT_TRUE(std::isnan(Tokens())) << "stale";
  run.Wait(seconds(20));
  run.Tick();
  EXPECT_EQ(run.frame().quality[0], Quality::kAbsent);
}

TEST_F(Windows, RestartedEngineCountsFromZero) {
  AddTokens("0", 1e6);
  AddTokens("1", 2e6);
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, kBounds, 7, 1e6);
  Scrape();
  page.Restart();
  AddTokens("0", 30);
  AddTokens("1", 20);
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, kBounds, 0.05, 5);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 5);
  EXPECT_LT(run.Value(kVllmTtft, {{"quantile", "p99"}}), 0.1);
  AddTokens("0", 10);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 3);
}

TEST_F(Windows, OneOfTwoRanksRestarts) {
  AddTokens("0", 1e6);
  AddTokens("1", 1e6);
  Scrape();
  AddTokens("0", 400);
  page.Set(kInferenceGenerationTokens, {MODEL, RANK("1")}, 100);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 50) << "neither the million that fell away nor the one that stayed";
}

TEST_F(Windows, NewReasonOfAKnownEngineCountsFromZero) {
  page.Set(kInferenceRequestsFinished, {MODEL, REASON("stop")}, 1000);
  Scrape();
  page.Set(kInferenceRequestsFinished, {MODEL, REASON("abort")}, 30);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {REASON("abort")}), 3);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {REASON("stop")}), 0);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsSuccess), 3);
}

TEST_F(Windows, NewModelOfAKnownEngineCountsFromZero) {
  AddTokens("0", 1e6);
  Scrape();
  page.Set(kInferenceGenerationTokens, {{"model.name", "qwen"}}, 70);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmGenerationThroughput, {{"model.name", "qwen"}}), 7);
  EXPECT_DOUBLE_EQ(run.Value(kVllmGenerationThroughput, {MODEL}), 0);
}

TEST_F(Windows, NewEngineInAKnownFrameStartsWithABase) {
  Scrape();
  AddTokens("0", 1e6);
  Scrape();
  EXPECT_EQ(run.SeriesOf(kVllmGenerationThroughput), 0u) << "its million is of before";
  AddTokens("0", 10);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 1);
}

TEST_F(Windows, CreationTimesTakePrecedence) {
  AddTokens("0", 1e6);
  Scrape();
  auto finished = [&](const char* reason, int64_t created, double count) {
    page.CreatedAt(kInferenceRequestsFinished, {MODEL, REASON(reason)}, created);
    page.Set(kInferenceRequestsFinished, {MODEL, REASON(reason)}, count);
  };
  finished("stop", run.now().unix_ns - 1'000'000'000, 1e6);
  finished("abort", run.now().unix_ns + 1'000'000'000, 20);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {REASON("stop")}), 0) << "older than the last reading";
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {REASON("abort")}), 2);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {REASON("abort")}), 1) << "once";
}

TEST_F(Windows, ReplacedInstanceStartsWithBases) {
  AddTokens("0", 1e6);
  Scrape();
  AddTokens("0", 100);
  Scrape();
  EnginePage other("vllm");  // a reload of the configuration: the same source, other labels let through
  other.Set(kInferenceGenerationTokens, {MODEL, RANK("0")}, 1'000'150);
  other.Set(kInferenceGenerationTokens, {MODEL, RANK("1")}, 5e6);
  Scrape(other);
  EXPECT_DOUBLE_EQ(Tokens(), 7.5) << "rank 0 goes on, rank 1 is a base";
}

TEST_F(Windows, ReturningLabelSetContinues) {
  AddTokens("0", 1e6);
  AddTokens("1", 2e6);
  Scrape();
  page.Remove(kInferenceGenerationTokens, {MODEL, RANK("1")});
  AddTokens("0", 100);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 10) << "one that went takes nothing away";
  page.Set(kInferenceGenerationTokens, {MODEL, RANK("1")}, 2'000'300);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 20) << "400 in 20 s";
}

TEST_F(Windows, RenamedCounterAddsItsGrowth) {
  page.Set(kInferenceGenerationTokens, {MODEL, {"pod", "a"}}, 1e6);
  AddTokens("7", 50);
  Scrape();
  page.Remove(kInferenceGenerationTokens, {MODEL, {"pod", "a"}});
  page.Set(kInferenceGenerationTokens, {MODEL, {"pod", "b"}}, 1'000'200);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 20);
}

TEST_F(Windows, SplitLabelSetAddsNothing) {
  page.Set(kInferenceGenerationTokens, {MODEL, {"tenant", "other"}}, 1000);
  Scrape();
  page.Set(kInferenceGenerationTokens, {MODEL, {"tenant", "other"}}, 100);
  page.Set(kInferenceGenerationTokens, {MODEL, {"tenant", "x"}}, 920);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 2) << "1,000 are 1,020 now, whoever has them";
}

TEST_F(Windows, ReplacedWorkerCountsFromZero) {
  page.Set(kInferenceGenerationTokens, {MODEL, {"worker", "a"}}, 1e6);
  Scrape();
  page.Remove(kInferenceGenerationTokens, {MODEL, {"worker", "a"}});
  page.Set(kInferenceGenerationTokens, {MODEL, {"worker", "b"}}, 40);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 4);
}

TEST_F(Windows, ChurningLabelSetsAreDropped) {
  for (int i = 0; i < 300; ++i) {
    std::string name = "s" + std::to_string(i), old = "s" + std::to_string(i - 1);
    page.Remove(kInferenceGenerationTokens, {MODEL, {"session", std::string_view(old)}});
    page.Set(kInferenceGenerationTokens, {MODEL, {"session", std::string_view(name)}}, 10);
    AddTokens("0", 100);
    Scrape();
    if (i > 2) {
      EXPECT_GE(Tokens(), 10);
      EXPECT_LE(Tokens(), 11);
    }
  }
  page.Set(kInferenceGenerationTokens, {MODEL, {"session", "s0"}}, 1e6);
  Scrape();
  EXPECT_LE(Tokens(), 11) << "whether that one is new is not known any more";
}

TEST_F(Windows, StaleLabelSetSkipsTheReading) {
  AddTokens("0", 1e6);
  AddTokens("1", 1e6);
  Scrape();
  AddTokens("0", 100);
  AddTokens("1", 100);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 20);
  AddTokens("0", 100);
  AddTokens("1", 100);
  page.Silence(kInferenceGenerationTokens, {MODEL, RANK("1")});
  Scrape();
  EXPECT_TRUE(std::isnan(Tokens())) << "half of it is not it";
  AddTokens("0", 100);
  AddTokens("1", 100);
  page.Silence(kInferenceGenerationTokens, {MODEL, RANK("1")}, false);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 20) << "600 in 30 s";
}

TEST_F(Windows, GaugeIsNotSummedOverStaleRanks) {
  page.Set(kInferenceRequestsRunning, {MODEL, RANK("0")}, 3);
  page.Set(kInferenceRequestsRunning, {MODEL, RANK("1")}, 4);
  Scrape();
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 7);
  page.Silence(kInferenceRequestsRunning, {MODEL, RANK("1")});
  Scrape();
  EXPECT_FALSE(run.Has(kVllmRequestsRunning));
  Scrape(page, seconds(40));
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 3) << "absent by now: that rank has gone";
}

TEST_F(Windows, UnreachableEngineContinues) {
  AddTokens("0", 1e6);
  Scrape();
  page.Silence(kInferenceGenerationTokens, {MODEL, RANK("0")});
  for (int i = 0; i < 6; ++i) Scrape();
  EXPECT_EQ(run.SeriesOf(kVllmGenerationThroughput), 0u);
  page.Silence(kInferenceGenerationTokens, {MODEL, RANK("0")}, false);
  AddTokens("0", 700);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 10) << "700 in 70 s";
}

TEST_F(Windows, ChangedBoundsRestartTheWindow) {
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, kBounds, 0.05, 1000);
  Scrape();
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, kBounds, 0.05, 10);
  Scrape();
  EXPECT_TRUE(run.Has(kVllmTtft, {{"quantile", "p50"}}));
  const std::vector<double> finer = {0.01, 0.1, 1, 10};
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, finer, 5, 1000);
  Scrape();
  EXPECT_FALSE(run.Has(kVllmTtft, {{"quantile", "p50"}})) << "a base";
  page.Observe(kInferenceTimeToFirstToken, {MODEL}, finer, 0.5, 10);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmTtft, {{"quantile", "p50"}}), 0.55);
}

TEST_F(Windows, RanksAreAddedAtCommonBounds) {
  const std::vector<double> coarse = {0.25, 1, 10};
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("0")}, kBounds, 0.05, 1);
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("1")}, coarse, 0.05, 1);
  Scrape();
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("0")}, kBounds, 0.3, 50);
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("1")}, coarse, 7, 50);
  Scrape();
  EXPECT_DOUBLE_EQ(run.Value(kVllmTtft, {{"quantile", "p50"}}), 1);
  EXPECT_DOUBLE_EQ(run.Value(kVllmTtft, {{"quantile", "p90"}}), 1 + 9 * 40.0 / 50);
}

TEST_F(Windows, LowestPresentRankCounts) {
  EnginePage sglang("sglang");
  auto set = [&](const char* rank, double value) {
    sglang.Set(kInferenceGenerationTokens, {MODEL, {"tp_rank", rank}}, value);
  };
  set("0", 1000);
  set("1", 1000);
  Scrape(sglang);
  set("0", 1100);
  set("1", 1090);
  Scrape(sglang);
  EXPECT_DOUBLE_EQ(run.Value(kSglangGenerationThroughput), 10);
  sglang.Remove(kInferenceGenerationTokens, {MODEL, {"tp_rank", "0"}});
  set("1", 1200);
  Scrape(sglang);
  EXPECT_DOUBLE_EQ(run.Value(kSglangGenerationThroughput), 10) << "its copy goes on where it stood";
}

TEST_F(Windows, SeriesEndWithTheirModelAndTheirEngine) {
  AddTokens("0", 1);
  page.Set(kInferenceRequestsRunning, {{"model.name", "qwen"}}, 1);
  page.Set(kInferenceRequestsRunning, {MODEL}, 2);
  Scrape();
  EXPECT_EQ(run.SeriesOf(kVllmRequestsRunning), 2u);
  page.Remove(kInferenceRequestsRunning, {{"model.name", "qwen"}});
  Scrape();
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 2);
  EXPECT_EQ(run.SeriesOf(kVllmRequestsRunning), 1u);
  run.Wait(seconds(10));
  run.Scrape({});
  EXPECT_EQ(run.SeriesOf(kVllmRequestsRunning), 0u);
  Scrape();
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 2);
  EXPECT_EQ(run.SeriesOf(kVllmGenerationThroughput), 0u) << "a base again";
}

TEST_F(Windows, ReturningModelStartsWithBases) {
  page.Set(kInferenceRequestsRunning, {{"model.name", "qwen"}}, 1);
  AddTokens("0", 1e6);
  AddTokens("1", 1e6);
  Scrape();
  page.Remove(kInferenceGenerationTokens, {MODEL, RANK("0")});
  page.Remove(kInferenceGenerationTokens, {MODEL, RANK("1")});
  Scrape();
  AddTokens("0", 1e6);
  Scrape();
  AddTokens("0", 100);
  AddTokens("1", 1e6);
  Scrape();
  EXPECT_DOUBLE_EQ(Tokens(), 10) << "whether rank 1 is new is not known";
}

TEST_F(Windows, EnginesAreKeptApart) {
  EnginePage second("vllm", "b"), triton("triton", "c"), unknown("llama.cpp", "d");
  for (double count : {100.0, 150.0}) {
    for (EnginePage* each : {&page, &second, &triton, &unknown}) {
      each->Set(kInferenceRequestsFinished, {MODEL, REASON("stop")}, each == &second ? 2 * count : count);
    }
    run.Wait(seconds(10));
    run.Scrape({&page, &second, &triton, &unknown});
  }
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsSuccess, {{"target", "a"}}), 5);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsSuccess, {{"target", "b"}}), 10);
  EXPECT_DOUBLE_EQ(run.Value(kTritonRequestsSuccess), 5);
  EXPECT_EQ(run.SeriesOf(kVllmRequestsSuccess), 2u);
}

TEST_F(Windows, ShareAboveOneIsRejected) {
  for (double hits : {100.0, 700.0}) {
    page.Set(kInferencePrefixCacheHits, {MODEL, {"cache.type", "gpu"}}, hits);
    page.Set(kInferencePrefixCacheQueries, {MODEL, {"cache.type", "gpu"}}, hits / 2);
    Scrape();
  }
  EXPECT_FALSE(run.Has(kVllmCacheHitRate));
  EXPECT_EQ(run.writer().counts().rejected[static_cast<size_t>(Validation::kOutOfRange)], 1u);
}

TEST_F(Windows, EngineWithoutModelHasNone) {
  page.Set(kInferenceRequestsRunning, {}, 4);
  Scrape();
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 4);
  EXPECT_FALSE((*run.frame().layout)[0].attributes.Has("model.name"));
}

TEST_F(Windows, SteadyRunsDoNotAllocate) {
  std::vector<std::unique_ptr<EnginePage>> pages;
  std::initializer_list<const MetricDesc*> histograms = {
      &kInferenceRequestDuration, &kInferenceTimeToFirstToken, &kInferenceInterTokenLatency,
      &kInferencePrefillTime, &kInferenceDecodeTime};
  auto work = [&](EnginePage& engine) {
    for (const char* rank : {"0", "1"}) {
      for (const MetricDesc* desc : histograms) engine.Observe(*desc, {MODEL, RANK(rank)}, kBounds, 0.3, 5);
      engine.Add(kInferenceGenerationTokens, {MODEL, RANK(rank)}, 10);
      engine.Set(kInferenceRequestsRunning, {MODEL, RANK(rank)}, 3);
      engine.Add(kInferenceRequestsFinished, {MODEL, RANK(rank), REASON("stop")}, 10);
      engine.Add(kInferencePrefixCacheHits, {MODEL, RANK(rank), {"cache.type", "gpu"}}, 10);
      engine.Add(kInferencePrefixCacheQueries, {MODEL, RANK(rank), {"cache.type", "gpu"}}, 20);
    }
  };
  EnginePage first("vllm", "a"), second("vllm", "b");
  uint64_t allocations = 0;
  for (int i = 0; i < 400; ++i) {
    run.Wait(milliseconds(1500));
    // Every tenth time there is no traffic, every third tick has the frames of the one before.
    if (i % 10 != 0 || i == 0) work(first);
    work(second);
    if (i % 3 != 2) run.Scrape({&first, &second});
    uint64_t before = ThreadAllocations();
    run.Tick();
    if (i > 200) allocations += ThreadAllocations() - before;
  }
  EXPECT_EQ(allocations, 0u) << "while no frame moved";
  allocations = 0;
  for (int i = 0; i < 100; ++i) {
    run.Wait(milliseconds(1500));
    work(first);
    Ref<const Frame> moved = first.Run(run.now());
    run.snapshot().frames[0].frame = moved;
    uint64_t before = ThreadAllocations();
    run.Tick();
    if (i > 50) allocations += ThreadAllocations() - before;
  }
  EXPECT_EQ(allocations, 0u) << "while frames moved";
  EXPECT_TRUE(run.Has(kVllmTtft, {{"target", "a"}, {"quantile", "p99"}}));
  EXPECT_EQ(run.Value(kVllmCacheHitRate, {{"target", "a"}}), 0.5);
}

TEST(FullTable, IsDeclaredOnceAReading) {
  EnginePage page("vllm");
  SeriesTable table(SeriesTable::Options{.budget = nullptr, .limit = 1, .describe = {}});
  FrameWriter out(table, seconds(10));
  EngineSource source("engines/a");
  FeedScratch scratch;
  ManualClock clock;
  page.Set(kInferenceRequestsRunning, {MODEL}, 1);
  page.Set(kInferenceRequestsWaiting, {MODEL}, 2);
  for (uint64_t reading = 1; reading <= 2; ++reading) {
    clock.Advance(seconds(10));
    Ref<const Frame> frame = page.Run(clock.Now());
    for (int tick = 0; tick < 5; ++tick) {
      out.Begin(clock.Now());
      source.Update({frame, "engines/a", Precedence::kNative, false}, seconds(60), scratch, out);
      EXPECT_TRUE(out.Finish());
    }
    EXPECT_EQ(table.refused(SeriesRefusal::kLimit), reading);
  }
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(out.counts().invalid, 0u);
  source.End(table);
  EXPECT_EQ(table.size(), 0u);
}

TEST(Memory, OfAnEngineIsAsDocumented) {
  EnginePage page("vllm");
  SeriesTable table;
  FrameWriter out(table, seconds(10));
  EngineSource source("engines/a");
  FeedScratch scratch;
  std::vector<double> bounds(24);
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>(i + 1);
  ManualClock clock;
  size_t before = 0;
  for (bool with_histogram : {false, true}) {
    for (int i = 0; i < 200; ++i) {
      clock.Advance(seconds(1));
      page.Add(kInferenceGenerationTokens, {MODEL}, 1);
      if (with_histogram) page.Observe(kInferenceTimeToFirstToken, {MODEL}, bounds, 3, 1);
      Ref<const Frame> frame = page.Run(clock.Now());
      out.Begin(clock.Now());
      source.Update({frame, "engines/a", Precedence::kNative, false}, seconds(60), scratch, out);
      static_cast<void>(out.Finish());
    }
    if (!with_histogram) before = source.memory_bytes();
  }
  EXPECT_LT(source.memory_bytes() - before, 5.7 * 1024);
  EXPECT_EQ(source.groups(), 1u);
}

}  // namespace
}  // namespace gpulens::windows
