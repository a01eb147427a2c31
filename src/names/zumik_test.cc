#include "names/zumik.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "names/naming_testing.h"

namespace gpulens {
namespace {

using naming_testing::Label;
using naming_testing::MakeNames;
using naming_testing::Series;
using naming_testing::Tick;
using ::testing::ElementsAre;
using ::testing::Pair;

// The names of a series in a tick.
std::vector<NamedSeries> In(Tick& tick, const MetricDesc& desc, AttributeSet attributes,
                            AttributeSet resource = {}) {
  std::vector<std::string> names = {"zumik"};
  SeriesNamer namer = MakeSeriesNamer(names);
  namer.Refresh(tick.Snap(std::move(resource)));
  std::vector<NamedSeries> out;
  namer(Series(desc, std::move(attributes)), out);
  return out;
}

TEST(Zumik, SglangsFirstTokenHasItsBucketsAndLabels) {
  auto named = MakeNames({"zumik"}, kInferenceTimeToFirstToken,
                         AttributeSet({{"inference.engine", "sglang"}, {"model.name", "m"}}));
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "sglang_time_to_first_token_seconds");
  EXPECT_EQ(named[0].kind, Kind::kHistogram);
  EXPECT_EQ(named[0].scale, 1);
  EXPECT_THAT(named[0].labels, ElementsAre(Pair("inference_engine", "sglang"), Pair("model_name", "m")));
  EXPECT_TRUE(
      MakeNames({"zumik"}, kInferenceTimeToFirstToken, AttributeSet({{"inference.engine", "vllm"}})).empty());
}

TEST(Zumik, EverySeriesHasTheCluster) {
  Tick tick;
  AttributeSet sglang({{"inference.engine", "sglang"}});
  auto cluster = [&](AttributeSet resource) {
    return Label(In(tick, kInferenceTimeToFirstToken, sglang, std::move(resource)).at(0), "cluster");
  };
  EXPECT_EQ(cluster(AttributeSet({{"cluster", "byc_1"}, {"k8s.cluster.name", "k"}})), "byc_1");
  EXPECT_EQ(cluster(AttributeSet({{"k8s.cluster.name", "k"}})), "k");
  EXPECT_EQ(cluster({}), "-") << "one that is not known is not made up";
}

TEST(Zumik, EndpointPickersQueueReplacesDynamos) {
  AttributeSet epp({{"target", "e"}, {"inference.engine", "epp"}, {"inference.layer", "router"}});
  AttributeSet dynamo({{"target", "d"}, {"inference.engine", "dynamo-frontend"}});
  Tick alone;
  alone.Add(kInferenceRouterQueueDepth, {{"target", "e"}, {"inference.engine", "epp"}});
  auto named = In(alone, kInferenceRouterQueueDepth, epp);
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].name, "dynamo_router_queue_depth");
  EXPECT_EQ(named[0].kind, Kind::kGauge);

  Tick both;
  both.Add(kInferenceRouterQueueDepth, {{"target", "e"}, {"inference.engine", "epp"}});
  both.Add(kInferenceRouterQueueDepth, {{"target", "d"}, {"inference.engine", "dynamo-frontend"}});
  EXPECT_TRUE(In(both, kInferenceRouterQueueDepth, epp).empty());
  auto own = In(both, kInferenceRouterQueueDepth, dynamo);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].name, "dynamo_router_queue_depth");

  Tick without_queue;
  without_queue.Add(kInferenceReplicas, {{"target", "d"}, {"inference.engine", "dynamo-router"}});
  EXPECT_EQ(In(without_queue, kInferenceRouterQueueDepth, epp).size(), 1u)
      << "a Dynamo that does not say how much waits takes nobody's place";
}

TEST(Zumik, ReplicasAreReadyOnes) {
  Tick tick;
  auto replicas = [&](const char* engine, const char* state) {
    return In(tick, kInferenceReplicas,
              AttributeSet({{"inference.engine", engine}, {"inference.state", state}}),
              AttributeSet({{"cluster", "byc_1"}}));
  };
  auto ready = replicas("epp", "ready");
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].name, "zumik_byoc_replicas");
  EXPECT_EQ(Label(ready[0], "cluster"), "byc_1");
  EXPECT_EQ(replicas("ray-serve", "healthy").size(), 1u);
  EXPECT_TRUE(replicas("mooncake", "clients").empty());
  EXPECT_TRUE(replicas("dynamo-router", "indexed").empty());
}

TEST(Zumik, MooncakesBytesAreASeriesPerDirection) {
  auto moved = [](const char* direction, const char* cache) {
    return MakeNames(
        {"zumik"}, kInferenceKvTransferBytes,
        AttributeSet(
            {{"inference.engine", "mooncake"}, {"inference.direction", direction}, {"cache.type", cache}}));
  };
  for (auto [direction, word] : {std::pair("load", "read"), std::pair("store", "write")}) {
    auto named = moved(direction, "remote");
    ASSERT_EQ(named.size(), 1u);
    EXPECT_EQ(named[0].name, "mooncake_transfer_bytes_total");
    EXPECT_EQ(named[0].kind, Kind::kCounter);
    EXPECT_THAT(named[0].labels, ElementsAre(Pair("cache_type", "remote"),
                                             Pair("inference_engine", "mooncake"), Pair("direction", word)));
  }
  EXPECT_TRUE(moved("load", "disk").empty()) << "the disk below";
  EXPECT_TRUE(moved("load", "peer").empty()) << "the same bytes, counted by the engine under the store";
  EXPECT_TRUE(MakeNames({"zumik"}, kInferenceKvTransferBytes,
                        AttributeSet({{"inference.engine", "vllm"}, {"cache.type", "remote"}}))
                  .empty());
}

TEST(Zumik, LmcachesHitsAndLookupsAreInOneUnit) {
  AttributeSet lmcache({{"inference.engine", "lmcache"}, {"cache.type", "external"}});
  auto hits = MakeNames({"zumik"}, kInferencePrefixCacheHits, lmcache);
  auto lookups = MakeNames({"zumik"}, kInferencePrefixCacheQueries, lmcache);
  ASSERT_EQ(hits.size(), 1u);
  ASSERT_EQ(lookups.size(), 1u);
  EXPECT_EQ(hits[0].name, "lmcache_num_lookup_hits_total");
  EXPECT_EQ(lookups[0].name, "lmcache_num_lookup_tokens_total");
  EXPECT_EQ(hits[0].unit, lookups[0].unit);
  EXPECT_TRUE(
      MakeNames({"zumik"}, kInferencePrefixCacheHits, AttributeSet({{"inference.engine", "vllm"}})).empty());
}

TEST(Zumik, NothingWithoutACluster) {
  std::vector<std::string> names = {"zumik"};
  EXPECT_TRUE(AlwaysShown(names).empty());
}

}  // namespace
}  // namespace gpulens
