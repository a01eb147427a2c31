#include "catalog/inference.h"

#include <algorithm>
#include <iterator>

namespace gpulens {
namespace {

consteval std::string_view WithoutArea(std::string_view id) { return id.substr(sizeof "kInference" - 1); }

constexpr EngineMetric kEngineMetrics[] = {
#define METRIC(id, ...)
#define ENGINE_METRIC(id, combine, ...) {WithoutArea(#id), &id, Combine::combine},
#include "catalog/inference.def"
#undef ENGINE_METRIC
#undef METRIC
};

const EngineMetric* OrNull(const EngineMetric* found) noexcept {
  return found == std::end(kEngineMetrics) ? nullptr : found;
}

}  // namespace

std::span<const EngineMetric> AllEngineMetrics() noexcept { return kEngineMetrics; }

const EngineMetric* FindEngineMetric(std::string_view name) noexcept {
  return OrNull(std::ranges::find(kEngineMetrics, name, &EngineMetric::name));
}

const EngineMetric* EngineMetricOf(const MetricDesc& metric) noexcept {
  return OrNull(std::ranges::find(kEngineMetrics, &metric, &EngineMetric::metric));
}

}  // namespace gpulens
