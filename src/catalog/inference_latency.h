// How long requests take and how large they are: histograms, as the engine keeps them. One row per role: what
// it means is the same for every engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferenceRequestPromptTokens =
    row::Standard(row::Histogram("inference.request.prompt_tokens", "{token}", "Prompt tokens per request.",
                                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestGenerationTokens = row::Standard(
    row::Histogram("inference.request.generation_tokens", "{token}", "Generated tokens per request.",
                   row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceTimeToFirstToken =
    row::Essential(row::Histogram("inference.time_to_first_token", "s", "Arrival to first token.",
                                  row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceInterTokenLatency = row::Essential(row::Histogram(
    "inference.inter_token_latency", "s", "Time between two tokens, one observation per token.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceTimePerOutputToken =
    row::Standard(row::Histogram("inference.time_per_output_token", "s",
                                 "Mean time per token after the first, one observation per request.",
                                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestDuration = row::Essential(
    row::Histogram("inference.request.duration", "s", "Arrival to last token.",
                   row::kKeys<"model.name", "error.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceQueueTime = row::Standard(row::Histogram(
    "inference.request.queue_time", "s", "Time a request waited before it was first scheduled.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferencePrefillTime =
    row::Standard(row::Histogram("inference.request.prefill_time", "s", "First scheduled to first token.",
                                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceDecodeTime =
    row::Standard(row::Histogram("inference.request.decode_time", "s", "First token to last token.",
                                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceInferenceTime =
    row::Standard(row::Histogram("inference.request.inference_time", "s", "First scheduled to last token.",
                                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceStageTime = row::Standard(row::Histogram(
    "inference.request.stage_time", "s",
    "Time in one named stage of a request: validation, tokenize, compute_input, route, transfer, ….",
    row::kKeys<"model.name", "inference.stage", "model.version", "inference.dp_rank">));

inline constexpr const MetricDesc* kInferenceLatencyRows[] = {&kInferenceRequestPromptTokens,
                                                              &kInferenceRequestGenerationTokens,
                                                              &kInferenceTimeToFirstToken,
                                                              &kInferenceInterTokenLatency,
                                                              &kInferenceTimePerOutputToken,
                                                              &kInferenceRequestDuration,
                                                              &kInferenceQueueTime,
                                                              &kInferencePrefillTime,
                                                              &kInferenceDecodeTime,
                                                              &kInferenceInferenceTime,
                                                              &kInferenceStageTime};

}  // namespace gpulens
