// Each metric of the reference table: a page, and the values made of it.
#include <gtest/gtest.h>

#include "catalog/inference.h"
#include "plugins/analyzers/inference/engine_testing.h"

namespace gpulens::windows {
namespace {

using std::chrono::seconds;

// 100 old observations in the first bucket, then 100 of the window: 60 of 0.3, 30 of 0.7, 8 of 2, 2 of 7.
void ExpectQuantiles(std::string_view engine, const MetricDesc& role, const MetricDesc& native) {
  EnginePage page(engine);
  AnalyzerRun run;
  page.Observe(role, {MODEL}, kBounds, 0.05, 100);
  run.Scrape(page);
  EXPECT_EQ(run.SeriesOf(native), 0u) << "one reading says nothing of a window";
  run.Wait(seconds(15));
  for (auto [value, times] : {std::pair(0.3, 60.0), {0.7, 30.0}, {2.0, 8.0}, {7.0, 2.0}}) {
    page.Observe(role, {MODEL}, kBounds, value, times);
  }
  run.Scrape(page);
  EXPECT_DOUBLE_EQ(run.Value(native, {MODEL, {"quantile", "p50"}}), 0.25 + 0.25 * 50 / 60) << native.name;
  EXPECT_DOUBLE_EQ(run.Value(native, {MODEL, {"quantile", "p90"}}), 1.0) << native.name;
  EXPECT_DOUBLE_EQ(run.Value(native, {MODEL, {"quantile", "p95"}}), 1 + 1.5 * 5 / 8) << native.name;
  EXPECT_DOUBLE_EQ(run.Value(native, {MODEL, {"quantile", "p99"}}), 7.5) << native.name;
  EXPECT_EQ(run.SeriesOf(native), 4u);
  for (int i = 0; i < 5; ++i) {
    run.Wait(seconds(15));
    run.Scrape(page);
  }
  EXPECT_FALSE(run.Has(native, {{"quantile", "p50"}})) << native.name << ": no traffic is no latency";
}

void ExpectRate(std::string_view engine, const MetricDesc& role, const MetricDesc& native,
                std::initializer_list<AttributeSet::Attribute> labels = {MODEL}) {
  EnginePage page(engine);
  AnalyzerRun run;
  page.Set(role, labels, 1'000'000);
  run.Scrape(page);
  EXPECT_EQ(run.SeriesOf(native), 0u) << "one reading is no rate";
  run.Wait(seconds(7));
  page.Add(role, labels, 700);
  run.Scrape(page);
  EXPECT_DOUBLE_EQ(run.Value(native), 100) << native.name;
  for (int i = 0; i < 10; ++i) {
    run.Wait(seconds(7));
    run.Scrape(page);
  }
  EXPECT_EQ(run.Value(native), 0) << native.name << ": no traffic is a rate of 0";
}

TEST(VllmRows, Throughput) {
  ExpectRate("vllm", kInferencePromptTokens, kVllmPromptThroughput);
  ExpectRate("vllm", kInferenceGenerationTokens, kVllmGenerationThroughput);
}

TEST(VllmRows, ThroughputOfTwoEnginesOnThePageIsSummed) {
  EnginePage page("vllm");
  AnalyzerRun run;
  page.Set(kInferenceGenerationTokens, {MODEL, RANK("0")}, 5000);
  page.Set(kInferenceGenerationTokens, {MODEL, RANK("1")}, 90);
  run.Scrape(page);
  run.Wait(seconds(7));
  page.Add(kInferenceGenerationTokens, {MODEL, RANK("0")}, 1000);
  page.Add(kInferenceGenerationTokens, {MODEL, RANK("1")}, 400);
  run.Scrape(page);
  EXPECT_DOUBLE_EQ(run.Value(kVllmGenerationThroughput), 200);
}

TEST(VllmRows, LatenciesAreQuantilesOfTheWindow) {
  ExpectQuantiles("vllm", kInferenceRequestDuration, kVllmRequestLatency);
  ExpectQuantiles("vllm", kInferenceTimeToFirstToken, kVllmTtft);
  ExpectQuantiles("vllm", kInferenceInterTokenLatency, kVllmItl);
  ExpectQuantiles("vllm", kInferencePrefillTime, kVllmPrefillDuration);
  ExpectQuantiles("vllm", kInferenceDecodeTime, kVllmDecodeDuration);
}

TEST(VllmRows, OldRequestsDoNotCount) {
  EnginePage page("vllm");
  AnalyzerRun run;
  page.Observe(kInferenceRequestDuration, {MODEL}, kBounds, 0.05, 1e6);
  run.Scrape(page);
  run.Wait(seconds(30));
  page.Observe(kInferenceRequestDuration, {MODEL}, kBounds, 8, 1000);
  run.Scrape(page);
  EXPECT_NEAR(run.Value(kVllmRequestLatency, {{"quantile", "p95"}}), 8, 5) << "within its bucket, 5 to 10 s";
  EXPECT_GT(run.Value(kVllmRequestLatency, {{"quantile", "p50"}}), 5);
}

TEST(VllmRows, QuantilesOfTwoEnginesAreOfTheirBucketsTogether) {
  EnginePage page("vllm");
  AnalyzerRun run;
  for (const char* rank : {"0", "1"}) {
    page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK(rank)}, kBounds, 0.05, 7);
  }
  run.Scrape(page);
  run.Wait(seconds(15));
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("0")}, kBounds, 0.05, 90);
  page.Observe(kInferenceTimeToFirstToken, {MODEL, RANK("1")}, kBounds, 7, 10);
  run.Scrape(page);
  EXPECT_LT(run.Value(kVllmTtft, {{"quantile", "p50"}}), 0.1);
  EXPECT_DOUBLE_EQ(run.Value(kVllmTtft, {{"quantile", "p95"}}), 7.5);
  EXPECT_EQ(run.SeriesOf(kVllmTtft), 4u) << "not one for each rank";
}

