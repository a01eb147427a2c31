// The names of zumik's dashboard of a customer's GPU cluster, for the series of engines. Every series has the
// configured cluster (resource.attributes.cluster, else resource.cluster), by which the dashboard selects.
//
// Nothing is added up: bytes moved by Mooncake are a series for each direction. Histograms have the buckets
// of the engine's page. Without a running cluster there is no series.
#pragma once

#include "catalog/inference.h"
#include "names/naming.h"

namespace gpulens {

// Of two labels of one name, the first with a value counts.
inline constexpr NamingLabel kZumikLabels[] = {{"cluster", "cluster"}, {"cluster", "k8s.cluster.name"}};
inline constexpr NamingWord kZumikDirections[] = {{"load", "read"}, {"store", "write"}};
inline constexpr NamingLabel kZumikDirection[] = {
    {.label = "direction", .attribute = "inference.direction", .words = kZumikDirections}};

// Where Dynamo has a queue depth, other routers' queues are left out.
inline constexpr const MetricDesc* kZumikQueue[] = {&kInferenceRouterQueueDepth};
inline constexpr Rival kZumikDynamo[] = {
    {.metrics = kZumikQueue, .key = "inference.engine", .value = "dynamo-frontend"},
    {.metrics = kZumikQueue, .key = "inference.engine", .value = "dynamo-router"},
};

inline constexpr NamingName kZumikQueueDepth = {"dynamo_router_queue_depth", "{request}",
                                                "Requests that wait in the router of the cluster.",
                                                Kind::kGauge};
inline constexpr NamingName kZumikReplicas = {"zumik_byoc_replicas", "{replica}",
                                              "Engine replicas of the cluster that can take requests.",
                                              Kind::kGauge};

constexpr NamingRow ZumikRow(const MetricDesc& native, const NamingName& name,
                             std::array<NamingWhere, 3> where) {
  NamingRow row = NamedRow(native, name);
  row.where = where;
  row.all_attributes = true;
  return row;
}
constexpr NamingRow Unless(NamingRow row, std::span<const Rival> rivals) {
  row.unless = rivals;
  return row;
}
constexpr NamingRow Renaming(NamingRow row, std::string_view attribute, std::span<const NamingLabel> labels) {
  row.without = attribute;
  row.labels = labels;
  return row;
}

inline constexpr NamingRow kZumikRows[] = {
    ZumikRow(kInferenceTimeToFirstToken,
             {"sglang_time_to_first_token_seconds", "s", "Arrival to first token.", Kind::kHistogram},
             {{{"inference.engine", "sglang"}}}),
    ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "dynamo-frontend"}}}),
    ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "dynamo-router"}}}),
    Unless(ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "epp"}}}),
           kZumikDynamo),
    // Clients of a store and workers of an index are not replicas.
    ZumikRow(kInferenceReplicas, kZumikReplicas, {{{"inference.state", "ready"}}}),
    ZumikRow(kInferenceReplicas, kZumikReplicas, {{{"inference.state", "healthy"}}}),
    // Without disk and engine below the store, which move the same bytes.
    Renaming(ZumikRow(kInferenceKvTransferBytes,
                      {"mooncake_transfer_bytes_total", "By",
                       "Bytes that Mooncake's clients moved; the sum over `direction` is all of them.",
                       Kind::kCounter},
                      {{{"inference.engine", "mooncake"}, {"cache.type", "remote"}}}),
             "inference.direction", kZumikDirection),
    ZumikRow(
        kInferencePrefixCacheHits,
        {"lmcache_num_lookup_hits_total", "{token}", "Prompt tokens that LMCache has found.", Kind::kCounter},
        {{{"inference.engine", "lmcache"}}}),
    ZumikRow(
        kInferencePrefixCacheQueries,
        {"lmcache_num_lookup_tokens_total", "{token}", "Prompt tokens looked up in LMCache.", Kind::kCounter},
        {{{"inference.engine", "lmcache"}}}),
};

inline constexpr MetricNaming kZumik{.name = "zumik",
                                     .help = "zumik's names for the engines of a customer's cluster",
                                     .rows = kZumikRows,
                                     .looks = true,
                                     .labels = kZumikLabels};

}  // namespace gpulens
