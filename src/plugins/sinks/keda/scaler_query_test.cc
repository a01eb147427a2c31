#include "plugins/sinks/keda/scaler_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens::keda {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using Metadata = std::map<std::string, std::string, std::less<>>;

Result<ScalerQuery> Parse(Metadata metadata) { return ParseScalerQuery({"chat", "ml", std::move(metadata)}); }
std::string Why(Metadata metadata) {
  const auto query = Parse(std::move(metadata));
  if (query) return "";
  EXPECT_EQ(query.error().code, Code::kInvalidArgument);
  return query.error().detail;
}

TEST(ScalerQuery, DefaultsAndKeysOfKeda) {
  const auto query = Parse({{"metric", "queue"},
                            {"targetFromEnv", "2.5"},
                            {"scalerAddress", "gpulens:9099"},
                            {"enableTLS", "true"},
                            {"caCert", "x"}});
  ASSERT_TRUE(query.ok()) << query.error().detail;
  EXPECT_EQ(query->metric, ScalerMetric::kQueue);
  EXPECT_EQ(query->target, 2.5);
  EXPECT_EQ(query->activation, 0);
  EXPECT_EQ(query->layer, "engine");
  EXPECT_EQ(query->name_space, "ml");
  EXPECT_EQ(query->max_age, seconds(45));
  EXPECT_EQ(query->MetricName(), "queue");
}

TEST(ScalerQuery, EveryKeyIsRead) {
  const auto query = Parse({{"metric", "ttft"},
                            {"target", "0.5"},
                            {"activation", "3"},
                            {"metricType", "Value"},
                            {"quantile", "p99.9"},
                            {"window", "2m"},
                            {"whenIdle", "0"},
                            {"maxAge", "30s"},
                            {"model", "llama"},
                            {"engine", "vllm"},
                            {"layer", "*"},
                            {"namespace", "*"},
                            {"attributes", "a=b, c=d"}});
  ASSERT_TRUE(query.ok()) << query.error().detail;
  EXPECT_DOUBLE_EQ(query->quantile, 0.999);
  EXPECT_EQ(query->MetricName(), "ttft-p99-9") << "a name that Kubernetes takes";
  EXPECT_EQ(query->window, seconds(120));
  EXPECT_TRUE(query->value_type && query->zero_if_idle);
  EXPECT_EQ(query->layer + query->name_space, "");
  EXPECT_EQ(query->attributes, (std::map<std::string, std::string>{{"a", "b"}, {"c", "d"}}));
  const auto cache = Parse({{"metric", "kv_cache"}, {"target", "0.8"}, {"aggregation", "max"}});
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(cache->greatest);
  EXPECT_EQ(cache->MetricName(), "kv-cache");
}

TEST(ScalerQuery, EveryKeyIsNamedWhenOneIsUnknown) {
  const std::string why = Why({{"metric", "queue"}, {"target", "1"}, {"tresh\x01old", "1"}});
  EXPECT_THAT(why, HasSubstr("unknown key \"tresh"));
  for (const ScalerKey& key : ScalerKeys()) EXPECT_THAT(why, HasSubstr(std::string(key.name)));
}

TEST(ScalerQuery, RefusesWhatItCannotMean) {
  EXPECT_THAT(Why({}), HasSubstr("metric is missing"));
  EXPECT_THAT(Why({{"metric", "queue"}}), HasSubstr("target is missing"));
  EXPECT_THAT(Why({{"metric", "cpu"}, {"target", "1"}}), HasSubstr("none of queue, running"));
  for (const char* target : {"0", "-1", "nan", "inf", "1e300", "4 requests", ""})
    EXPECT_THAT(Why({{"metric", "queue"}, {"target", target}}), HasSubstr("target: ")) << target;
  EXPECT_THAT(Why({{"metric", "kv_cache"}, {"target", "80"}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(Why({{"metric", "queue"}, {"target", "1"}, {"window", "60s"}}), HasSubstr("ttft and itl"));
  EXPECT_THAT(Why({{"metric", "ttft"}, {"target", "1"}, {"aggregation", "max"}}), HasSubstr("kv_cache"));
  for (const char* window : {"1s", "301", "6m", "-60s", "nan", "1e18m", "m", ""})
    EXPECT_THAT(Why({{"metric", "ttft"}, {"target", "1"}, {"window", window}}), HasSubstr("15s to 300s"))
        << window;
  for (const char* quantile : {"0", "1", "p100", "p0", "95", "p", "-p5", "nan"})
    EXPECT_THAT(Why({{"metric", "ttft"}, {"target", "1"}, {"quantile", quantile}}), HasSubstr("quantile"))
        << quantile;
  EXPECT_THAT(Why({{"metric", "ttft"}, {"target", "1"}, {"whenIdle", "zero"}}), HasSubstr("unknown or 0"));
  EXPECT_THAT(Why({{"metric", "queue"}, {"target", "1"}, {"metricType", "Utilization"}}),
              HasSubstr("AverageValue or Value"));
  EXPECT_THAT(Why({{"metric", "queue"}, {"target", "1"}, {"attributes", "app"}}), HasSubstr("like app=chat"));
  std::string many;
  for (int i = 0; i < 20; ++i) many += "k" + std::to_string(i) + "=v,";
  EXPECT_THAT(Why({{"metric", "queue"}, {"target", "1"}, {"attributes", many}}), HasSubstr("more than 16"));
  EXPECT_THAT(Why({{"metric", "queue"}, {"target", "1"}, {"targetFromEnv", "2"}}), HasSubstr("set twice"));
}

}  // namespace
}  // namespace gpulens::keda