TEST(VllmRows, CacheUsageIsAMeanByType) {
  EnginePage page("vllm");
  AnalyzerRun run;
  page.Set(kInferenceKvCacheUsage, {MODEL, {"cache.type", "gpu"}, RANK("0")}, 0.25);
  page.Set(kInferenceKvCacheUsage, {MODEL, {"cache.type", "gpu"}, RANK("1")}, 0.75);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmCacheUsage), 0.5);
  EXPECT_EQ(run.Value(kVllmCacheUsage, {MODEL, {"cache.type", "gpu"}}), 0.5);
  EXPECT_FALSE(run.Has(kVllmCacheUsage, {{"cache.type", "cpu"}}));
  page.Set(kInferenceKvCacheUsage, {MODEL, {"cache.type", "cpu"}}, 0.125);
  run.Wait(seconds(15));
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmCacheUsage, {{"cache.type", "cpu"}}), 0.125);
}

TEST(VllmRows, RequestsOfTwoEnginesAreSummed) {
  EnginePage page("vllm");
  AnalyzerRun run;
  for (auto [rank, count] : {std::pair("0", 10.0), {"1", 20.0}}) {
    page.Set(kInferenceRequestsRunning, {MODEL, RANK(rank)}, count);
    page.Set(kInferenceRequestsWaiting, {MODEL, RANK(rank)}, count + 1);
  }
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmRequestsRunning), 30);
  EXPECT_EQ(run.Value(kVllmRequestsWaiting), 32);
  EXPECT_EQ(run.SeriesOf(kVllmRequestsSwapped), 0u) << "a v1 page: absent, not 0";
  page.Set(kInferenceRequestsSwapped, {MODEL}, 4);
  run.Wait(seconds(15));
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmRequestsSwapped), 4);
}

