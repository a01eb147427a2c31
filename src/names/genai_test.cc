#include "names/genai.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/files.h"
#include "catalog/inference.h"
#include "catalog/self.h"
#include "names/naming_testing.h"

namespace gpulens {
namespace {

using naming_testing::Label;
using naming_testing::MakeNames;
using naming_testing::Series;
using naming_testing::Tick;
using naming_testing::Tsv;
using ::testing::ElementsAre;
using ::testing::Pair;

AttributeSet Of(std::string_view engine, std::string_view layer, std::string_view target = "t") {
  return AttributeSet({{"target", target},
                       {"inference.engine", engine},
                       {"inference.layer", layer},
                       {"model.name", std::string_view("m")}});
}

// The names of a series after a tick was read.
std::vector<NamedSeries> After(Tick& tick, const MetricDesc& desc, AttributeSet attributes) {
  std::vector<std::string> names = {"otel_genai"};
  SeriesNamer namer = MakeSeriesNamer(names);
  namer.Refresh(tick.Snap());
  std::vector<NamedSeries> out;
  namer(Series(desc, std::move(attributes)), out);
  return out;
}

TEST(Genai, HistogramsHaveTheirNamesUnitsAndRequiredAttributes) {
  const std::map<const MetricDesc*, std::pair<std::string, std::string>> expected = {
      {&kInferenceTimeToFirstToken, {"gen_ai_server_time_to_first_token_seconds", "seconds"}},
      {&kInferenceTimePerOutputToken, {"gen_ai_server_time_per_output_token_seconds", "seconds"}},
      {&kInferenceRequestDuration, {"gen_ai_server_request_duration_seconds", "seconds"}},
      {&kInferenceRequestPromptTokens, {"gen_ai_client_token_usage", ""}},
      {&kInferenceRequestGenerationTokens, {"gen_ai_client_token_usage", ""}}};
  for (const auto& [desc, name] : expected) {
    auto named = MakeNames({"otel_genai"}, *desc, Of("vllm", "engine"));
    ASSERT_EQ(named.size(), 1u) << desc->name;
    EXPECT_EQ(named[0].name, name.first);
    EXPECT_EQ(named[0].unit, name.second);
    EXPECT_EQ(named[0].kind, Kind::kHistogram);
    EXPECT_EQ(named[0].scale, 1) << "the convention's unit is the role's";
    EXPECT_EQ(Label(named[0], "gen_ai_operation_name"), "chat");
    EXPECT_EQ(Label(named[0], "gen_ai_provider_name"), "vllm");
    EXPECT_EQ(Label(named[0], "gen_ai_request_model"), "m");
    EXPECT_EQ(Label(named[0], "model_name"), "-") << "names_of_tick once";
    EXPECT_EQ(Label(named[0], "server_address"), "-") << "nothing is made up";
  }
}

TEST(Genai, UnitsAreThoseOfTheNativeRow) {
  for (const NamingRow& row : kGenai.rows) {
    EXPECT_EQ(row.unit, row.native->unit) << row.name << ": numbers are not scaled";
    EXPECT_EQ(row.kind, row.native->kind) << row.name;
  }
}

TEST(Genai, InOpenTelemetrysFormNamesAndKeysKeepTheirDots) {
  std::vector<std::string> names = {"native", "otel_genai"};
  std::vector<NamedSeries> out;
  MakeSeriesNamer(names, NameForm::kOtel)(
      Series(kInferenceRequestDuration, AttributeSet({{"inference.engine", "vllm"},
                                                      {"inference.dp_rank", "1"},
                                                      {"error.type", "timeout"},
                                                      {"server.address", "h"},
                                                      {"server.port", int64_t{8000}}})),
      out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].name, "inference.request.duration");
  EXPECT_EQ(out[0].unit, "s");
  EXPECT_EQ(Label(out[0], "error.type"), "timeout");
  EXPECT_EQ(out[1].name, "gen_ai.server.request.duration");
  EXPECT_EQ(out[1].unit, "s");
  EXPECT_THAT(out[1].labels, ElementsAre(Pair("gen_ai.operation.name", "chat"),
                                         Pair("gen_ai.provider.name", "vllm"), Pair("server.address", "h"),
                                         Pair("server.port", "8000"), Pair("error.type", "timeout"),
                                         Pair("inference.dp_rank", "1"), Pair("inference.engine", "vllm")))
      << "what tells series apart stays";
}

TEST(Genai, TokensAreOfOneType) {
  auto type = [](const MetricDesc& desc) {
    return Label(MakeNames({"otel_genai"}, desc, Of("vllm", "engine")).at(0), "gen_ai_token_type");
  };
  EXPECT_EQ(type(kInferenceRequestPromptTokens), "input");
  EXPECT_EQ(type(kInferenceRequestGenerationTokens), "output");
  EXPECT_TRUE(MakeNames({"otel_genai"}, kInferencePromptTokens, Of("vllm", "engine")).empty())
      << "a counter is no histogram of tokens per request";
}

TEST(Genai, AttributesOfTheTargetWin) {
  auto named = MakeNames({"otel_genai"}, kInferenceTimeToFirstToken,
                         AttributeSet({{"inference.engine", "vllm"},
                                       {"gen_ai.operation.name", "text_completion"},
                                       {"gen_ai.provider.name", "acme"}}));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_THAT(named[0].labels,
              ElementsAre(Pair("gen_ai_operation_name", "text_completion"),
                          Pair("gen_ai_provider_name", "acme"), Pair("inference_engine", "vllm")));
}

TEST(Genai, EmbeddingEnginesHaveTheirOperation) {
  auto named = MakeNames({"otel_genai"}, kInferenceRequestDuration, Of("tei", "engine"));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(Label(named[0], "gen_ai_operation_name"), "embeddings");
  EXPECT_EQ(Label(named[0], "inference_engine"), "tei");
}

TEST(Genai, ServerIsThatOfThePage) {
  const std::pair<const char*, std::pair<const char*, const char*>> urls[] = {
      {"http://10.0.0.7:8000/metrics", {"10.0.0.7", "8000"}},
      {"https://llm.example/metrics", {"llm.example", "443"}},
      {"http://[::1]/metrics", {"::1", "80"}},
      {"http://[::1]:8000/metrics", {"::1", "8000"}},
  };
  for (const auto& [url, server] : urls) {
    Tick tick;
    tick.Add(kSelfScrapeInfo, {{"target", "t"}, {"url", url}});
    auto named = After(tick, kInferenceTimeToFirstToken,
                       AttributeSet({{"target", "t"}, {"inference.engine", "vllm"}}));
    ASSERT_EQ(named.size(), 1u);
    EXPECT_EQ(Label(named[0], "server_address"), server.first) << url;
    EXPECT_EQ(Label(named[0], "server_port"), server.second) << url;
    named = After(tick, kInferenceTimeToFirstToken,
                  AttributeSet({{"target", "another"}, {"inference.engine", "vllm"}}));
    EXPECT_EQ(Label(named.at(0), "server_address"), "-");
  }
}

TEST(Genai, InterTokenLatencyOnlyWithoutABetterMetric) {
  Tick alone;
  alone.Add(kInferenceInterTokenLatency, {{"target", "t"}, {"inference.engine", "sglang"}});
  auto named = After(alone, kInferenceInterTokenLatency, Of("sglang", "engine"));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "gen_ai_server_time_per_output_token_seconds");

