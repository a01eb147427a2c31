// KV cache, prefix caches and other caches of an engine. One row per role: what it means is the same for
// every engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferenceCachedTokens = row::Standard(row::Counter(
    "inference.tokens.cached", "{token}", "Prompt tokens served from a cache; part of tokens.prompt.",
    row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvCacheUsage = row::Essential(row::Gauge(
    "inference.kv_cache.usage", "1", "Share of KV-cache space in use, 0-1.",
    row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">, &row::kZeroToOne));
inline constexpr MetricDesc kInferenceKvCacheTokens = row::Standard(row::UpDown(
    "inference.kv_cache.tokens", "{token}", "KV-cache token slots by state: used, evictable, free, max.",
    row::kKeys<"model.name", "cache.type", "inference.state", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvCacheBlocks = row::Standard(row::UpDown(
    "inference.kv_cache.blocks", "{block}", "KV-cache blocks by state: used, free, max.",
    row::kKeys<"model.name", "cache.type", "inference.state", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvCacheBlockSize =
    row::Standard(row::Gauge("inference.kv_cache.block_size", "{token}", "Tokens per KV-cache block or page.",
                             row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvCacheEvictions =
    row::Standard(row::Counter("inference.kv_cache.evictions", "{block}",
                               "KV-cache entries (blocks, chunks or stored objects) removed to make room.",
                               row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferencePrefixCacheQueries = row::Standard(
    row::Counter("inference.prefix_cache.queries", "{token}", "Prompt tokens looked up in a prefix cache.",
                 row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferencePrefixCacheHits = row::Standard(
    row::Counter("inference.prefix_cache.hits", "{token}", "Prompt tokens found in a prefix cache.",
                 row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceCacheHitRatio = row::Standard(row::Gauge(
    "inference.cache.hit_ratio", "1",
    "Hit share as the engine itself states it (last batch or sliding window); used only where no counters "
    "exist.",
    row::kKeys<"model.name", "cache.type", "model.version", "inference.dp_rank">, &row::kZeroToOne));
inline constexpr MetricDesc kInferenceMultimodalCacheQueries =
    row::Standard(row::Counter("inference.multimodal_cache.queries", "{item}",
                               "Images, audio or video items looked up in the input cache.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceMultimodalCacheHits =
    row::Standard(row::Counter("inference.multimodal_cache.hits", "{item}", "Items found in the input cache.",
                               row::kKeys<"model.name", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceResponseCacheLookups = row::Standard(
    row::Counter("inference.response_cache.lookups", "{request}",
                 "Whole responses looked up in a response cache, by result: hit, miss.",
                 row::kKeys<"model.name", "inference.result", "model.version", "inference.dp_rank">));

inline constexpr const MetricDesc* kInferenceCacheRows[] = {
    &kInferenceCachedTokens,           &kInferenceKvCacheUsage,        &kInferenceKvCacheTokens,
    &kInferenceKvCacheBlocks,          &kInferenceKvCacheBlockSize,    &kInferenceKvCacheEvictions,
    &kInferencePrefixCacheQueries,     &kInferencePrefixCacheHits,     &kInferenceCacheHitRatio,
    &kInferenceMultimodalCacheQueries, &kInferenceMultimodalCacheHits, &kInferenceResponseCacheLookups};

}  // namespace gpulens