TEST(VllmRows, CacheHitRate) {
  EnginePage page("vllm");
  AnalyzerRun run;
  auto set = [&](double hits, double queries) {
    page.Set(kInferencePrefixCacheHits, {MODEL, {"cache.type", "gpu"}}, hits);
    page.Set(kInferencePrefixCacheQueries, {MODEL, {"cache.type", "gpu"}}, queries);
    page.Set(kInferencePrefixCacheQueries, {MODEL, {"cache.type", "external"}}, queries * 3);
    page.Set(kInferenceCacheHitRatio, {MODEL, {"cache.type", "gpu"}}, 0.5);
    run.Scrape(page);
    run.Wait(seconds(40));
  };
  set(1000, 9000);
  set(1300, 9400);
  EXPECT_DOUBLE_EQ(run.Value(kVllmCacheHitRate), 0.75);
  set(1300, 9400);
  set(1300, 9400);
  EXPECT_FALSE(run.Has(kVllmCacheHitRate)) << "no queries: absent, whatever the engine's own gauge says";
}

TEST(VllmRows, EnginesRatiosWithoutCounters) {
  EnginePage page("vllm");
  AnalyzerRun run;
  page.Set(kInferenceCacheHitRatio, {MODEL, {"cache.type", "gpu"}}, 0.5);
  page.Set(kInferenceSpecAcceptanceRatio, {MODEL}, 0.25);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmCacheHitRate), 0.5);
  EXPECT_EQ(run.Value(kVllmSpecDecodeAcceptanceRate), 0.25);
  EXPECT_EQ(run.SeriesOf(kVllmSpecDecodeEfficiency), 0u);
}

TEST(VllmRows, SpeculativeDecoding) {
  EnginePage page("vllm");
  AnalyzerRun run;
  auto set = [&](double drafts, double drafted, double accepted) {
    page.Set(kInferenceSpecDrafts, {MODEL}, drafts);
    page.Set(kInferenceSpecDraftTokens, {MODEL}, drafted);
    page.Set(kInferenceSpecAcceptedTokens, {MODEL}, accepted);
    run.Scrape(page);
    run.Wait(seconds(15));
  };
  set(10, 1000, 1000);
  set(110, 1500, 1200);
  EXPECT_DOUBLE_EQ(run.Value(kVllmSpecDecodeAcceptanceRate), 0.4);
  EXPECT_DOUBLE_EQ(run.Value(kVllmSpecDecodeEfficiency), 3);
}

TEST(VllmRows, Evictions) {
  ExpectRate("vllm", kInferenceKvCacheEvictions, kVllmCacheEvictions, {MODEL, {"cache.type", "gpu"}});
}
TEST(VllmRows, Preemptions) { ExpectRate("vllm", kInferencePreemptions, kVllmSchedulerPreemptions); }

TEST(VllmRows, RequestsFinishedByReason) {
  EnginePage page("vllm");
  AnalyzerRun run;
  auto add = [&](double growth) {
    page.Add(kInferenceRequestsFinished, {MODEL, {"finish_reason", "stop"}}, 5 * growth);
    page.Add(kInferenceRequestsFinished, {MODEL, {"finish_reason", "length"}}, 3 * growth);
    page.Add(kInferenceRequestsFinished, {MODEL, {"finish_reason", "abort"}}, 1 * growth);
    page.Add(kInferenceRequestsFinished, {MODEL, {"finish_reason", "error"}}, 2 * growth);
    run.Scrape(page);
    run.Wait(seconds(10));
  };
  add(1000);
  add(10);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsSuccess), 11) << "all reasons";
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {{"finish_reason", "stop"}}), 5);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {{"finish_reason", "length"}}), 3);
  EXPECT_DOUBLE_EQ(run.Value(kVllmRequestsFinished, {{"finish_reason", "abort"}}), 1);
  EXPECT_EQ(run.SeriesOf(kVllmRequestsFinished), 3u);
}

