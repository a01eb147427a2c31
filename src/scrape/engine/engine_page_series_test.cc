#include "scrape/engine/engine_page_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>

#include "base/check.h"
#include "base/files.h"
#include "base/testing/allocations.h"
#include "scrape/engine/engine_page_testing.h"

namespace gpulens::engine_page {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

// Of an engine's page: without what is on every series.
std::map<std::string, double> Of(const EngineFixture& fixture) {
  return fixture.Values({"target", "inference.engine", "inference.layer"});
}

TEST(EnginePage, MapsFamiliesWithUnitsAndAttributes) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n"
      "# TYPE vllm:prompt_tokens_total counter\n"
      "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 700\n");
  EXPECT_TRUE(fixture.last.ok());
  EXPECT_THAT(
      fixture.Values(),
      ElementsAre(Pair("inference.requests.running{inference.dp_rank=0,inference.engine=vllm,inference.layer="
                       "engine,model.name=m,target=t}",
                       3),
                  Pair("inference.tokens.prompt{inference.dp_rank=0,inference.engine=vllm,inference.layer="
                       "engine,model.name=m,target=t}",
                       700)));
}

TEST(EnginePage, TheProcessOfThePageIsAHiddenFact) {
  EngineFixture fixture(EnginePageSeries::Options{.target = "t", .pid = 321});
  fixture.Read("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n");
  const SeriesInfo& info = (*fixture.frame->layout)[0];
  EXPECT_EQ(info.entity->facts.Text("process.pid"), "321");
  EXPECT_FALSE(info.attributes.Has("process.pid")) << "on no series";
}

TEST(EnginePage, RejectsOtherAndEmptyPages) {
  EngineFixture fixture;
  fixture.Read("# TYPE node_load1 gauge\nnode_load1 1\n");
  EXPECT_EQ(fixture.last.code, Code::kDataLoss);
  EXPECT_THAT(fixture.Values(), IsEmpty());
  // It becomes one while it is watched.
  fixture.Read("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n");
  EXPECT_TRUE(fixture.last.ok());
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.requests.running{}", 3)));
}

TEST(EnginePage, CountsAnAliasOnce) {
  EngineFixture fixture;
  const std::string older =
      "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n";
  fixture.Read(older);
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.kv_cache.usage{cache.type=gpu,model.name=m}", 0.5)));
  fixture.Read(older +
               "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.kv_cache.usage{cache.type=gpu,model.name=m}", 0.25)));
  EXPECT_EQ(fixture.series.families().unknown(), 0u);
}

TEST(EnginePage, HistogramsHaveTheMetricsUnit) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE nv_inference_first_response_histogram_ms histogram\n"
      "nv_inference_first_response_histogram_ms_bucket{model=\"m\",version=\"1\",le=\"100\"} 2\n"
      "nv_inference_first_response_histogram_ms_bucket{model=\"m\",version=\"1\",le=\"+Inf\"} 3\n"
      "nv_inference_first_response_histogram_ms_sum{model=\"m\",version=\"1\"} 650\n"
      "nv_inference_first_response_histogram_ms_count{model=\"m\",version=\"1\"} 3\n"
      "# TYPE nv_inference_count counter\nnv_inference_count{model=\"m\",version=\"1\"} 1\n");
  const std::string name = "inference.time_to_first_token{model.name=m,model.version=1}";
  auto values = Of(fixture);
  EXPECT_EQ(values[name + " le=0.1"], 2);
  EXPECT_EQ(values[name + " le=+Inf"], 3);
  EXPECT_DOUBLE_EQ(values[name + " sum"], 0.65);
  EXPECT_EQ(values[name + " count"], 3);
  // A sum without its count is not a histogram.
  EXPECT_THAT(values, Not(Contains(Key("inference.scheduler.batch_size{model.name=m,model.version=1} sum"))));
}

