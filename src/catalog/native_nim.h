// What NVIDIA NIM tells of itself.
// The seed's names, made from roles over a window by the analyzer `inference` (docs/inference-windows.md).
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kNimRequestsTotal =
    row::Counter("nim.requests.total", "{request}", "Requests ended, successful and failed ones.",
                 row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kNimRequestsFailed = row::Counter(
    "nim.requests.failed", "{request}", "Requests that ended otherwise than with stop or length.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kNimRequestLatency =
    row::Gauge("nim.request.latency", "s", "Arrival to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kNimBatchSize =
    row::Real(row::Gauge("nim.batch.size", "{request}",
                         "Mean requests in one executed batch, over the window; no known NIM reports it.",
                         row::kKeys<"model.name", "model.version">));
inline constexpr MetricDesc kNimQueueDepth =
    row::UpDown("nim.queue.depth", "{request}", "Requests accepted and not yet scheduled.",
                row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kNimKvCacheUsage =
    row::Gauge("nim.kv_cache.usage", "1", "Share of KV-cache space in use, 0-1.",
               row::kKeys<"model.name", "model.version">, &row::kZeroToOne);
inline constexpr MetricDesc kNimItl =
    row::Gauge("nim.itl", "s", "Time between two tokens: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);

inline constexpr const MetricDesc* kNativeNimRows[] = {&kNimRequestsTotal,
                                                       &kNimRequestsFailed,
                                                       &kNimRequestLatency,
                                                       &kNimBatchSize,
                                                       &kNimQueueDepth,
                                                       &kNimKvCacheUsage,
                                                       &kNimItl};

}  // namespace gpulens