TEST(VllmRows, AdaptersInUse) {
  EnginePage page("vllm");
  AnalyzerRun run;
  page.Set(kInferenceRequestsRunning, {MODEL}, 1);
  page.Set(kInferenceLoraAdapters, {{"inference.state", "running"}}, 3);
  page.Set(kInferenceLoraAdapters, {{"inference.state", "max"}}, 8);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kVllmLoraActiveCount, {MODEL}), 3) << "of the only model, though the page does not say";
}

TEST(NimRows, RequestsAreSuccessesAndFailures) {
  EnginePage page("nim");
  AnalyzerRun run;
  page.Set(kInferenceRequestsFinished, {MODEL}, 100);
  page.Set(kInferenceRequestsFailed, {MODEL}, 7);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kNimRequestsTotal), 107);
  EXPECT_EQ(run.Value(kNimRequestsFailed), 7);
}

TEST(NimRows, ReasonsCountAllEnds) {
  EnginePage page("nim");
  AnalyzerRun run;
  page.Set(kInferenceRequestsFinished, {MODEL, {"finish_reason", "stop"}}, 60);
  page.Set(kInferenceRequestsFinished, {MODEL, {"finish_reason", "length"}}, 40);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kNimRequestsTotal), 100);
  EXPECT_EQ(run.Value(kNimRequestsFailed), 0) << "it tells reasons, and there is no such end";
  page.Set(kInferenceRequestsFinished, {MODEL, {"finish_reason", "abort"}}, 5);
  page.Set(kInferenceRequestsFinished, {MODEL, {"finish_reason", "error"}}, 2);
  run.Wait(seconds(15));
  run.Scrape(page);
  EXPECT_EQ(run.Value(kNimRequestsTotal), 107);
  EXPECT_EQ(run.Value(kNimRequestsFailed), 7);
  EXPECT_EQ(run.frame().layout->operator[](0).desc->kind, Kind::kCounter);
}

TEST(NimRows, Latencies) {
  ExpectQuantiles("nim", kInferenceRequestDuration, kNimRequestLatency);
  ExpectQuantiles("nim", kInferenceInterTokenLatency, kNimItl);
}

TEST(NimRows, QueueAndCache) {
  EnginePage page("nim");
  AnalyzerRun run;
  page.Set(kInferenceRequestsWaiting, {MODEL}, 12);
  page.Set(kInferenceKvCacheUsage, {MODEL, {"cache.type", "gpu"}}, 0.375);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kNimQueueDepth), 12);
  EXPECT_EQ(run.Value(kNimKvCacheUsage), 0.375);
  EXPECT_EQ(run.SeriesOf(kNimBatchSize), 0u) << "no NIM tells it";
  EXPECT_EQ(run.SeriesOf(kVllmRequestsWaiting), 0u);
}

TEST(NimRows, BatchSizeWhereAnEngineHasIt) {
  EnginePage page("nim");
  AnalyzerRun run;
  page.Observe(kInferenceBatchSize, {MODEL}, {1, 2, 4}, 2, 10);
  run.Scrape(page);
  run.Wait(seconds(15));
  page.Observe(kInferenceBatchSize, {MODEL}, {1, 2, 4}, 3, 8);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kNimBatchSize), 3);
}

TEST(TritonRows, Rates) {
  ExpectRate("triton", kInferenceRequestsFinished, kTritonRequestsSuccess);
  ExpectRate("triton", kInferenceRequestsFailed, kTritonRequestsFailed, {MODEL, {"error.type", "OTHER"}});
}

TEST(TritonRows, FailuresOfAllReasonsAreSummed) {
  EnginePage page("triton");
  AnalyzerRun run;
  for (double count : {3.0, 33.0}) {
    for (const char* reason : {"REJECTED", "CANCELED", "BACKEND", "OTHER"}) {
      page.Set(kInferenceRequestsFailed, {MODEL, {"error.type", reason}}, count);
    }
    run.Scrape(page);
    run.Wait(seconds(10));
  }
  EXPECT_DOUBLE_EQ(run.Value(kTritonRequestsFailed), 12);
}

