#include "cli/engines/engine_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/inference.h"
#include "scrape/engine/engine_page_testing.h"
#include "wire/json/json_testing.h"

namespace gpulens {
namespace {

using engine_page::EngineFixture;
using json_testing::JsonReader;
using ::testing::HasSubstr;
using ::testing::Not;

// A histogram of time to first token with bounds 1, 2, 4 of one rank.
std::string Ttft(const char* rank, std::vector<int> cumulative, double sum, const char* model = "m") {
  std::string labels = std::string("{model_name=\"") + model + "\",engine=\"" + rank + "\"";
  std::string out;
  const char* bounds[] = {"1", "2", "4", "+Inf"};
  for (size_t i = 0; i < 4; ++i) {
    out += "vllm:time_to_first_token_seconds_bucket" + labels + ",le=\"" + bounds[i] + "\"} " +
           std::to_string(cumulative[i]) + "\n";
  }
  out += "vllm:time_to_first_token_seconds_sum" + labels + "} " + std::to_string(sum) + "\n";
  return out + "vllm:time_to_first_token_seconds_count" + labels + "} " + std::to_string(cumulative[3]) +
         "\n";
}

constexpr const char* kTtftType = "# TYPE vllm:time_to_first_token_seconds histogram\n";

std::string Tokens(int count) {
  return "# TYPE vllm:generation_tokens_total "
         "counter\nvllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} " +
         std::to_string(count) + "\n";
}

TEST(EngineReading, AddsBucketsBeforeQuantiles) {
  EngineFixture fixture;
  // Nine fast requests on one rank and ninety-one slow ones on the other: the median of the engine is that of
  // neither.
  fixture.Read(kTtftType + Ttft("0", {9, 9, 9, 9}, 4.5) + Ttft("1", {0, 0, 91, 91}, 273));
  EngineReading reading = ReadLifetime("x", *fixture.frame, {});
  EXPECT_FALSE(reading.window_s);
  ASSERT_EQ(reading.models.size(), 1u);
  EXPECT_EQ(reading.models[0].engine, "vllm");
  EXPECT_EQ(reading.models[0].layer, "engine");
  EXPECT_EQ(reading.models[0].model, "m");
  const ReadDistribution* ttft = reading.models[0].Find(kInferenceTimeToFirstToken);
  ASSERT_TRUE(ttft);
  EXPECT_EQ(ttft->count, 100);
  EXPECT_DOUBLE_EQ(*ttft->mean, 2.775);
  EXPECT_DOUBLE_EQ(*ttft->p50, 2 + 2 * 41.0 / 91);
  EXPECT_DOUBLE_EQ(*ttft->p95, 2 + 2 * 86.0 / 91);
}

TEST(EngineReading, WindowExcludesEarlierTraffic) {
  EngineFixture fixture;
  Ref<const Frame> before =
      fixture.Read(kTtftType + Ttft("0", {1000000, 1000000, 1000000, 1000000}, 500000) + Tokens(700));
  Ref<const Frame> after =
      fixture.Read(kTtftType + Ttft("0", {1000000, 1000000, 1000100, 1000100}, 500300) + Tokens(2200));
  EngineReading reading = ReadWindow("x", *before, *after, {});
  EXPECT_DOUBLE_EQ(*reading.window_s, 15);
  const ReadDistribution* ttft = reading.models.at(0).Find(kInferenceTimeToFirstToken);
  ASSERT_TRUE(ttft);
  EXPECT_EQ(ttft->count, 100);
  EXPECT_DOUBLE_EQ(*ttft->mean, 3);
  EXPECT_DOUBLE_EQ(*ttft->p50, 3);
  const ReadNumber* tokens = reading.models[0].FindNumber(kInferenceGenerationTokens);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->value, 1500);
  EXPECT_DOUBLE_EQ(*tokens->per_second, 100);
}

TEST(EngineReading, ResetAndNewSeriesCountFromZero) {
  EngineFixture fixture;
  Ref<const Frame> before = fixture.Read(kTtftType + Ttft("0", {50, 50, 50, 50}, 25) + Tokens(700));
  Ref<const Frame> after =
      fixture.Read(kTtftType + Ttft("0", {0, 4, 4, 4}, 6) + Ttft("1", {0, 6, 6, 6}, 9) + Tokens(30));
  EngineReading reading = ReadWindow("x", *before, *after, {});
  EXPECT_EQ(reading.models.at(0).Find(kInferenceTimeToFirstToken)->count, 10);
  EXPECT_DOUBLE_EQ(*reading.models[0].Find(kInferenceTimeToFirstToken)->p50, 1.5);
  EXPECT_EQ(reading.models[0].FindNumber(kInferenceGenerationTokens)->value, 30);
}

TEST(EngineReading, NoLatencyWithoutTraffic) {
  EngineFixture fixture;
  std::string page = kTtftType + Ttft("0", {5, 5, 5, 5}, 2.5) + Tokens(10);
  Ref<const Frame> before = fixture.Read(page);
  Ref<const Frame> after = fixture.Read(page);
  EngineReading reading = ReadWindow("x", *before, *after, {});
  EXPECT_FALSE(reading.models.at(0).Find(kInferenceTimeToFirstToken));
  EXPECT_THAT(ReadingJson(reading), Not(HasSubstr("time_to_first_token")));
  EXPECT_EQ(reading.models[0].FindNumber(kInferenceGenerationTokens)->value, 0);
  // A series that left the page is not reported at its last value.
  Ref<const Frame> gone = fixture.Read(Tokens(10));
  EXPECT_FALSE(ReadWindow("x", *after, *gone, {}).models.at(0).Find(kInferenceTimeToFirstToken));
}

TEST(EngineReading, CombinesLevelsByRole) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\",engine=\"0\"} 10\n"
      "vllm:num_requests_running{model_name=\"m\",engine=\"1\"} 20\n"
      "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0.2\n"
      "vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"1\"} 0.6\n"
      "# TYPE vllm:cpu_cache_usage_perc gauge\nvllm:cpu_cache_usage_perc{model_name=\"m\"} 0.9\n");
  EngineReading reading = ReadLifetime("x", *fixture.frame, {});
  EXPECT_EQ(reading.models.at(0).FindNumber(kInferenceRequestsRunning)->value, 30);
  EXPECT_DOUBLE_EQ(reading.models[0].FindNumber(kInferenceKvCacheUsage)->value, 0.4);
  EXPECT_FALSE(reading.models[0].FindNumber(kInferenceRequestsWaiting));
}

