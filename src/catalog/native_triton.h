// What Triton tells of each version of each model.
// The seed's names, made from roles over a window by the analyzer `inference` (docs/inference-windows.md).
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kTritonRequestsSuccess =
    row::Gauge("triton.requests.success", "{request}/s", "Requests that succeeded per second.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonRequestsFailed = row::Gauge(
    "triton.requests.failed", "{request}/s", "Requests that failed per second, whatever the reason.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonRequestLatency =
    row::Gauge("triton.request.latency", "us", "Mean time of a request, over the window.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonQueueLatency =
    row::Gauge("triton.queue.latency", "us", "Mean time a request was queued, over the window.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonComputeInputLatency = row::Gauge(
    "triton.compute.input_latency", "us", "Mean time to prepare the input of a request, over the window.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonComputeLatency =
    row::Gauge("triton.compute.latency", "us", "Mean time a request was computed, over the window.",
               row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonComputeOutputLatency = row::Gauge(
    "triton.compute.output_latency", "us", "Mean time to hand out the output of a request, over the window.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonQueueDepth = row::UpDown(
    "triton.queue.depth", "{request}", "Requests accepted and not yet executed; Triton 23.11 and later.",
    row::kKeys<"model.name", "model.version">);
inline constexpr MetricDesc kTritonBatchSize = row::Real(
    row::Gauge("triton.batch.size", "{request}", "Mean inferences in one execution, over the window.",
               row::kKeys<"model.name", "model.version">));

inline constexpr const MetricDesc* kNativeTritonRows[] = {
    &kTritonRequestsSuccess,      &kTritonRequestsFailed,      &kTritonRequestLatency,
    &kTritonQueueLatency,         &kTritonComputeInputLatency, &kTritonComputeLatency,
    &kTritonComputeOutputLatency, &kTritonQueueDepth,          &kTritonBatchSize};

}  // namespace gpulens