  Tick both;
  both.Add(
      kInferenceTimePerOutputToken,
      {{"target", "t"}, {"inference.engine", "vllm"}, {"inference.layer", "engine"}, {"model.name", "m"}});
  EXPECT_TRUE(After(both, kInferenceInterTokenLatency, Of("vllm", "engine")).empty());
  EXPECT_EQ(After(both, kInferenceTimePerOutputToken, Of("vllm", "engine")).size(), 1u);
  EXPECT_EQ(After(both, kInferenceInterTokenLatency, Of("vllm", "engine", "other")).size(), 1u)
      << "another target has its own page";
  EXPECT_EQ(After(both, kInferenceInterTokenLatency,
                  AttributeSet({{"target", "t"},
                                {"inference.engine", "vllm"},
                                {"inference.layer", "engine"},
                                {"model.name", "another"}}))
                .size(),
            1u);
}

TEST(Genai, CountsARequestInOneLayer) {
  Tick tick;
  tick.Add(kInferenceRequestDuration,
           {{"target", "t"}, {"inference.engine", "vllm"}, {"inference.layer", "engine"}});
  tick.Add(kInferenceRequestDuration,
           {{"target", "t"}, {"inference.engine", "dynamo-worker"}, {"inference.layer", "worker"}});
  EXPECT_EQ(After(tick, kInferenceRequestDuration, Of("vllm", "engine")).size(), 1u);
  EXPECT_TRUE(After(tick, kInferenceRequestDuration, Of("dynamo-worker", "worker")).empty());
  EXPECT_EQ(After(tick, kInferenceTimeToFirstToken, Of("dynamo-worker", "worker")).size(), 1u)
      << "what only the worker says is names_of_tick";
  EXPECT_EQ(After(tick, kInferenceRequestDuration, Of("litellm", "gateway", "gate")).size(), 1u)
      << "a page of its own";
}

