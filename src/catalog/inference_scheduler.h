// The scheduler's steps, speculative decoding, adapters, and estimated work. One row per role: what it means
// is the same for every engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferencePreemptions = row::Standard(row::Counter(
    "inference.scheduler.preemptions", "{event}", "Requests put back to the queue to free KV cache.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceIterationTokens = row::Standard(
    row::Histogram("inference.scheduler.iteration_tokens", "{token}", "Tokens handled in one engine step.",
                   row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceIterationTime = row::Standard(
    row::Histogram("inference.scheduler.iteration_time", "s", "Time of one engine step or forward pass.",
                   row::kKeys<"model.name", "inference.phase", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceBatchSize = row::Standard(
    row::Histogram("inference.scheduler.batch_size", "{request}", "Requests in one executed batch.",
                   row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpecDrafts = row::Standard(
    row::Counter("inference.spec_decode.drafts", "{draft}", "Draft sequences proposed (verification steps).",
                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpecDraftTokens =
    row::Standard(row::Counter("inference.spec_decode.draft_tokens", "{token}", "Tokens drafted.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpecAcceptedTokens =
    row::Standard(row::Counter("inference.spec_decode.accepted_tokens", "{token}", "Drafted tokens accepted.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpecAcceptedTokensPerPosition = row::Standard(
    row::Counter("inference.spec_decode.accepted_tokens_per_position", "{token}",
                 "Drafted tokens accepted, by position in the draft; a split of accepted_tokens.",
                 row::kKeys<"model.name", "inference.position", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpecAcceptanceRatio = row::Standard(
    row::Gauge("inference.spec_decode.acceptance_ratio", "1",
               "Accepted share as the engine itself states it; used only where no counters exist.",
               row::kKeys<"model.name", "model.version", "inference.dp_rank">, &row::kZeroToOne));
inline constexpr MetricDesc kInferenceSpecAcceptedLength = row::Standard(
    row::Real(row::Gauge("inference.spec_decode.accepted_length", "{token}",
                         "Mean tokens per verification step, bonus token included, as the engine states it.",
                         row::kKeys<"model.name", "model.version", "inference.dp_rank">)));
inline constexpr MetricDesc kInferenceLoraAdapters = row::Standard(
    row::Gauge("inference.lora.adapters", "{adapter}", "LoRA adapters by state: running, waiting, max.",
               row::kKeys<"model.name", "inference.state", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEstimatedFlops = row::Standard(row::Real(
    row::Counter("inference.compute.estimated_flops", "{flop}",
                 "Floating-point operations per GPU as the engine estimates them; over peak gives MFU.",
                 row::kKeys<"model.name", "model.version", "inference.dp_rank">)));
inline constexpr MetricDesc kInferenceEstimatedBytes = row::Standard(row::Real(
    row::Counter("inference.compute.estimated_bytes", "By",
                 "Bytes moved to and from GPU memory per GPU as the engine estimates them (read, write).",
                 row::kKeys<"model.name", "inference.direction", "model.version", "inference.dp_rank">)));

inline constexpr const MetricDesc* kInferenceSchedulerRows[] = {
    &kInferencePreemptions,         &kInferenceIterationTokens,
    &kInferenceIterationTime,       &kInferenceBatchSize,
    &kInferenceSpecDrafts,          &kInferenceSpecDraftTokens,
    &kInferenceSpecAcceptedTokens,  &kInferenceSpecAcceptedTokensPerPosition,
    &kInferenceSpecAcceptanceRatio, &kInferenceSpecAcceptedLength,
    &kInferenceLoraAdapters,        &kInferenceEstimatedFlops,
    &kInferenceEstimatedBytes};

}  // namespace gpulens
