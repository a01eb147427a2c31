// What vLLM tells of itself.
// The seed's names, made from roles over a window by the analyzer `inference` (docs/inference-windows.md).
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kVllmPromptThroughput = row::Gauge(
    "vllm.prompt.throughput", "{token}/s", "Prompt tokens taken in per second, cached ones included.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmGenerationThroughput =
    row::Gauge("vllm.generation.throughput", "{token}/s", "Tokens generated per second.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmRequestLatency =
    row::Gauge("vllm.request.latency", "s", "Arrival to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kVllmTtft =
    row::Gauge("vllm.ttft", "s", "Arrival to first token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kVllmCacheUsage = row::Gauge(
    "vllm.cache.usage", "1", "Share of KV-cache space in use, 0-1; cpu only where the engine swaps.",
    row::kKeys<"model.name", "model.version", "cache.type">, &row::kZeroToOne);
inline constexpr MetricDesc kVllmRequestsRunning =
    row::UpDown("vllm.requests.running", "{request}", "Requests in the executing batch.",
                row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmRequestsWaiting =
    row::UpDown("vllm.requests.waiting", "{request}", "Requests accepted and not yet scheduled.",
                row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmRequestsSwapped =
    row::UpDown("vllm.requests.swapped", "{request}",
                "Requests whose KV blocks were moved to host memory; v0 engines only.",
                row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmItl =
    row::Gauge("vllm.itl", "s", "Time between two tokens: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kVllmPrefillDuration =
    row::Gauge("vllm.prefill.duration", "s", "First scheduled to first token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kVllmDecodeDuration =
    row::Gauge("vllm.decode.duration", "s", "First token to last token: a quantile of the window.",
               row::kKeys<"model.name", "model.version", "quantile">);
inline constexpr MetricDesc kVllmCacheHitRate =
    row::Gauge("vllm.cache.hit_rate", "1",
               "Share of looked-up prompt tokens that were in the prefix cache, over the window.",
               row::kKeys<"model.name", "model.version">, &row::kZeroToOne);
inline constexpr MetricDesc kVllmCacheEvictions =
    row::Gauge("vllm.cache.evictions", "{block}/s",
               "KV-cache blocks evicted per second, as far as the engine samples them.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmSpecDecodeAcceptanceRate = row::Gauge(
    "vllm.spec_decode.acceptance_rate", "1", "Share of drafted tokens that were accepted, over the window.",
    row::kKeys<"model.name", "model.version">, &row::kZeroToOne);
inline constexpr MetricDesc kVllmSpecDecodeEfficiency =
    row::Gauge("vllm.spec_decode.efficiency", "1",
               "Tokens per verification step, bonus token included, over the window.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmRequestsSuccess =
    row::Gauge("vllm.requests.success", "{request}/s", "Requests ended per second, whatever the reason.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmRequestsFinished =
    row::Gauge("vllm.requests.finished", "{request}/s",
               "Requests ended per second for one reason: stop, length or abort.",
               row::kKeys<"model.name", "model.version", "finish_reason">);
inline constexpr MetricDesc kVllmSchedulerPreemptions = row::Gauge(
    "vllm.scheduler.preemptions", "{event}/s", "Requests put back to the queue per second, to free KV cache.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kVllmLoraActiveCount =
    row::Gauge("vllm.lora.active_count", "{adapter}", "LoRA adapters in use.",
               row::kKeys<"model.name", "model.version">);

inline constexpr const MetricDesc* kNativeVllmRows[] = {&kVllmPromptThroughput,
                                                        &kVllmGenerationThroughput,
                                                        &kVllmRequestLatency,
                                                        &kVllmTtft,
                                                        &kVllmCacheUsage,
                                                        &kVllmRequestsRunning,
                                                        &kVllmRequestsWaiting,
                                                        &kVllmRequestsSwapped,
                                                        &kVllmItl,
                                                        &kVllmPrefillDuration,
                                                        &kVllmDecodeDuration,
                                                        &kVllmCacheHitRate,
                                                        &kVllmCacheEvictions,
                                                        &kVllmSpecDecodeAcceptanceRate,
                                                        &kVllmSpecDecodeEfficiency,
                                                        &kVllmRequestsSuccess,
                                                        &kVllmRequestsFinished,
                                                        &kVllmSchedulerPreemptions,
                                                        &kVllmLoraActiveCount};

}  // namespace gpulens
