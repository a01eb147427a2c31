#include "catalog/inference.h"

#include <algorithm>
#include <iterator>

#include "base/parse.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, std::tuple_size_v<EngineRanks>> kRanks = {"pp_rank", "tp_rank",
                                                                                 "moe_ep_rank"};

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

bool SplitRanks(const AttributeSet& attributes, std::string& rest, EngineRanks& ranks) {
  bool any = false;
  rest.clear();
  ranks = {};
  for (auto [key, value] : attributes) {
    auto at = std::ranges::find(kRanks, key);
    if (at == kRanks.end()) {
      rest.append(key).push_back('\0');
      AppendValue(rest, value);
      rest.push_back('\0');
      continue;
    }
    any = true;
    ranks[static_cast<size_t>(at - kRanks.begin())] = ParseInt<int64_t>(attributes.Text(key)).value_or(0);
  }
  return any;
}

}  // namespace gpulens