TEST(EnginePage, TwoCountersMakeAHistogramWithoutBuckets) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE nv_inference_count counter\nnv_inference_count{model=\"m\",version=\"1\"} 8\n"
      "# TYPE nv_inference_exec_count counter\nnv_inference_exec_count{model=\"m\",version=\"1\"} 2\n"
      "# TYPE nv_inference_request_success counter\nnv_inference_request_success{model=\"m\",version=\"1\"} "
      "4\n"
      "# TYPE nv_inference_request_duration_us counter\n"
      "nv_inference_request_duration_us{model=\"m\",version=\"1\"} 2000000\n");
  const std::string of = "{model.name=m,model.version=1} ";
  auto values = Of(fixture);
  EXPECT_EQ(values["inference.scheduler.batch_size" + of + "sum"], 8);
  EXPECT_EQ(values["inference.scheduler.batch_size" + of + "count"], 2);
  EXPECT_DOUBLE_EQ(values["inference.request.duration" + of + "sum"], 2);
  EXPECT_EQ(values["inference.request.duration" + of + "count"], 4);
}

TEST(EnginePage, PersonalLabelsAreDroppedAndTheirSeriesAdded) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE litellm_total_tokens_metric_total counter\n"
      "# TYPE litellm_input_tokens_metric_total counter\n"
      "litellm_input_tokens_metric_total{model=\"m\",user=\"a\",team=\"x\"} 10\n"
      "litellm_input_tokens_metric_total{model=\"m\",user=\"b\",team=\"x\"} 5\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.tokens.prompt{model.name=m,team=x}", 15)));
}

TEST(EnginePage, ChoosesBetweenLabelValues) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE sglang:cached_tokens_total counter\n"
      "sglang:cached_tokens_total{cache_source=\"total\",model_name=\"m\"} 9\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.tokens.cached{cache.type=total,model.name=m}", 9)));
  fixture.Read(
      "# TYPE sglang:cached_tokens_total counter\n"
      "sglang:cached_tokens_total{cache_source=\"total\",model_name=\"m\"} 9\n"
      "sglang:cached_tokens_total{cache_source=\"device\",model_name=\"m\"} 7\n"
      "sglang:cached_tokens_total{cache_source=\"storage_file\",model_name=\"m\"} 2\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.tokens.cached{cache.type=disk,model.name=m}", 2),
                                       Pair("inference.tokens.cached{cache.type=gpu,model.name=m}", 7)));
}

TEST(EnginePage, AcceptsOtherPrefixes) {
  for (const char* page : {"# TYPE vllm_prompt_tokens_total counter\nvllm_prompt_tokens_total 4\n",
                           "# TYPE ray_vllm_prompt_tokens_total counter\nray_vllm_prompt_tokens_total 4\n",
                           "# TYPE ray_vllm:prompt_tokens_total counter\nray_vllm:prompt_tokens_total 4\n"}) {
    EngineFixture fixture;
    fixture.Read(page);
    EXPECT_THAT(fixture.Values({"target", "inference.layer"}),
                ElementsAre(Pair("inference.tokens.prompt{inference.engine=vllm}", 4)))
        << page;
  }
  EngineFixture fixture;
  fixture.Read("# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total 4\n# EOF\n",
               ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.tokens.prompt{}", 4)));
}

TEST(EnginePage, SeveralEnginesOnOnePage) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{model_name=\"m\"} 4\n"
      "# TYPE lmcache:num_hit_tokens_total counter\nlmcache:num_hit_tokens_total{model_name=\"m\"} 3\n"
      "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1700000000\n");
  auto names = fixture.Names();
  EXPECT_THAT(
      names,
      Contains(
          "inference.tokens.prompt{inference.engine=vllm,inference.layer=engine,model.name=m,target=t}"));
  EXPECT_THAT(names,
              Contains("inference.engine.start_time{inference.engine=vllm,inference.layer=engine,target=t}"));
  bool lmcache = false;
  for (const std::string& name : names)
    lmcache |= name.find("inference.engine=lmcache,inference.layer=cache") != std::string::npos;
  EXPECT_TRUE(lmcache);
}

TEST(EnginePage, NimReadsVllmsFamiliesAsItsOwn) {
  EngineFixture fixture("nim");
  fixture.Read("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 2\n");
  EXPECT_THAT(fixture.Values({"target", "inference.layer"}),
              ElementsAre(Pair("inference.requests.waiting{inference.engine=nim}", 2)));
}

