// OpenTelemetry's gen_ai.* names for what LLM engines say of themselves: semantic conventions 1.37, the
// first with gen_ai.provider.name; all of them are in development there. Histograms are histograms, in
// the unit of the conventions and with the engine's own buckets.
//
// gen_ai.operation.name and gen_ai.provider.name are required. No page tells chat from text completion: an
// engine keeps one histogram for both, so this says "chat", what nearly all of it is. A target whose
// attributes have gen_ai.operation.name or gen_ai.provider.name is called by those. server.address and
// server.port are those of the page that is read.
//
// A request passes several layers; where one page shows more than one of them, only the engine's own series
// are told, so that a sum counts it once. gen_ai.server.cache.* are the l9gpu project's: the conventions
// have no such names.
#pragma once

#include "catalog/inference.h"
#include "names/dialect.h"

namespace gpulens {

// By inference.engine; an engine that is not here is called as it is. The column `provider` of
// src/scrape/engine/tables/engines.tsv says the same.
inline constexpr DialectWord kGenaiProviders[] = {
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
};

// Engines that generate nothing.
inline constexpr DialectWord kGenaiOperations[] = {{"tei", "embeddings"}};

// Of two labels of one name, the first that has a value stands.
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
inline constexpr DialectLabel kGenaiLabels[] = {GPULENS_GENAI};
inline constexpr DialectLabel kGenaiInput[] = {GPULENS_GENAI,
                                               {.label = "gen_ai.token.type", .text = "input"}};
inline constexpr DialectLabel kGenaiOutput[] = {GPULENS_GENAI,
                                                {.label = "gen_ai.token.type", .text = "output"}};
inline constexpr DialectLabel kGenaiCache[] = {GPULENS_GENAI, {"gen_ai.cache.type", "cache.type"}};
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

// The engine itself says it on the same page.
consteval Rival GenaiEngine(std::span<const MetricDesc* const> metrics) {
  return {.metrics = metrics, .key = "inference.layer", .value = "engine", .same = kSameTarget};
}
inline constexpr Rival kGenaiFirstRivals[] = {GenaiEngine(kGenaiFirst)};
inline constexpr Rival kGenaiPerTokenRivals[] = {GenaiEngine(kGenaiPerToken)};
// An observation for each token is not one for each request: told only where no page has the right one.
inline constexpr Rival kGenaiInterTokenRivals[] = {GenaiEngine(kGenaiPerToken),
                                                   {.metrics = kGenaiPerRequest, .same = kSameModel}};
inline constexpr Rival kGenaiDurationRivals[] = {GenaiEngine(kGenaiDuration)};
inline constexpr Rival kGenaiPromptRivals[] = {GenaiEngine(kGenaiPrompt)};
inline constexpr Rival kGenaiGenerationRivals[] = {GenaiEngine(kGenaiGeneration)};
inline constexpr Rival kGenaiUsageRivals[] = {GenaiEngine(kGenaiUsage)};

struct GenaiName {
  std::string_view name, unit, help;
  Kind kind = Kind::kHistogram;
};
inline constexpr GenaiName kGenaiTokens = {"gen_ai.client.token.usage", "{token}",
                                           "Number of input and output tokens used."};
inline constexpr GenaiName kGenaiTimePerToken = {
    "gen_ai.server.time_per_output_token", "s",
    "Time per output token after the first, as the server sees it."};

constexpr DialectRow GenaiRow(const MetricDesc& native, const GenaiName& name,
                              std::span<const DialectLabel> labels, std::span<const Rival> unless) {
  return {.native = &native,
          .name = name.name,
          .unit = name.unit,
          .help = name.help,
          .kind = name.kind,
          .labels = labels,
          .other_attributes = true,
          .unless = unless};
}

inline constexpr GenaiName kGenaiHitRate = {
    "gen_ai.server.cache.hit_rate", "1",
    "Share of prompt tokens that came from a cache, 0-1. Outside the convention: the l9gpu project's name.",
    Kind::kGauge};

inline constexpr DialectRow kGenaiRows[] = {
    GenaiRow(kInferenceRequestPromptTokens, kGenaiTokens, kGenaiInput, kGenaiPromptRivals),
    GenaiRow(kInferenceRequestGenerationTokens, kGenaiTokens, kGenaiOutput, kGenaiGenerationRivals),
    GenaiRow(kInferenceTimeToFirstToken,
             {"gen_ai.server.time_to_first_token", "s", "Time to the first token, as the server sees it."},
             kGenaiLabels, kGenaiFirstRivals),
    GenaiRow(kInferenceTimePerOutputToken, kGenaiTimePerToken, kGenaiLabels, kGenaiPerTokenRivals),
    GenaiRow(kInferenceInterTokenLatency, kGenaiTimePerToken, kGenaiLabels, kGenaiInterTokenRivals),
    GenaiRow(kInferenceRequestDuration,
             {"gen_ai.server.request.duration", "s", "Time of a request, up to its last byte or token."},
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

inline constexpr Dialect kGenai{
    .name = "otel_genai",
    .help = "OpenTelemetry's gen_ai.* names for LLM engines, semantic conventions 1.37",
    .rows = kGenaiRows,
    .looks = true,
    .otel = true};

}  // namespace gpulens
