// OpenTelemetry's gen_ai.* names for the metrics of LLM engines: semantic conventions 1.37, the first with
// gen_ai.provider.name; all of them in development. Histograms have the engine's own buckets.
//
// gen_ai.operation.name and gen_ai.provider.name are required. Engines have one histogram for chat and text
// completion, so the operation is "chat", as nearly all of it is. The target's attributes of these names take
// precedence. server.address and server.port are those of the target's page.
//
// A request passes several layers; where a page has more than one of them, only the engine's own series are
// named, so that a sum counts it once. gen_ai.server.cache.* are the l9gpu project's names.
#pragma once

#include "catalog/inference.h"
#include "names/naming.h"

namespace gpulens {

// By inference.engine; others keep their name. Equal to the column `provider` of
// src/scrape/engine/tables/engines.tsv.
inline constexpr NamingWord kGenaiProviders[] = {
    {"tgi", "huggingface_tgi"},
    {"triton-tensorrtllm", "triton"},
    {"trtllm-serve", "tensorrt_llm"},
    {"nim", "nvidia_nim"},
    {"llama.cpp", "llama_cpp"},
    {"ray-serve", "ray"},
    {"dynamo-frontend", "dynamo"},
    {"dynamo-worker", "dynamo"},
    {"dynamo-router", "dynamo"},
    {"dynamo-kvbm", "dynamo"},
    {"epp", "llm_d"},
    {"envoy-ai-gateway", "envoy"},
    {"tei", "huggingface_tei"},
    {"vllm-production-stack", "vllm"},
    {"vllm-router", "vllm"},
    {"semantic-router", "vllm"},
    {"sglang-router", "sglang"},
    {"gpulens-proxy", "gpulens"},
};

// Engines that generate nothing.
inline constexpr NamingWord kGenaiOperations[] = {{"tei", "embeddings"}};

// Of two labels of one name, the first with a value counts.
#define GPULENS_GENAI                                                                                       \
  {"gen_ai.operation.name", "gen_ai.operation.name"},                                                       \
      {.label = "gen_ai.operation.name",                                                                    \
       .attribute = "inference.engine",                                                                     \
       .words = kGenaiOperations,                                                                           \
       .listed = true},                                                                                     \
      {.label = "gen_ai.operation.name", .text = "chat"}, {"gen_ai.provider.name", "gen_ai.provider.name"}, \
      {.label = "gen_ai.provider.name", .attribute = "inference.engine", .words = kGenaiProviders},         \
      {"gen_ai.request.model", "model.name"}, {"server.address", "server.address"},                         \
      {"server.port", "server.port"}
inline constexpr NamingLabel kGenaiLabels[] = {GPULENS_GENAI};
inline constexpr NamingLabel kGenaiInput[] = {GPULENS_GENAI, {.label = "gen_ai.token.type", .text = "input"}};
inline constexpr NamingLabel kGenaiOutput[] = {GPULENS_GENAI,
                                               {.label = "gen_ai.token.type", .text = "output"}};
inline constexpr NamingLabel kGenaiCache[] = {GPULENS_GENAI, {"gen_ai.cache.type", "cache.type"}};
#undef GPULENS_GENAI

inline constexpr const MetricDesc* kGenaiFirst[] = {&kInferenceTimeToFirstToken};
inline constexpr const MetricDesc* kGenaiPerToken[] = {&kInferenceTimePerOutputToken,
                                                       &kInferenceInterTokenLatency};
inline constexpr const MetricDesc* kGenaiPerRequest[] = {&kInferenceTimePerOutputToken};
inline constexpr const MetricDesc* kGenaiDuration[] = {&kInferenceRequestDuration};
inline constexpr const MetricDesc* kGenaiPrompt[] = {&kInferenceRequestPromptTokens};
inline constexpr const MetricDesc* kGenaiGeneration[] = {&kInferenceRequestGenerationTokens};
inline constexpr const MetricDesc* kGenaiUsage[] = {&kInferenceKvCacheUsage};

inline constexpr std::string_view kSameTarget[] = {"target"};
inline constexpr std::string_view kSameModel[] = {"target", "inference.engine", "model.name"};

// The engine has it on the same page.
consteval Rival GenaiEngine(std::span<const MetricDesc* const> metrics) {
  return {.metrics = metrics, .key = "inference.layer", .value = "engine", .same = kSameTarget};
}
inline constexpr Rival kGenaiFirstRivals[] = {GenaiEngine(kGenaiFirst)};
inline constexpr Rival kGenaiPerTokenRivals[] = {GenaiEngine(kGenaiPerToken)};
// An observation for each token is not one for each request: used only where no page has the right one.
inline constexpr Rival kGenaiInterTokenRivals[] = {GenaiEngine(kGenaiPerToken),
                                                   {.metrics = kGenaiPerRequest, .same = kSameModel}};
inline constexpr Rival kGenaiDurationRivals[] = {GenaiEngine(kGenaiDuration)};
inline constexpr Rival kGenaiPromptRivals[] = {GenaiEngine(kGenaiPrompt)};
inline constexpr Rival kGenaiGenerationRivals[] = {GenaiEngine(kGenaiGeneration)};
inline constexpr Rival kGenaiUsageRivals[] = {GenaiEngine(kGenaiUsage)};

inline constexpr NamingName kGenaiTokens = {"gen_ai.client.token.usage", "{token}",
                                            "Number of input and output tokens used.", Kind::kHistogram};
inline constexpr NamingName kGenaiTimePerToken = {
    "gen_ai.server.time_per_output_token", "s",
    "Time per output token after the first, as the server sees it.", Kind::kHistogram};

constexpr NamingRow GenaiRow(const MetricDesc& native, const NamingName& name,
                             std::span<const NamingLabel> labels, std::span<const Rival> unless) {
  NamingRow row = NamedRow(native, name);
  row.labels = labels;
  row.other_attributes = true;
  row.unless = unless;
  return row;
}

inline constexpr NamingName kGenaiHitRate = {
    "gen_ai.server.cache.hit_rate", "1",
    "Share of prompt tokens that came from a cache, 0-1. Outside the convention: the l9gpu project's name.",
    Kind::kGauge};

inline constexpr NamingRow kGenaiRows[] = {
    GenaiRow(kInferenceRequestPromptTokens, kGenaiTokens, kGenaiInput, kGenaiPromptRivals),
    GenaiRow(kInferenceRequestGenerationTokens, kGenaiTokens, kGenaiOutput, kGenaiGenerationRivals),
    GenaiRow(kInferenceTimeToFirstToken,
             {"gen_ai.server.time_to_first_token", "s", "Time to the first token, as the server sees it.",
              Kind::kHistogram},
             kGenaiLabels, kGenaiFirstRivals),
    GenaiRow(kInferenceTimePerOutputToken, kGenaiTimePerToken, kGenaiLabels, kGenaiPerTokenRivals),
    GenaiRow(kInferenceInterTokenLatency, kGenaiTimePerToken, kGenaiLabels, kGenaiInterTokenRivals),
    GenaiRow(kInferenceRequestDuration,
             {"gen_ai.server.request.duration", "s", "Time of a request, up to its last byte or token.",
              Kind::kHistogram},
             kGenaiLabels, kGenaiDurationRivals),
    GenaiRow(kInferenceKvCacheUsage,
             {"gen_ai.server.cache.utilization", "1",
              "Share of KV-cache space in use, 0-1. Outside the convention: the l9gpu project's name.",
              Kind::kGauge},
             kGenaiCache, kGenaiUsageRivals),
    // Of the window, by the analyzer.
    GenaiRow(kVllmCacheHitRate, kGenaiHitRate, kGenaiLabels, {}),
    GenaiRow(kSglangCacheHitRate, kGenaiHitRate, kGenaiLabels, {}),
};

inline constexpr MetricNaming kGenai{
    .name = "otel_genai",
    .help = "OpenTelemetry's gen_ai.* names for LLM engines, semantic conventions 1.37",
    .rows = kGenaiRows,
    .looks = true,
    .otel = true};

}  // namespace gpulens