TEST(EnginePage, ReadsNumbersInLabels) {
  EngineFixture fixture;
  const std::string head = "# TYPE vllm:lora_requests_info gauge\n";
  fixture.Read(head +
               "vllm:lora_requests_info{running_lora_adapters=\"a,b\",max_lora=\"4\"} 100\n"
               "vllm:lora_requests_info{running_lora_adapters=\"a\",max_lora=\"4\"} 200\n");
  EXPECT_THAT(Of(fixture), Contains(Pair("inference.lora.adapters{inference.state=running}", 1)))
      << "the newest";
  fixture.Read(head + "vllm:lora_requests_info{running_lora_adapters=\"\",max_lora=\"4\"} 300\n");
  EXPECT_THAT(Of(fixture), Contains(Pair("inference.lora.adapters{inference.state=running}", 0)));
}

TEST(EnginePage, ThinsManyBuckets) {
  std::string page = "# TYPE tgi_batch_next_size histogram\n";
  for (int i = 1; i <= 1024; ++i)
    page += "tgi_batch_next_size_bucket{le=\"" + std::to_string(i) + "\"} " + std::to_string(i) + "\n";
  page +=
      "tgi_batch_next_size_bucket{le=\"+Inf\"} 1030\ntgi_batch_next_size_sum 5\ntgi_batch_next_size_count "
      "1030\n";
  EngineFixture fixture;
  fixture.Read(page);
  auto values = Of(fixture);
  EXPECT_LE(values.size(), 72u);
  EXPECT_EQ(values["inference.scheduler.batch_size{} le=8"], 8);
  EXPECT_EQ(values["inference.scheduler.batch_size{} le=+Inf"], 1030);
  EXPECT_EQ(values["inference.scheduler.batch_size{} count"], 1030);
}

TEST(EnginePage, EndsVanishedAndChangedSeries) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE sglang:kv_transfer_latency_ms gauge\nsglang:kv_transfer_latency_ms 30\n"
      "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 1\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.requests.running{}", 1)));
  fixture.Read(
      "# TYPE sglang:kv_transfer_latency_ms histogram\nsglang:kv_transfer_latency_ms_bucket{le=\"5\"} 1\n"
      "sglang:kv_transfer_latency_ms_bucket{le=\"+Inf\"} 1\nsglang:kv_transfer_latency_ms_sum 3\n"
      "sglang:kv_transfer_latency_ms_count 1\n");
  EXPECT_THAT(Of(fixture), Not(Contains(Key("inference.requests.running{}"))));
  bool there = false;
  for (const auto& [name, value] : Of(fixture))
    there |= name.starts_with("inference.kv_transfer.duration") && name.ends_with("le=0.005");
  EXPECT_TRUE(there);
}

TEST(EnginePage, CutPageKeepsMissingValues) {
  EngineFixture fixture;
  const std::string head =
      "# TYPE vllm:e2e_request_latency_seconds "
      "histogram\nvllm:e2e_request_latency_seconds_bucket{le=\"1.0\"} ";
  fixture.Read(head +
                   "1\nvllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} "
                   "2\nvllm:e2e_request_latency_seconds_sum 5\n"
                   "vllm:e2e_request_latency_seconds_count 2\n# EOF\n",
               ExpositionFormat::kOpenMetrics100);
  fixture.Read(head + "7\n", ExpositionFormat::kOpenMetrics100);
  EXPECT_FALSE(fixture.complete);
  // Nothing fresh: the whole histogram is as old as the page before.
  EXPECT_THAT(Of(fixture), IsEmpty());
  EXPECT_EQ(fixture.Names().size(), 1u);
}

TEST(EnginePage, RestartsCountersThatFell) {
  EngineFixture fixture;
  const std::string head = "# TYPE vllm:e2e_request_latency_seconds histogram\n";
  auto page = [&](int count) {
    std::string n = std::to_string(count);
    return head + "vllm:e2e_request_latency_seconds_bucket{le=\"1.0\"} " + n +
           "\nvllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} " + n +
           "\nvllm:e2e_request_latency_seconds_sum " + n + "\nvllm:e2e_request_latency_seconds_count " + n +
           "\n";
  };
  fixture.Read(page(10));
  fixture.Read(page(20));
  int64_t before = (*fixture.frame->layout)[0].start_unix_ns;
  fixture.Read(page(3));
  EXPECT_GT((*fixture.frame->layout)[0].start_unix_ns, before);
}