TEST(TritonRows, MeansInMicroseconds) {
  struct Row {
    const MetricDesc& role;
    const MetricDesc& native;
    const char* stage;
  };
  for (const Row& row : {Row{kInferenceRequestDuration, kTritonRequestLatency, "-"},
                         Row{kInferenceQueueTime, kTritonQueueLatency, "-"},
                         Row{kInferenceStageTime, kTritonComputeInputLatency, "compute_input"},
                         Row{kInferenceInferenceTime, kTritonComputeLatency, "-"},
                         Row{kInferenceStageTime, kTritonComputeOutputLatency, "compute_output"}}) {
    EnginePage page("triton");
    AnalyzerRun run;
    page.SetMoments(row.role, {MODEL, {"inference.stage", row.stage}}, 100, 1000);
    run.Scrape(page);
    EXPECT_EQ(run.SeriesOf(row.native), 0u);
    run.Wait(seconds(40));
    page.SetMoments(row.role, {MODEL, {"inference.stage", row.stage}}, 100.5, 1200);
    run.Scrape(page);
    EXPECT_NEAR(run.Value(row.native), 2500, 1e-6) << row.native.name << ": 0.5 s for 200 requests";
    run.Wait(seconds(40));
    run.Scrape(page);
    run.Wait(seconds(40));
    run.Scrape(page);
    EXPECT_FALSE(run.Has(row.native)) << row.native.name << ": absent without requests";
  }
}

TEST(TritonRows, QueueAndBatch) {
  EnginePage page("triton");
  AnalyzerRun run;
  page.Set(kInferenceRequestsWaiting, {MODEL}, 9);
  page.SetMoments(kInferenceBatchSize, {MODEL}, 5000, 1000);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kTritonQueueDepth), 9);
  run.Wait(seconds(15));
  page.SetMoments(kInferenceBatchSize, {MODEL}, 5750, 1100);
  run.Scrape(page);
  EXPECT_DOUBLE_EQ(run.Value(kTritonBatchSize), 7.5);
}

TEST(TritonRows, EveryPointHasModelAndVersion) {
  EnginePage page("triton");
  AnalyzerRun run;
  for (double count : {100.0, 200.0}) {
    for (const char* version : {"1", "2"}) {
      double scale = version[0] - '0';
      page.Set(kInferenceRequestsFinished, {MODEL, {"model.version", version}}, count * scale);
      page.SetMoments(kInferenceQueueTime, {MODEL, {"model.version", version}}, count * scale, count);
      page.Set(kInferenceRequestsWaiting, {MODEL, {"model.version", version}}, scale);
    }
    run.Scrape(page);
    run.Wait(seconds(10));
  }
  EXPECT_DOUBLE_EQ(run.Value(kTritonRequestsSuccess, {{"model.version", "1"}}), 10);
  EXPECT_DOUBLE_EQ(run.Value(kTritonRequestsSuccess, {{"model.version", "2"}}), 20);
  EXPECT_DOUBLE_EQ(run.Value(kTritonQueueLatency, {{"model.version", "2"}}), 2e6);
  EXPECT_GT(run.frame().layout->slots(), 0u);
  for (uint32_t slot = 0; slot < run.frame().layout->slots(); ++slot) {
    const SeriesInfo& info = (*run.frame().layout)[slot];
    EXPECT_EQ(info.attributes.Text("model.name"), "llama") << info.desc->name;
    EXPECT_TRUE(info.attributes.Has("model.version")) << info.desc->name;
    EXPECT_EQ(info.attributes.Text("target"), "a");
  }
}

TEST(SglangRows, Throughput) {
  ExpectRate("sglang", kInferencePromptTokens, kSglangPromptThroughput);
  ExpectRate("sglang", kInferenceGenerationTokens, kSglangGenerationThroughput);
}

