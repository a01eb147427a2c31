#include "plugins/analyzers/inference/native_table.h"

#include <algorithm>
#include <iterator>

#include "catalog/inference.h"

namespace gpulens::windows {
namespace {

template <KeyText... values>
consteval LabelFilter Where(std::string_view key) {
  return {.key = key, .values = row::kKeys<values...>};
}
template <KeyText... values>
consteval LabelFilter WhereNot(std::string_view key) {
  return {.key = key, .values = row::kKeys<values...>, .except = true};
}
consteval LabelFilter WhereAny(std::string_view key) { return {.key = key, .except = true}; }

consteval NativeMetric Level(std::string_view engine, const MetricDesc& metric, MetricPick of) {
  return {.engine = engine, .metric = &metric, .op = NativeOp::kLevel, .of = of};
}
consteval NativeMetric Total(std::string_view engine, const MetricDesc& metric, MetricPick of,
                             MetricPick fallback, MetricPick more = {}) {
  return {.engine = engine,
          .metric = &metric,
          .op = NativeOp::kTotal,
          .of = of,
          .over = more,
          .fallback = fallback};
}
consteval NativeMetric Rate(std::string_view engine, const MetricDesc& metric, MetricPick of) {
  return {.engine = engine, .metric = &metric, .op = NativeOp::kRate, .of = of};
}
consteval NativeMetric Quantiles(std::string_view engine, const MetricDesc& metric, MetricPick of) {
  return {.engine = engine, .metric = &metric, .op = NativeOp::kQuantiles, .of = of};
}
consteval NativeMetric Mean(std::string_view engine, const MetricDesc& metric, MetricPick of,
                            double scale = 1) {
  return {.engine = engine, .metric = &metric, .op = NativeOp::kMean, .of = of, .scale = scale};
}
consteval NativeMetric Ratio(std::string_view engine, const MetricDesc& metric, MetricPick of,
                             MetricPick over, MetricPick fallback = {}) {
  return {.engine = engine,
          .metric = &metric,
          .op = NativeOp::kRatio,
          .of = of,
          .over = over,
          .fallback = fallback};
}
consteval NativeMetric OnePlus(NativeMetric ratio) {
  ratio.op = NativeOp::kOnePlusRatio;
  return ratio;
}
consteval NativeMetric With(NativeMetric native, std::string_view key, std::string_view value) {
  native.key = key;
  native.value = value;
  return native;
}

constexpr LabelFilter kOnGpu = Where<"gpu">("cache.type"), kOnCpu = Where<"cpu">("cache.type");
constexpr double kMicro = 1e6;  // Triton's metrics are in microseconds, engine metrics in seconds.

constexpr NativeMetric kNatives[] = {
    Rate("vllm", kVllmPromptThroughput, {&kInferencePromptTokens}),
    Rate("vllm", kVllmGenerationThroughput, {&kInferenceGenerationTokens}),
    Quantiles("vllm", kVllmRequestLatency, {&kInferenceRequestDuration}),
    Quantiles("vllm", kVllmTtft, {&kInferenceTimeToFirstToken}),
    With(Level("vllm", kVllmCacheUsage, {&kInferenceKvCacheUsage, kOnGpu}), "cache.type", "gpu"),
    With(Level("vllm", kVllmCacheUsage, {&kInferenceKvCacheUsage, kOnCpu}), "cache.type", "cpu"),
    Level("vllm", kVllmRequestsRunning, {&kInferenceRequestsRunning}),
    Level("vllm", kVllmRequestsWaiting, {&kInferenceRequestsWaiting}),
    Level("vllm", kVllmRequestsSwapped, {&kInferenceRequestsSwapped}),
    Quantiles("vllm", kVllmItl, {&kInferenceInterTokenLatency}),
    Quantiles("vllm", kVllmPrefillDuration, {&kInferencePrefillTime}),
    Quantiles("vllm", kVllmDecodeDuration, {&kInferenceDecodeTime}),
    Ratio("vllm", kVllmCacheHitRate, {&kInferencePrefixCacheHits, kOnGpu},
          {&kInferencePrefixCacheQueries, kOnGpu}, {&kInferenceCacheHitRatio, kOnGpu}),
    Rate("vllm", kVllmCacheEvictions, {&kInferenceKvCacheEvictions, kOnGpu}),
    Ratio("vllm", kVllmSpecDecodeAcceptanceRate, {&kInferenceSpecAcceptedTokens},
          {&kInferenceSpecDraftTokens}, {&kInferenceSpecAcceptanceRatio}),
    OnePlus(
        Ratio("vllm", kVllmSpecDecodeEfficiency, {&kInferenceSpecAcceptedTokens}, {&kInferenceSpecDrafts})),
    Rate("vllm", kVllmRequestsSuccess, {&kInferenceRequestsFinished}),
    With(Rate("vllm", kVllmRequestsFinished, {&kInferenceRequestsFinished, Where<"stop">("finish_reason")}),
         "finish_reason", "stop"),
    With(Rate("vllm", kVllmRequestsFinished, {&kInferenceRequestsFinished, Where<"length">("finish_reason")}),
         "finish_reason", "length"),
    With(Rate("vllm", kVllmRequestsFinished, {&kInferenceRequestsFinished, Where<"abort">("finish_reason")}),
         "finish_reason", "abort"),
    Rate("vllm", kVllmSchedulerPreemptions, {&kInferencePreemptions}),
    Level("vllm", kVllmLoraActiveCount, {&kInferenceLoraAdapters, Where<"running">("inference.state")}),

    // Ends by reason are all ends; those without a reason are the successful ones only.
    Total("nim", kNimRequestsTotal, {&kInferenceRequestsFinished, WhereAny("finish_reason")},
          {&kInferenceRequestsFinished}, {&kInferenceRequestsFailed}),
    Total("nim", kNimRequestsFailed, {&kInferenceRequestsFailed},
          {&kInferenceRequestsFinished, WhereNot<"stop", "length">("finish_reason")}),
    Quantiles("nim", kNimRequestLatency, {&kInferenceRequestDuration}),
    Mean("nim", kNimBatchSize, {&kInferenceBatchSize}),
    Level("nim", kNimQueueDepth, {&kInferenceRequestsWaiting}),
    Level("nim", kNimKvCacheUsage, {&kInferenceKvCacheUsage, kOnGpu}),
    Quantiles("nim", kNimItl, {&kInferenceInterTokenLatency}),

    Rate("triton", kTritonRequestsSuccess, {&kInferenceRequestsFinished}),
    Rate("triton", kTritonRequestsFailed, {&kInferenceRequestsFailed}),
    Mean("triton", kTritonRequestLatency, {&kInferenceRequestDuration}, kMicro),
    Mean("triton", kTritonQueueLatency, {&kInferenceQueueTime}, kMicro),
    Mean("triton", kTritonComputeInputLatency,
         {&kInferenceStageTime, Where<"compute_input">("inference.stage")}, kMicro),
    Mean("triton", kTritonComputeLatency, {&kInferenceInferenceTime}, kMicro),
    Mean("triton", kTritonComputeOutputLatency,
         {&kInferenceStageTime, Where<"compute_output">("inference.stage")}, kMicro),
    Level("triton", kTritonQueueDepth, {&kInferenceRequestsWaiting}),
    Mean("triton", kTritonBatchSize, {&kInferenceBatchSize}),

    Rate("sglang", kSglangPromptThroughput, {&kInferencePromptTokens}),
    Rate("sglang", kSglangGenerationThroughput, {&kInferenceGenerationTokens}),
    Ratio("sglang", kSglangCacheHitRate, {&kInferenceCachedTokens}, {&kInferencePromptTokens},
          {&kInferenceCacheHitRatio}),
    Quantiles("sglang", kSglangItl, {&kInferenceInterTokenLatency}),
    Quantiles("sglang", kSglangTtft, {&kInferenceTimeToFirstToken}),
    Quantiles("sglang", kSglangRequestLatency, {&kInferenceRequestDuration}),
    Level("sglang", kSglangRequestsRunning, {&kInferenceRequestsRunning}),
    Level("sglang", kSglangRequestsWaiting, {&kInferenceRequestsWaiting}),

    Quantiles("tgi", kTgiRequestLatency, {&kInferenceRequestDuration}),
    Quantiles("tgi", kTgiQueueLatency, {&kInferenceQueueTime}),
    Quantiles("tgi", kTgiInferenceLatency, {&kInferenceInferenceTime}),
    Quantiles("tgi", kTgiTpot, {&kInferenceTimePerOutputToken}),
    Quantiles("tgi", kTgiBatchSize, {&kInferenceBatchSize}),
    Quantiles("tgi", kTgiBatchForwardDuration, {&kInferenceIterationTime}),
    Quantiles("tgi", kTgiRequestInputTokens, {&kInferenceRequestPromptTokens}),
    Quantiles("tgi", kTgiRequestOutputTokens, {&kInferenceRequestGenerationTokens}),
};

}  // namespace

std::span<const NativeMetric> AllNatives() noexcept { return kNatives; }

std::span<const NativeMetric> NativesOf(std::string_view engine) noexcept {
  auto same = [&](const NativeMetric& native) { return native.engine == engine; };
  const NativeMetric* first = std::ranges::find_if(kNatives, same);
  return {first, std::find_if_not(first, std::end(kNatives), same)};
}

}  // namespace gpulens::windows