TEST(EnginePage, AppliesALaterModel) {
  EngineFixture fixture;
  const std::string page = "# TYPE tgi_queue_size gauge\ntgi_queue_size 2\n";
  fixture.Read(page);
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.requests.waiting{}", 2)));
  fixture.series.SetModel("m");
  fixture.Read(page);
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.requests.waiting{model.name=m}", 2)));
}

TEST(EnginePage, CountsSeriesAboveTheLimit) {
  EngineFixture fixture({.target = "t"}, 1);
  fixture.Read(
      "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"a\"} 1\n"
      "vllm:num_requests_running{model_name=\"b\"} 2\n");
  EXPECT_EQ(fixture.table.size(), 1u);
  EXPECT_GT(fixture.table.refused(SeriesRefusal::kLimit), 0u);
  EXPECT_EQ(fixture.series.drops().dropped[static_cast<size_t>(SeriesDrop::kLimit)], 1u);
}

TEST(EnginePage, RulesCombineSeries) {
  SeriesRules rules;
  rules.drop = {"priority"};
  EngineFixture fixture({.target = "t", .rules = rules});
  fixture.Read(
      "# TYPE vllm:request_success_total counter\n"
      "vllm:request_success_total{model_name=\"m\",finished_reason=\"stop\",priority=\"1\"} 4\n"
      "vllm:request_success_total{model_name=\"m\",finished_reason=\"stop\",priority=\"2\"} 3\n"
      "vllm:request_success_total{model_name=\"m\",finished_reason=\"abort\",priority=\"2\"} 1\n");
  EXPECT_THAT(Of(fixture),
              ElementsAre(Pair("inference.requests.finished{finish_reason=abort,model.name=m}", 1),
                          Pair("inference.requests.finished{finish_reason=stop,model.name=m}", 7)));
  EXPECT_TRUE(fixture.series.drops().folds);
  EXPECT_EQ(fixture.series.drops().folded, 1u);
}

TEST(EnginePage, SteadyPageDoesNotAllocate) {
  std::string pages[2];
  for (int p = 0; p < 2; ++p) {
    std::string n = std::to_string(p + 5);
    for (const char* model : {"a", "b", "c"}) {
      std::string of = std::string("{model_name=\"") + model + "\"";
      pages[p] += "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running" + of + "} " + n + "\n";
      pages[p] += "# TYPE vllm:e2e_request_latency_seconds histogram\n";
      for (const char* le : {"0.1", "1.0", "+Inf"})
        pages[p] += "vllm:e2e_request_latency_seconds_bucket" + of + ",le=\"" + le + "\"} " + n + "\n";
      pages[p] += "vllm:e2e_request_latency_seconds_sum" + of + "} " + n + "\n";
      pages[p] += "vllm:e2e_request_latency_seconds_count" + of + "} " + n + "\n";
    }
  }
  EngineFixture fixture;
  for (int i = 0; i < 10; ++i) fixture.Read(pages[i % 2 == 0 ? 0 : 1]);
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 50; ++i) fixture.Read(pages[1]);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(fixture.table.size(), 6u);
}

// The only series of a role.
const SeriesInfo& InfoOf(const EngineFixture& fixture, std::string_view role) {
  const SeriesInfo* found = nullptr;
  for (uint32_t slot = 0; slot < fixture.frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*fixture.frame->layout)[slot];
    if (info.desc && info.desc->name == role) found = &info;
  }
  CHECK(found != nullptr);
  return *found;
}