TEST(EngineReading, MeanWithoutBuckets) {
  EngineFixture fixture;
  fixture.Read(
      "# TYPE nv_inference_request_success counter\nnv_inference_request_success{model=\"a\",version=\"1\"} "
      "4\n"
      "# TYPE nv_inference_request_duration_us "
      "counter\nnv_inference_request_duration_us{model=\"a\",version=\"1\"} "
      "2000000\n");
  EngineReading reading = ReadLifetime("x", *fixture.frame, {});
  const ReadDistribution* duration = reading.models.at(0).Find(kInferenceRequestDuration);
  ASSERT_TRUE(duration);
  EXPECT_DOUBLE_EQ(*duration->mean, 0.5);
  EXPECT_FALSE(duration->p50);
  EXPECT_THAT(ReadingJson(reading), HasSubstr("\"request_duration\":{\"mean\":0.5,\"count\":4}"));
  EXPECT_THAT(ReadingText(reading), HasSubstr("–"));
}

TEST(EngineReading, SeparatesAndFiltersModels) {
  EngineFixture fixture;
  fixture.Read(kTtftType + Ttft("0", {1, 1, 1, 1}, 0.5, "a") + Ttft("0", {0, 2, 2, 2}, 3, "b"));
  EXPECT_EQ(ReadLifetime("x", *fixture.frame, {}).models.size(), 2u);
  EngineReading one = ReadLifetime("x", *fixture.frame, {.engine = "vllm", .model = "b"});
  ASSERT_EQ(one.models.size(), 1u);
  EXPECT_EQ(one.models[0].Find(kInferenceTimeToFirstToken)->count, 2);
  EXPECT_TRUE(ReadLifetime("x", *fixture.frame, {.engine = "sglang", .model = {}}).models.empty());
}

TEST(EngineReading, TextRespectsBucketBounds) {
  EngineFixture fixture;
  fixture.Read(kTtftType + Ttft("0", {60, 94, 94, 100}, 200));
  EngineReading reading = ReadLifetime("x", *fixture.frame, {});
  // As in Prometheus.
  EXPECT_DOUBLE_EQ(*reading.models.at(0).Find(kInferenceTimeToFirstToken)->p50, 50.0 / 60);
  EXPECT_EQ(*reading.models[0].Find(kInferenceTimeToFirstToken)->p99, 4);
  EXPECT_THAT(ReadingText(reading), HasSubstr("<1 s        >4 s        >4 s         2 s         100\n"));
  EXPECT_THAT(ReadingJson(reading), HasSubstr("\"first_bound\":1,\"last_bound\":4}"));
}

TEST(EngineReading, TextAndJsonNameThePeriod) {
  EngineFixture fixture;
  Ref<const Frame> before = fixture.Read(kTtftType + Ttft("0", {1, 1, 1, 1}, 0.5, "m\x1b[31m") + Tokens(1));
  std::string text = ReadingText(ReadLifetime("http://h/metrics", *before, {}));
  EXPECT_THAT(text, HasSubstr("http://h/metrics: since the engine started"));
  EXPECT_THAT(
      text,
      HasSubstr("  time to first token             <1 s        <1 s        <1 s      500 ms           1\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  std::string why;
  auto json = JsonReader::Read(ReadingJson(ReadLifetime("x", *before, {})), &why);
  ASSERT_TRUE(json) << why;
  EXPECT_EQ((*json)["over"].text, "engine lifetime");
  EXPECT_FALSE((*json)["window_s"].here());
  Ref<const Frame> after = fixture.Read(kTtftType + Ttft("0", {3, 3, 3, 3}, 1.5) + Tokens(31));
  json = JsonReader::Read(ReadingJson(ReadWindow("x", *before, *after, {})), &why);
  ASSERT_TRUE(json) << why;
  EXPECT_EQ((*json)["over"].text, "window");
  EXPECT_EQ((*json)["window_s"].number(), 15);
  EXPECT_EQ((*json)["engines"][0]["tokens_generation"].number(), 30);
  EXPECT_EQ((*json)["engines"][0]["tokens_generation_per_second"].number(), 2);
}

}  // namespace
}  // namespace gpulens
