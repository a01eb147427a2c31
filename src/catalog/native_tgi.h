// What Text Generation Inference tells of itself.
// The seed's names, made from roles over a window by the analyzer `inference` (docs/inference-windows.md).
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kTgiRequestLatency =
    row::Gauge("tgi.request.latency", "s", "Arrival to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kTgiQueueLatency =
    row::Gauge("tgi.queue.latency", "s", "Time a request was queued: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kTgiInferenceLatency =
    row::Gauge("tgi.inference.latency", "s", "First scheduled to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kTgiTpot =
    row::Gauge("tgi.tpot", "s", "Mean time per token of a request: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kTgiBatchSize = row::Real(
    row::Gauge("tgi.batch.size", "{request}", "Requests in one executed batch: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">));
inline constexpr MetricDesc kTgiBatchForwardDuration =
    row::Gauge("tgi.batch.forward_duration", "s",
               "Time of one forward pass, prefill and decode: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kTgiRequestInputTokens = row::Real(
    row::Gauge("tgi.request.input_tokens", "{token}", "Prompt tokens per request: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">));
inline constexpr MetricDesc kTgiRequestOutputTokens = row::Real(row::Gauge(
    "tgi.request.output_tokens", "{token}", "Generated tokens per request: a quantile of the window.",
    row::kKeys<"model.name", "model.version", "quantile">));

inline constexpr const MetricDesc* kNativeTgiRows[] = {
    &kTgiRequestLatency, &kTgiQueueLatency,         &kTgiInferenceLatency,   &kTgiTpot,
    &kTgiBatchSize,      &kTgiBatchForwardDuration, &kTgiRequestInputTokens, &kTgiRequestOutputTokens};

}  // namespace gpulens
