#include "plugins/analyzers/cost/engine_readings.h"

#include <gtest/gtest.h>

#include "plugins/analyzers/cost/cost_testing.h"

namespace gpulens::cost {
namespace {

using namespace std::string_view_literals;
using ledger::EngineReading;
using ledger::EngineWork;
using std::chrono::seconds;

const AttributeSet kLlama({{"model.name", "llama"sv}}), kQwen({{"model.name", "qwen"sv}});
AttributeSet Rank(std::string_view key, int64_t rank) {
  return AttributeSet({{key, rank}}).OverlaidOn(kLlama);
}

class EngineReadingsTest : public ::testing::Test {
 protected:
  std::vector<EngineReading> Tick(std::initializer_list<TestSource*> sources) {
    clock_.Advance(seconds(15));
    Snapshot snapshot;
    snapshot.closed_at = clock_.Now();
    for (TestSource* source : sources) {
      source->Run(clock_.Now());
      snapshot.frames.push_back(source->entry());
    }
    changed_ = readings_.Follow(snapshot);
    std::vector<EngineReading> out;
    for (const EngineReading* one : readings_.Take(snapshot)) out.push_back(*one);
    EXPECT_TRUE(readings_.Take(snapshot).empty() || !out.empty());
    return out;
  }
  EngineWork Only(TestSource& source) {
    auto all = Tick({&source});
    EXPECT_EQ(all.size(), 1u);
    if (all.size() != 1 || all[0].work.size() != 1) return {};
    return all[0].work[0];
  }

  ManualClock clock_;
  EngineReadings readings_;
  bool changed_ = false;
};

TEST_F(EngineReadingsTest, ThePageOfAnEngine) {
  EntityRef engine = TestEngine("vllm-8000", "engine", AttributeSet({{"k8s.pod.uid", "uid-1"sv}}), 321);
  TestSource page("targets/vllm-8000");
  page.Set(engine, kInferencePromptTokens, kLlama, 1000);
  page.Set(engine, kInferenceCachedTokens, AttributeSet({{"cache.type", "gpu"sv}}).OverlaidOn(kLlama), 300);
  page.Set(engine, kInferenceCachedTokens, AttributeSet({{"cache.type", "host"sv}}).OverlaidOn(kLlama), 100);
  page.Set(engine, kInferencePrefixCacheHits, kLlama, 77777);
  page.Set(engine, kInferenceGenerationTokens, kLlama, 500);
  page.SetSum(engine, kInferencePrefillTime, kLlama, 12.5, 10);
  page.SetSum(engine, kInferenceDecodeTime, kLlama, 40, 10);
  page.Set(engine, kInferenceRecomputedTokens, kLlama, 20);
  page.Set(engine, kInferenceSpecDraftTokens, kLlama, 90);
  page.Set(engine, kInferenceSpecAcceptedTokens, kLlama, 60);
  for (auto [reason, count] : {std::pair("stop"sv, 7), std::pair("length"sv, 2), std::pair("abort"sv, 1)})
    page.Set(engine, kInferenceRequestsFinished, AttributeSet({{"finish_reason", reason}}).OverlaidOn(kLlama),
             count);
  page.Set(engine, kInferenceRequestsRunning, kLlama, 3);
  page.Set(engine, kInferenceRequestsWaiting, kLlama, 4);
  auto readings = Tick({&page});
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].engine, "vllm-8000");
  EXPECT_EQ(readings[0].at_ns, clock_.Now().boot_ns);
  ASSERT_EQ(readings[0].work.size(), 1u);
  const EngineWork& work = readings[0].work[0];
  EXPECT_EQ(work.model, "llama");
  EXPECT_EQ(work.prompt_tokens, 1000);
  EXPECT_EQ(work.cached_tokens, 400) << "of all caches; hits of the prefix cache are a fallback";
  EXPECT_EQ(work.generated_tokens, 500);
  EXPECT_EQ(work.prefill_seconds, 12.5);
  EXPECT_EQ(work.decode_seconds, 40);
  EXPECT_EQ(work.recomputed_tokens, 20);
  EXPECT_EQ(work.rejected_tokens, 30);
  EXPECT_EQ(work.cancelled_requests, 1);
  EXPECT_EQ(work.finished_requests, 10);
  EXPECT_EQ(work.running, 3);
  EXPECT_EQ(work.waiting, 4);
  ASSERT_EQ(readings_.engines().size(), 1u);
  EXPECT_EQ(readings_.engines()[0], (EngineIdentity{"vllm-8000", 321, {"uid-1", "", ""}}));
  EXPECT_EQ(readings_.EngineEntity("vllm-8000"), engine);
  EXPECT_TRUE(changed_);
  Tick({&page});
  EXPECT_FALSE(changed_);
}

