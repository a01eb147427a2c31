// What SGLang tells of itself.
// The seed's names, made from roles over a window by the analyzer `inference` (docs/inference-windows.md).
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSglangPromptThroughput = row::Gauge(
    "sglang.prompt.throughput", "{token}/s", "Prompt tokens taken in per second, cached ones included.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kSglangGenerationThroughput =
    row::Gauge("sglang.generation.throughput", "{token}/s", "Tokens generated per second.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kSglangCacheHitRate = row::Gauge(
    "sglang.cache.hit_rate", "1", "Share of prompt tokens that came from a cache, over the window.",
    row::kKeys<"model.name", "model.version">, &row::kZeroToOne);
inline constexpr MetricDesc kSglangItl =
    row::Gauge("sglang.itl", "s", "Time between two tokens: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kSglangTtft =
    row::Gauge("sglang.ttft", "s", "Arrival to first token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kSglangRequestLatency =
    row::Gauge("sglang.request.latency", "s", "Arrival to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kSglangRequestsRunning =
    row::UpDown("sglang.requests.running", "{request}", "Requests in the executing batch.",
                row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kSglangRequestsWaiting =
    row::UpDown("sglang.requests.waiting", "{request}", "Requests accepted and not yet scheduled.",
                row::kKeys<"model.name", "model.version">);

inline constexpr const MetricDesc* kNativeSglangRows[] = {
    &kSglangPromptThroughput, &kSglangGenerationThroughput, &kSglangCacheHitRate,   &kSglangItl, &kSglangTtft,
    &kSglangRequestLatency,   &kSglangRequestsRunning,      &kSglangRequestsWaiting};

}  // namespace gpulens
