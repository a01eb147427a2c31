// Routers and gateways, money, and the engine process itself. One row per role: what it means is the same for
// every engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferenceRouterQueueDepth = row::Standard(row::UpDown(
    "inference.router.queue_depth", "{request}", "Requests held by a router or gateway before any engine.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRouterDecisions = row::Standard(
    row::Counter("inference.router.decisions", "{decision}", "Routing decisions by outcome or kind.",
                 row::kKeys<"model.name", "inference.decision", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRouterTime = row::Standard(
    row::Histogram("inference.router.duration", "s", "Time a router spends on one request, by stage.",
                   row::kKeys<"model.name", "inference.stage", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceRouterSaturation = row::Standard(
    row::Gauge("inference.router.saturation", "1", "Load of the pool behind a router, 0-1.",
               row::kKeys<"model.name", "model.version", "inference.dp_rank">, &row::kZeroToOne));
inline constexpr MetricDesc kInferenceReplicas = row::Standard(row::UpDown(
    "inference.replicas", "{replica}", "Engine replicas, pods or workers by state: ready, healthy, total.",
    row::kKeys<"model.name", "inference.state", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceSpend = row::Standard(
    row::Real(row::Counter("inference.spend.usd", "{USD}", "Money charged for requests, US dollars.",
                           row::kKeys<"model.name", "model.version", "inference.dp_rank">)));
inline constexpr MetricDesc kInferenceErrors = row::Essential(row::Counter(
    "inference.errors", "{error}",
    "Errors that are not the end of one request: transports, polls, callbacks, NaN logits.",
    row::kKeys<"model.name", "error.type", "inference.component", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEngineSleepState = row::Standard(row::StateSet(
    "inference.engine.sleep_state", "Sleep state: awake, weights_offloaded, discard_all.",
    row::kKeys<"model.name", "inference.engine.sleep_state", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEngineLoadTime = row::Standard(row::Gauge(
    "inference.engine.load_time", "s", "Time the engine took to start or to load weights, by phase.",
    row::kKeys<"model.name", "inference.phase", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEngineMemory = row::Standard(row::UpDown(
    "inference.engine.memory", "By",
    "Memory in use as the engine reports it: gpu, cpu, pinned, weights, kv_cache, graph, process.",
    row::kKeys<"model.name", "inference.memory_kind", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEngineInfo =
    row::Essential(row::Info("inference.engine.info", "Configuration or build of the engine, always 1.",
                             row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceEngineStartTime = row::Standard(row::Gauge(
    "inference.engine.start_time", "s", "Unix time the engine process started; start of its counters.",
    row::kKeys<"model.name", "model.version", "inference.dp_rank">));

// Of our own asking, on the target: no role.
inline constexpr MetricDesc kInferenceEngineVersion =
    row::Standard(row::Info("inference.engine.version", "1, with the version that the engine reports.",
                            row::kKeys<"inference.engine", "inference.engine.version">));

inline constexpr const MetricDesc* kInferenceRouterRows[] = {
    &kInferenceRouterQueueDepth, &kInferenceRouterDecisions,  &kInferenceRouterTime,
    &kInferenceRouterSaturation, &kInferenceReplicas,         &kInferenceSpend,
    &kInferenceErrors,           &kInferenceEngineSleepState, &kInferenceEngineLoadTime,
    &kInferenceEngineMemory,     &kInferenceEngineInfo,       &kInferenceEngineStartTime,
    &kInferenceEngineVersion};

}  // namespace gpulens
