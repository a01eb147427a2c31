// Requests and tokens, as engines count them. One row per role: what it means is the same for every
// engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferenceRequestsRunning =
    row::Essential(row::UpDown("inference.requests.running", "{request}", "Requests in the executing batch.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsWaiting = row::Essential(row::UpDown(
    "inference.requests.waiting", "{request}", "Requests accepted by the engine and not yet scheduled.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsWaitingByReason = row::Standard(
    row::UpDown("inference.requests.waiting_by_reason", "{request}",
                "Waiting requests split by what holds them (capacity, deferred, grammar); a split of "
                "requests.waiting, never added to it.",
                row::kKeys<"model.name", "inference.wait_reason", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsSwapped =
    row::Standard(row::UpDown("inference.requests.swapped", "{request}",
                              "Requests whose KV blocks were moved to host memory; only engines that swap.",
                              row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsByPhase = row::Standard(
    row::UpDown("inference.requests.by_phase", "{request}",
                "Requests held in one phase (prefill, decode, scheduled, paused, retracted, bootstrap, "
                "transfer, prealloc, grammar); may overlap running.",
                row::kKeys<"model.name", "inference.phase", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsInFlight = row::Standard(row::UpDown(
    "inference.requests.in_flight", "{request}",
    "Requests accepted and not finished, as a router, frontend or gateway sees them: waiting + running.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsLimit = row::Standard(
    row::UpDown("inference.requests.limit", "{request}", "Most requests the engine will run at once.",
                row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsAdmitted =
    row::Standard(row::Counter("inference.requests.admitted", "{request}", "Requests received.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsFinished = row::Essential(
    row::Counter("inference.requests.finished", "{request}",
                 "Requests ended, by reason: stop, length, abort, error, repetition; without reason where "
                 "the engine gives none.",
                 row::kKeys<"model.name", "finish_reason", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsFailed = row::Essential(row::Counter(
    "inference.requests.failed", "{request}", "Requests that ended with an error, by error type.",
    row::kKeys<"model.name", "error.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsAborted = row::Standard(row::Counter(
    "inference.requests.aborted", "{request}",
    "Requests cancelled by the client or the engine, where they are counted apart from finished.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsRejected = row::Standard(
    row::Counter("inference.requests.rejected", "{request}", "Requests refused before they were queued.",
                 row::kKeys<"model.name", "inference.reject_reason", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRequestsRetried = row::Standard(
    row::Counter("inference.requests.retried", "{request}",
                 "Requests moved to another worker, deployment or model: migrations, retries, fallbacks.",
                 row::kKeys<"model.name", "inference.retry_reason", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferencePromptTokens = row::Essential(
    row::Counter("inference.tokens.prompt", "{token}", "Prompt tokens taken in, cached ones included.",
                 row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceGenerationTokens =
    row::Essential(row::Counter("inference.tokens.generation", "{token}", "Tokens generated.",
                                row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRecomputedTokens =
    row::Standard(row::Counter("inference.tokens.recomputed", "{token}",
                               "Prompt tokens computed again after a preemption or retraction.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferencePromptTokensBySource = row::Standard(
    row::Counter("inference.tokens.prompt_by_source", "{token}",
                 "Prompt tokens by where their KV came from (computed, local_cache, host_cache, "
                 "storage_cache, external); a split of tokens.prompt.",
                 row::kKeys<"model.name", "inference.token_source", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceTokenRate = row::Standard(row::Real(
    row::UpDown("inference.tokens.rate", "{token}/s",
                "Tokens per second as the engine itself averages it; rates made from counters are better "
                "where counters move during the request.",
                row::kKeys<"model.name", "gen_ai.token.type", "model.version", "inference.dp_rank">)));

inline constexpr const MetricDesc* kInferenceRequestsRows[] = {
    &kInferenceRequestsRunning,  &kInferenceRequestsWaiting,      &kInferenceRequestsWaitingByReason,
    &kInferenceRequestsSwapped,  &kInferenceRequestsByPhase,      &kInferenceRequestsInFlight,
    &kInferenceRequestsLimit,    &kInferenceRequestsAdmitted,     &kInferenceRequestsFinished,
    &kInferenceRequestsFailed,   &kInferenceRequestsAborted,      &kInferenceRequestsRejected,
    &kInferenceRequestsRetried,  &kInferencePromptTokens,         &kInferenceGenerationTokens,
    &kInferenceRecomputedTokens, &kInferencePromptTokensBySource, &kInferenceTokenRate};

}  // namespace gpulens