// Families that tools/engine_release.py read from the sources of the newest releases.
TEST(EnginePage, EveryFamilyOfTheNewestReleasesIsKnown) {
  namespace fs = std::filesystem;
  size_t pages = 0;
  for (const auto& entry :
       fs::directory_iterator(GPULENS_SOURCE_DIR "/src/scrape/engine/testdata/releases")) {
    const std::string engine = entry.path().stem().string();
    SCOPED_TRACE(engine);
    auto body = ReadFile(entry.path().string(), 1 << 20);
    ASSERT_TRUE(body.ok());
    EngineFixture fixture;
    fixture.Read(*body);
    ASSERT_TRUE(fixture.last.ok()) << fixture.last.detail;
    const PageFamilies& families = fixture.series.families();
    EXPECT_TRUE(std::any_of(families.engines().begin(), families.engines().end(),
                            [&](const Engine* one) { return one->name == engine; }));
    for (size_t i = 0; i < families.families().size(); ++i) {
      const std::string& name = fixture.page.families()[i].name;
      EXPECT_NE(families.families()[i].kind, KnownFamily::kUnknown) << name;
      EXPECT_FALSE(families.families()[i].other_type) << name;
    }
    ++pages;
  }
  EXPECT_GE(pages, 6u);
}

// As Prometheus' /federate, and pages without TYPE lines.
TEST(EnginePage, HistogramsWithoutATypeAreKnown) {
  const std::string samples =
      "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"1\"} 1\n"
      "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 2\n"
      "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 2\n"
      "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 3\n";
  for (const std::string types : {"", "# TYPE vllm:time_to_first_token_seconds untyped\n",
                                  "# TYPE vllm:time_to_first_token_seconds_bucket untyped\n"
                                  "# TYPE vllm:time_to_first_token_seconds_count untyped\n"
                                  "# TYPE vllm:time_to_first_token_seconds_sum untyped\n"}) {
    EngineFixture fixture;
    fixture.Read(types + samples);
    auto values = Of(fixture);
    const std::string of = "inference.time_to_first_token{model.name=m} ";
    EXPECT_EQ(values[of + "le=1"], 1) << types;
    EXPECT_EQ(values[of + "sum"], 3);
    EXPECT_EQ(values[of + "count"], 2);
    EXPECT_EQ(fixture.series.families().unknown(), 0u);
  }
}

TEST(EnginePage, SeparateSumAndCountMakeAHistogram) {
  EngineFixture fixture;
  fixture.Read(
      "vllm:time_to_first_token_seconds_count{model_name=\"m\"} 2\n"
      "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 3\n"
      "vllm:nixl_bytes_transferred_sum{model_name=\"m\"} 100\n"
      "vllm:nothing_count{model_name=\"m\"} 3\n");
  auto values = Of(fixture);
  EXPECT_EQ(values["inference.time_to_first_token{model.name=m} sum"], 3);
  EXPECT_EQ(values["inference.time_to_first_token{model.name=m} count"], 2);
  EXPECT_EQ(values["inference.kv_transfer.bytes{inference.direction=peer,model.name=m}"], 100);
  EXPECT_EQ(values.size(), 3u) << "half of the transfers' size is nothing";
  EXPECT_EQ(fixture.series.families().unknown(), 1u);
}

TEST(EnginePage, RoutersPageIsNotItsEngines) {
  struct Case {
    std::string page, engine;
  };
  const Case cases[] = {
      {"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server=\"http://a\"} 3\n"
       "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{server=\"http://a\"} 0.5\n"
       "# TYPE vllm:healthy_pods_total gauge\nvllm:healthy_pods_total{server=\"http://a\"} 1\n",
       "vllm-production-stack"},
      {"# TYPE vllm_router_running_requests gauge\nvllm_router_running_requests{worker=\"http://a\"} 3\n"
       "# TYPE vllm_router_requests_total counter\nvllm_router_requests_total{route=\"/v1\"} 7\n",
       "vllm-router"},
      {"# TYPE smg_worker_requests_active gauge\nsmg_worker_requests_active{worker=\"http://a\"} 3\n"
       "# TYPE smg_router_ttft_seconds summary\nsmg_router_ttft_seconds{model=\"m\",quantile=\"0.5\"} 1\n"
       "smg_router_ttft_seconds_sum{model=\"m\"} 4\nsmg_router_ttft_seconds_count{model=\"m\"} 3\n",
       "sglang-router"}};
  for (const Case& one : cases) {
    EngineFixture fixture;
    fixture.Read(one.page);
    ASSERT_TRUE(fixture.last.ok()) << one.engine;
    EXPECT_EQ(fixture.series.families().main()->name, one.engine);
    EXPECT_EQ(fixture.series.families().engines().size(), 1u);
    EXPECT_EQ(fixture.series.families().unknown(), 0u) << one.engine;
    for (const std::string& name : fixture.Names()) {
      EXPECT_THAT(name, ::testing::HasSubstr("inference.engine=" + one.engine + ",inference.layer=router"));
    }
    bool running = false;
    for (const auto& [name, value] : Of(fixture))
      running = running || (name.starts_with("inference.requests.running{") && value == 3);
    EXPECT_TRUE(running) << one.engine;
  }
}