TEST(SglangRows, CacheHitRate) {
  EnginePage page("sglang");
  AnalyzerRun run;
  page.Set(kInferenceCacheHitRatio, {MODEL, {"cache.type", "gpu"}}, 0.75);
  page.Set(kInferencePromptTokens, {MODEL}, 1000);
  run.Scrape(page);
  EXPECT_EQ(run.Value(kSglangCacheHitRate), 0.75) << "as the engine says, where it does not count";
  page.Set(kInferenceCachedTokens, {MODEL, {"cache.type", "gpu"}}, 250);
  page.Set(kInferencePromptTokens, {MODEL}, 2000);
  page.Set(kInferenceCachedTokens, {MODEL, {"cache.type", "cpu"}}, 150);
  run.Wait(seconds(15));
  run.Scrape(page);
  EXPECT_DOUBLE_EQ(run.Value(kSglangCacheHitRate), 0.4) << "from the counters, which have just appeared";
}

TEST(SglangRows, Latencies) {
  ExpectQuantiles("sglang", kInferenceInterTokenLatency, kSglangItl);
  ExpectQuantiles("sglang", kInferenceTimeToFirstToken, kSglangTtft);
  ExpectQuantiles("sglang", kInferenceRequestDuration, kSglangRequestLatency);
}

TEST(SglangRows, TensorParallelRanksAreNotCountedTwice) {
  EnginePage page("sglang");
  AnalyzerRun run;
  for (const char* dp : {"0", "1"}) {
    for (const char* tp : {"2", "0", "10"}) {
      double count = dp[0] == '0' ? 10 : 20;
      page.Set(kInferenceRequestsRunning, {MODEL, RANK(dp), {"tp_rank", tp}, {"pp_rank", "0"}},
               count + (tp[0] - '0'));
      page.Set(kInferenceRequestsWaiting, {MODEL, RANK(dp), {"tp_rank", tp}, {"moe_ep_rank", "0"}}, 4);
    }
  }
  run.Scrape(page);
  EXPECT_EQ(run.Value(kSglangRequestsRunning), 30) << "rank 0 of both";
  EXPECT_EQ(run.Value(kSglangRequestsWaiting), 8);
}

TEST(TgiRows, Quantiles) {
  ExpectQuantiles("tgi", kInferenceRequestDuration, kTgiRequestLatency);
  ExpectQuantiles("tgi", kInferenceQueueTime, kTgiQueueLatency);
  ExpectQuantiles("tgi", kInferenceInferenceTime, kTgiInferenceLatency);
  ExpectQuantiles("tgi", kInferenceTimePerOutputToken, kTgiTpot);
  ExpectQuantiles("tgi", kInferenceBatchSize, kTgiBatchSize);
  ExpectQuantiles("tgi", kInferenceIterationTime, kTgiBatchForwardDuration);
  ExpectQuantiles("tgi", kInferenceRequestPromptTokens, kTgiRequestInputTokens);
  ExpectQuantiles("tgi", kInferenceRequestGenerationTokens, kTgiRequestOutputTokens);
}

TEST(TgiRows, BothPhasesOfABatchAreOneHistogram) {
  EnginePage page("tgi");
  AnalyzerRun run;
  for (int i = 0; i < 2; ++i) {
    page.Observe(kInferenceIterationTime, {{"inference.phase", "prefill"}}, kBounds, 7, 10);
    page.Observe(kInferenceIterationTime, {{"inference.phase", "decode"}}, kBounds, 0.05, 90);
    run.Scrape(page);
    run.Wait(seconds(15));
  }
  EXPECT_DOUBLE_EQ(run.Value(kTgiBatchForwardDuration, {{"quantile", "p95"}}), 7.5);
  EXPECT_LT(run.Value(kTgiBatchForwardDuration, {{"quantile", "p50"}}), 0.1);
}

}  // namespace
}  // namespace gpulens::windows
