// KV blocks that move between tiers and workers. One row per role: what it means is the same for every
// engine; docs/engines.md tells who offers it.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kInferenceKvTransferBytes = row::Standard(row::Counter(
    "inference.kv_transfer.bytes", "By", "KV bytes moved between tiers or workers.",
    row::kKeys<"model.name", "inference.direction", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvTransfers = row::Standard(row::Counter(
    "inference.kv_transfer.operations", "{transfer}", "KV transfer operations.",
    row::kKeys<"model.name", "inference.direction", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvTransferBlocks = row::Standard(row::Counter(
    "inference.kv_transfer.blocks", "{block}", "KV blocks moved between tiers.",
    row::kKeys<"model.name", "inference.direction", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvTransferSize = row::Standard(row::Histogram(
    "inference.kv_transfer.size", "By", "Bytes of one KV transfer.",
    row::kKeys<"model.name", "inference.direction", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvTransferTime = row::Standard(row::Histogram(
    "inference.kv_transfer.duration", "s", "Time of one KV transfer.",
    row::kKeys<"model.name", "inference.direction", "cache.type", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvTransferFailures = row::Standard(row::Counter(
    "inference.kv_transfer.failures", "{transfer}",
    "KV transfers that failed, were skipped for lack of space or expired.",
    row::kKeys<"model.name", "error.type", "inference.direction", "model.version", "inference.dp_rank">));
inline constexpr MetricDesc kInferenceKvStoreBytes = row::Standard(row::UpDown(
    "inference.kv_store.bytes", "By", "Bytes of a KV tier outside the GPU by state: used, max.",
    row::kKeys<"model.name", "cache.type", "inference.state", "model.version", "inference.dp_rank">));

inline constexpr const MetricDesc* kInferenceTransferRows[] = {
    &kInferenceKvTransferBytes, &kInferenceKvTransfers,    &kInferenceKvTransferBlocks,
    &kInferenceKvTransferSize,  &kInferenceKvTransferTime, &kInferenceKvTransferFailures,
    &kInferenceKvStoreBytes};

}  // namespace gpulens