// A page without a family that only the router has is the router's when it is configured so.
TEST(EnginePage, ConfiguredRouterIsNotItsEngine) {
  EngineFixture fixture("vllm-production-stack");
  fixture.Read("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server=\"http://a\"} 3\n");
  ASSERT_EQ(fixture.series.families().engines().size(), 1u);
  EXPECT_EQ(fixture.series.families().main()->name, "vllm-production-stack");
}

TEST(EnginePage, OllamaHasAProxysPage) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE ollama_prompt_tokens_total counter\nollama_prompt_tokens_total{model=\"m\"} 10\n"
      "# TYPE ollama_generated_tokens_total counter\nollama_generated_tokens_total{model=\"m\"} 20\n"
      "# TYPE ollama_time_per_token_seconds histogram\n"
      "ollama_time_per_token_seconds_bucket{model=\"m\",le=\"+Inf\"} 2\n"
      "ollama_time_per_token_seconds_sum{model=\"m\"} 0.5\n"
      "ollama_time_per_token_seconds_count{model=\"m\"} 2\n"
      "# TYPE ollama_model_ram_mb gauge\nollama_model_ram_mb{model=\"m\"} 4000\n"
      "# TYPE ollama_loaded_models gauge\nollama_loaded_models 1\n");
  const std::string of = "inference.time_per_output_token{model.name=m} ";
  EXPECT_THAT(Of(fixture), ElementsAre(Pair(of + "count", 2), Pair(of + "le=+Inf", 2), Pair(of + "sum", 0.5),
                                       Pair("inference.tokens.generation{model.name=m}", 20),
                                       Pair("inference.tokens.prompt{model.name=m}", 10)));
  EXPECT_EQ(fixture.series.families().main()->name, "ollama");
  EXPECT_EQ(fixture.series.families().unknown(), 0u);
}

// Both releases: in 3 the time to the first token was that of the last request alone.
TEST(EnginePage, XinferenceIsKnownInBothReleases) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE xinference:output_tokens_total_counter counter\n"
      "xinference:output_tokens_total_counter{model=\"m\"} 7\n"
      "# TYPE xinference:time_to_first_token_ms gauge\nxinference:time_to_first_token_ms{model=\"m\"} 80\n"
      "# TYPE status_codes_counter counter\nstatus_codes_counter{status_code=\"200\"} 3\n");
  EXPECT_THAT(Of(fixture), ElementsAre(Pair("inference.tokens.generation{model.name=m}", 7)));
  EXPECT_EQ(fixture.series.families().unknown(), 0u);
  fixture.Read(
      "# TYPE xinference:output_tokens_total_counter counter\n"
      "xinference:output_tokens_total_counter{model_name=\"m\"} 7\n"
      "# TYPE xinference:model_serve_count gauge\nxinference:model_serve_count{model_name=\"m\"} 2\n"
      "# TYPE xinference:time_to_first_token_seconds histogram\n"
      "xinference:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 1\n"
      "xinference:time_to_first_token_seconds_sum{model_name=\"m\"} 0.08\n"
      "xinference:time_to_first_token_seconds_count{model_name=\"m\"} 1\n");
  auto values = Of(fixture);
  EXPECT_EQ(values["inference.requests.in_flight{model.name=m}"], 2);
  EXPECT_EQ(values["inference.time_to_first_token{model.name=m} sum"], 0.08);
  EXPECT_EQ(fixture.series.families().unknown(), 0u);
}