TEST(Genai, DropsRivalsThatLeftTheTick) {
  std::vector<std::string> names = {"otel_genai"};
  SeriesNamer namer = MakeSeriesNamer(names);
  auto names_of_tick = [&] {
    std::vector<NamedSeries> out;
    namer(Series(kInferenceInterTokenLatency, Of("vllm", "engine")), out);
    return out.size();
  };
  Tick with, without;
  with.Add(kInferenceTimePerOutputToken,
           {{"target", "t"}, {"inference.engine", "vllm"}, {"model.name", "m"}});
  EXPECT_TRUE(namer.Refresh(with.Snap()));
  EXPECT_EQ(names_of_tick(), 0u);
  EXPECT_FALSE(namer.Refresh(with.Snap())) << "nothing is new";
  EXPECT_TRUE(namer.Refresh(without.Snap()));
  EXPECT_EQ(names_of_tick(), 1u);
}

TEST(Genai, CacheNamesAreMarkedAsOutsideTheConvention) {
  auto named = MakeNames({"otel_genai"}, kInferenceKvCacheUsage,
                         AttributeSet({{"inference.engine", "vllm"}, {"cache.type", "gpu"}}));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "gen_ai_server_cache_utilization_ratio");
  EXPECT_EQ(named[0].kind, Kind::kGauge);
  EXPECT_EQ(Label(named[0], "gen_ai_cache_type"), "gpu");
  EXPECT_EQ(Label(named[0], "cache_type"), "-");
  for (const MetricDesc* native : {&kVllmCacheHitRate, &kSglangCacheHitRate}) {
    auto rate = MakeNames({"otel_genai"}, *native, Of("vllm", "engine"));
    ASSERT_EQ(rate.size(), 1u) << native->name;
    EXPECT_EQ(rate[0].name, "gen_ai_server_cache_hit_rate_ratio");
    EXPECT_EQ(rate[0].kind, Kind::kGauge);
  }
  for (const NamingRow& row : kGenai.rows) {
    bool ours = row.name.starts_with("gen_ai.server.cache.");
    EXPECT_EQ(row.help.find("Outside the convention") != row.help.npos, ours) << row.name;
  }
}

TEST(Genai, ProvidersAreThoseOfTheTableOfEngines) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/src/scrape/engine/tables/engines.tsv", 1 << 20);
  ASSERT_TRUE(text);
  std::string_view rest = *text;
  TakeUntil(rest, '\n');  // what the table is
  Tsv engines{std::string(rest)};
  ASSERT_GT(engines.size(), 15u);
  std::set<std::string_view> names;
  for (size_t i = 0; i < engines.size(); ++i) {
    std::string_view name = engines.At(i, "engine");
    names.insert(name);
    auto named = MakeNames({"otel_genai"}, kInferenceTimeToFirstToken, Of(name, "engine"));
    ASSERT_EQ(named.size(), 1u);
    EXPECT_EQ(Label(named[0], "gen_ai_provider_name"), engines.At(i, "provider")) << name;
  }
  for (const NamingWord& word : kGenaiProviders) EXPECT_TRUE(names.contains(word.ours)) << word.ours;
}

}  // namespace
}  // namespace gpulens
