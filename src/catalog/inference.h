// Rows of inference.def: what families of engines mean, whatever an engine calls them; and of
// inference_windows.def. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "catalog/row.h"
#include "core/attribute_set.h"

namespace gpulens {

// How series of one metric are combined: over ranks, replicas, or labels that are dropped.
enum class Combine : uint8_t { kSum, kMean, kMax, kNewest };

// A metric that tables of engines map families to.
struct EngineMetric {
  std::string_view name;  // as the tables write it: "TimeToFirstToken"
  const MetricDesc* metric = nullptr;
  Combine combine = Combine::kSum;
};

// In the order of the catalogue. Static storage.
std::span<const EngineMetric> AllEngineMetrics() noexcept;
// Null for another name or metric.
const EngineMetric* FindEngineMetric(std::string_view name) noexcept;
const EngineMetric* EngineMetricOf(const MetricDesc& metric) noexcept;

// Ranks of an engine that export copies of the same numbers: of equal series but for these, the one of the
// lowest rank counts. Values of pp_rank, tp_rank and moe_ep_rank.
using EngineRanks = std::array<int64_t, 3>;
// Sets the attributes without the ranks, as a text to compare, and the ranks; false when there are none.
bool SplitRanks(const AttributeSet& attributes, std::string& rest, EngineRanks& ranks);

namespace row {
// Keys of a metric of an engine, and of one over a window.
template <KeyText... keys>
inline constexpr std::string_view kEngineKeys[] = {"model.name", keys.view()..., "model.version",
                                                   "inference.dp_rank"};
template <KeyText... keys>
inline constexpr std::string_view kModelKeys[] = {"model.name", "model.version", keys.view()...};
}  // namespace row

#define ENGINE_METRIC(id, combine, ...) METRIC(id, __VA_ARGS__)
#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/inference.def"
#include "catalog/inference_windows.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kInferenceRows[] = {
#include "catalog/inference.def"
};
inline constexpr const MetricDesc* kInferenceWindowRows[] = {
#include "catalog/inference_windows.def"
};
#undef METRIC
#undef ENGINE_METRIC

}  // namespace gpulens