TEST_F(EngineReadingsTest, RanksOfTensorAndPipelineParallelismCountOnce) {
  EntityRef engine = TestEngine("sglang");
  TestSource page("targets/sglang");
  for (int64_t rank = 0; rank < 8; ++rank) {
    page.Set(engine, kInferenceGenerationTokens, Rank("tp_rank", rank), 100 + static_cast<double>(rank));
  }
  page.Set(engine, kInferenceRequestsRunning, Rank("inference.dp_rank", 0), 2);
  page.Set(engine, kInferenceRequestsRunning, Rank("inference.dp_rank", 1), 3);
  const EngineWork work = Only(page);
  EXPECT_EQ(work.generated_tokens, 100) << "the lowest rank";
  EXPECT_EQ(work.running, 5) << "data parallel ranks have requests of their own";
}

TEST_F(EngineReadingsTest, WhatAPageLacksIsUnknown) {
  EntityRef engine = TestEngine("a");
  TestSource page("targets/a");
  page.Set(engine, kInferenceRequestsRunning, kLlama, 0);
  page.Set(engine, kInferenceSpecDraftTokens, kLlama, 90);
  const EngineWork work = Only(page);
  EXPECT_EQ(work.running, 0);
  EXPECT_FALSE(work.prompt_tokens >= 0);
  EXPECT_FALSE(work.rejected_tokens >= 0) << "a difference needs both numbers";
  EXPECT_FALSE(work.finished_requests >= 0);
}

TEST_F(EngineReadingsTest, FallbacksOfTokensAndRequests) {
  EntityRef engine = TestEngine("a");
  TestSource page("targets/a");
  page.SetSum(engine, kInferenceRequestPromptTokens, kLlama, 900, 9);
  page.SetSum(engine, kInferenceRequestDuration, kLlama, 33, 9);
  page.Set(engine, kInferencePrefixCacheHits, kLlama, 250);
  page.Set(engine, kInferenceRequestsAborted, kLlama, 2);
  const EngineWork work = Only(page);
  EXPECT_EQ(work.prompt_tokens, 900);
  EXPECT_EQ(work.finished_requests, 9) << "requests that were aborted are no substitute";
  EXPECT_EQ(work.cached_tokens, 250);
  EXPECT_EQ(work.cancelled_requests, 2);
  page.Set(engine, kInferenceRequestsFinished, kLlama, 40);
  EXPECT_EQ(Only(page).finished_requests, 42) << "counted apart";
}

TEST_F(EngineReadingsTest, AStaleSeriesMakesNoReading) {
  EntityRef engine = TestEngine("a");
  TestSource page("targets/a");
  page.Set(engine, kInferencePromptTokens, kLlama, 10);
  page.Set(engine, kInferenceGenerationTokens, kLlama, 20);
  EXPECT_EQ(Tick({&page}).size(), 1u);
  clock_.Advance(-seconds(10));  // within the time to live
  page.Silence(engine, kInferencePromptTokens, kLlama);
  EXPECT_TRUE(Tick({&page}).empty()) << "a part would pass for the whole";
}

TEST_F(EngineReadingsTest, RoutersAndGatewaysDoNotComputeTokens) {
  EntityRef engine = TestEngine("a"), frontend = TestEngine("front", "router"),
            gateway = TestEngine("gw", "gateway");
  EntityRef worker = TestEngine("w", "worker"), inner = TestEngine("both"),
            outer = TestEngine("both", "worker");
  TestSource page("targets/all");
  for (const EntityRef& one : {engine, frontend, gateway, worker, inner, outer})
    page.Set(one, kInferenceGenerationTokens, kLlama, 5);
  auto readings = Tick({&page});
  std::vector<std::string> names;
  for (const EngineReading& one : readings) {
    names.push_back(one.engine);
    EXPECT_EQ(one.work[0].generated_tokens, 5) << one.engine;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a", "both", "w"}));
}

TEST_F(EngineReadingsTest, ModelsOfOneEngineAreApart) {
  EntityRef engine = TestEngine("a");
  TestSource page("targets/a");
  page.Set(engine, kInferenceGenerationTokens, kLlama, 5);
  page.Set(engine, kInferenceGenerationTokens, kQwen, 6);
  auto readings = Tick({&page});
  ASSERT_EQ(readings.size(), 1u);
  ASSERT_EQ(readings[0].work.size(), 2u);
  EXPECT_EQ(readings[0].work[0].model, "llama");
  EXPECT_EQ(readings[0].work[1].generated_tokens, 6);
}

TEST_F(EngineReadingsTest, AnEngineThatEndedIsNoLongerListed) {
  EntityRef engine = TestEngine("a");
  TestSource page("targets/a"), other("nvidia");
  page.Set(engine, kInferenceGenerationTokens, kLlama, 5);
  other.Set(TestGpu(0), kGpuPowerDraw, 5);
  Tick({&page, &other});
  EXPECT_EQ(readings_.engines().size(), 1u);
  Tick({&other});
  EXPECT_TRUE(changed_);
  EXPECT_TRUE(readings_.engines().empty());
}

}  // namespace
}  // namespace gpulens::cost