TEST(EnginePage, TheSemanticRouterIsARouter) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE llm_model_requests_total counter\nllm_model_requests_total{model=\"m\"} 5\n"
      "# TYPE llm_model_inflight_requests gauge\nllm_model_inflight_requests{model=\"m\"} 2\n"
      "# TYPE llm_model_cost_total counter\nllm_model_cost_total{currency=\"USD\",model=\"m\"} 0.25\n"
      "llm_model_cost_total{currency=\"CNY\",model=\"m\"} 9\n"
      "# TYPE llm_cache_plugin_misses_total counter\n"
      "llm_cache_plugin_misses_total{decision_name=\"d\",plugin_type=\"p\"} 4\n"
      "# TYPE llm_cache_entries_total gauge\nllm_cache_entries_total{backend=\"memory\"} 3\n"
      "# TYPE llm_signal_match_total counter\nllm_signal_match_total{signal_type=\"x\"} 6\n"
      "# TYPE rag_similarity_score gauge\nrag_similarity_score 0.5\n"
      "# TYPE llm_something_new gauge\nllm_something_new 1\n");
  auto values = Of(fixture);
  EXPECT_EQ(values["inference.requests.admitted{model.name=m}"], 5);
  EXPECT_EQ(values["inference.requests.in_flight{model.name=m}"], 2);
  EXPECT_EQ(values["inference.spend.usd{model.name=m}"], 0.25) << "other currencies are no dollars";
  EXPECT_EQ(values["inference.response_cache.lookups{decision_name=d,inference.result=miss,plugin_type=p}"],
            4);
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(fixture.series.families().unknown(), 1u);
  EXPECT_EQ(fixture.series.families().main()->layer, "router");
}

TEST(EnginePage, LmCacheServerHasHits) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE lmcache_mp_lookup_requested_tokens_total counter\n"
      "lmcache_mp_lookup_requested_tokens_total{model_name=\"m\",cache_salt=\"s\"} 100\n"
      "# TYPE lmcache_mp_lookup_hit_tokens_total counter\n"
      "lmcache_mp_lookup_hit_tokens_total{model_name=\"m\",cache_salt=\"s\"} 70\n"
      "# TYPE lmcache_mp_l1_evicted_chunks_total counter\nlmcache_mp_l1_evicted_chunks_total 4\n"
      "# TYPE lmcache_mp_l1_memory_usage_bytes gauge\nlmcache_mp_l1_memory_usage_bytes 5e9\n");
  EXPECT_THAT(Of(fixture),
              ElementsAre(Pair("inference.kv_cache.evictions{cache.type=cpu}", 4),
                          Pair("inference.kv_store.bytes{cache.type=cpu,inference.state=used}", 5e9),
                          Pair("inference.prefix_cache.hits{cache.type=external,model.name=m}", 70),
                          Pair("inference.prefix_cache.queries{cache.type=external,model.name=m}", 100)));
  EXPECT_EQ(fixture.series.families().main()->name, "lmcache");
}

TEST(EnginePage, TritonIsKnownByItsGpusAlone) {
  EngineFixture fixture;
  fixture.Read("# TYPE nv_gpu_utilization gauge\nnv_gpu_utilization{gpu_uuid=\"GPU-1\"} 0.5\n");
  EXPECT_TRUE(fixture.last.ok());
  EXPECT_EQ(fixture.series.families().main()->name, "triton");
}

