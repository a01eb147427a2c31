// The names by which zumik's dashboard of a customer's GPU cluster finds the engines' series. Every series
// has the cluster it belongs to where the configuration says it (resource.attributes.cluster, else
// resource.cluster), by which that dashboard chooses.
//
// Nothing is added up: bytes moved by Mooncake are a series per direction, and sum() over it is what was
// read and written. Histograms have the buckets of the engine's page. Without a cluster that runs there is
// no series, and no zero.
#pragma once

#include "catalog/inference.h"
#include "names/dialect.h"

namespace gpulens {

// Of two labels of one name, the first that has a value stands.
inline constexpr DialectLabel kZumikLabels[] = {{"cluster", "cluster"}, {"cluster", "k8s.cluster.name"}};
inline constexpr DialectWord kZumikDirections[] = {{"load", "read"}, {"store", "write"}};
inline constexpr DialectLabel kZumikDirection[] = {
    {.label = "direction", .attribute = "inference.direction", .words = kZumikDirections}};

// Where a Dynamo tells how much waits, another router's queue is not added to it.
inline constexpr const MetricDesc* kZumikQueue[] = {&kInferenceRouterQueueDepth};
inline constexpr Rival kZumikDynamo[] = {
    {.metrics = kZumikQueue, .key = "inference.engine", .value = "dynamo-frontend"},
    {.metrics = kZumikQueue, .key = "inference.engine", .value = "dynamo-router"},
};

struct ZumikName {
  std::string_view name, unit, help;
  Kind kind;
};
inline constexpr ZumikName kZumikQueueDepth = {"dynamo_router_queue_depth", "{request}",
                                               "Requests that wait in the router of the cluster.",
                                               Kind::kGauge};
inline constexpr ZumikName kZumikReplicas = {"zumik_byoc_replicas", "{replica}",
                                             "Engine replicas of the cluster that can take requests.",
                                             Kind::kGauge};

constexpr DialectRow ZumikRow(const MetricDesc& native, const ZumikName& name,
                              std::array<DialectWhere, 3> where) {
  return {.native = &native,
          .name = name.name,
          .unit = name.unit,
          .help = name.help,
          .kind = name.kind,
          .where = where,
          .all_attributes = true};
}
constexpr DialectRow Unless(DialectRow row, std::span<const Rival> rivals) {
  row.unless = rivals;
  return row;
}
constexpr DialectRow Renaming(DialectRow row, std::string_view attribute,
                              std::span<const DialectLabel> labels) {
  row.without = attribute;
  row.labels = labels;
  return row;
}

inline constexpr DialectRow kZumikRows[] = {
    ZumikRow(kInferenceTimeToFirstToken,
             {"sglang_time_to_first_token_seconds", "s", "Arrival to first token.", Kind::kHistogram},
             {{{"inference.engine", "sglang"}}}),
    ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "dynamo-frontend"}}}),
    ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "dynamo-router"}}}),
    Unless(ZumikRow(kInferenceRouterQueueDepth, kZumikQueueDepth, {{{"inference.engine", "epp"}}}),
           kZumikDynamo),
    // Clients of a store and workers of an index are no replicas.
    ZumikRow(kInferenceReplicas, kZumikReplicas, {{{"inference.state", "ready"}}}),
    ZumikRow(kInferenceReplicas, kZumikReplicas, {{{"inference.state", "healthy"}}}),
    // Not the disk below a store, nor the engine under it, which moves the same bytes.
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

inline constexpr Dialect kZumik{.name = "zumik",
                                .help = "zumik's names for the engines of a customer's cluster",
                                .rows = kZumikRows,
                                .looks = true,
                                .labels = kZumikLabels};

}  // namespace gpulens