// A time of creation is a gauge of its own in the text format, and a part of the family in OpenMetrics.
TEST(EnginePage, ChangedCreationTimeRestarts) {
  const std::string role = "inference.tokens.prompt";
  for (bool open : {false, true}) {
    EngineFixture fixture;
    auto read = [&](int count, int created) {
      std::string page =
          open ? "# TYPE vllm:prompt_tokens counter\n" : "# TYPE vllm:prompt_tokens_total counter\n";
      page += "vllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} " + std::to_string(count) + "\n";
      if (!open) page += "# TYPE vllm:prompt_tokens_created gauge\n";
      page += "vllm:prompt_tokens_created{engine=\"0\",model_name=\"m\"} " + std::to_string(created) + "\n";
      if (open) page += "# EOF\n";
      fixture.Read(page, open ? ExpositionFormat::kOpenMetrics100 : ExpositionFormat::kText004);
      return InfoOf(fixture, role);
    };
    SeriesInfo info = read(5, 1'600'000'000);
    EXPECT_TRUE(info.start_known);
    EXPECT_EQ(info.start_unix_ns, 1'600'000'000 * int64_t{1'000'000'000});
    info = read(6, 1'600'000'000);
    EXPECT_EQ(info.start_unix_ns, 1'600'000'000 * int64_t{1'000'000'000});
    info = read(9, 1'700'000'020);
    EXPECT_TRUE(info.start_known);
    EXPECT_EQ(info.start_unix_ns, 1'700'000'020 * int64_t{1'000'000'000});
    info = read(1, 1'700'000'030);
    EXPECT_TRUE(info.start_known) << "it fell, and its start is known all the same";
    EXPECT_EQ(info.start_unix_ns, 1'700'000'030 * int64_t{1'000'000'000});
  }
}

TEST(EnginePage, ProcessStartTimeRestartsCounters) {
  EngineFixture fixture;
  auto read = [&](int count, double started, const char* more = "") {
    fixture.Read("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{model_name=\"m\"} " +
                 std::to_string(count) +
                 "\n# TYPE vllm:e2e_request_latency_seconds histogram\n"
                 "vllm:e2e_request_latency_seconds_bucket{model_name=\"m\",le=\"+Inf\"} " +
                 std::to_string(count) + "\nvllm:e2e_request_latency_seconds_sum{model_name=\"m\"} 1\n" +
                 "vllm:e2e_request_latency_seconds_count{model_name=\"m\"} " + std::to_string(count) +
                 "\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds " +
                 std::to_string(started) + "\n" + more);
  };
  auto known = [&](std::string_view role) { return InfoOf(fixture, role).start_known; };
  read(5, 1.7e9);
  EXPECT_FALSE(known("inference.tokens.prompt")) << "a first reading is a base";
  read(6, 1.7e9 + 1);
  EXPECT_FALSE(known("inference.tokens.prompt")) << "the clock of the machine moves a little";
  read(7, 1.7e9 + 40);
  for (const char* role : {"inference.tokens.prompt", "inference.request.duration"}) {
    EXPECT_TRUE(known(role)) << role;
    EXPECT_EQ(InfoOf(fixture, role).start_unix_ns, 1'700'000'040 * int64_t{1'000'000'000});
  }
  EXPECT_FALSE(InfoOf(fixture, "inference.engine.start_time").start_known);
  // With several processes it is unknown to which one a counter belongs.
  read(8, 1.7e9 + 80, "process_start_time_seconds{pid=\"2\"} 1\n");
  EXPECT_EQ(InfoOf(fixture, "inference.tokens.prompt").start_unix_ns, 1'700'000'040 * int64_t{1'000'000'000});
}

TEST(EnginePage, ValuesHaveTheTimeOfThePage) {
  EngineFixture fixture;
  const int64_t now_ms = fixture.clock.Now().unix_ns / 1'000'000 + 15'000;
  fixture.Read("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 3 " +
               std::to_string(now_ms - 20'000) + "\n# TYPE vllm:num_requests_waiting gauge\n" +
               "vllm:num_requests_waiting{engine=\"0\"} 4 " + std::to_string(now_ms - 90'000) + "\n");
  for (uint32_t slot = 0; slot < 2; ++slot) {
    const bool running = (*fixture.frame->layout)[slot].desc->name == "inference.requests.running";
    EXPECT_EQ(fixture.frame->quality[slot], running ? Quality::kOk : Quality::kStale);
    EXPECT_EQ(fixture.frame->AgeMs(slot), running ? 20'000u : 90'000u);
  }
}

}  // namespace
}  // namespace gpulens::engine_page
