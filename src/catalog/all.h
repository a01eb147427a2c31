// The whole catalogue: every native metric, for `gpulens metrics`, the documentation and tests. Code that
// writes values names its rows directly. Static storage; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

// All rows, by area, in the order of the documentation.
std::span<const MetricDesc* const> AllMetrics() noexcept;

// Null for a name that is not a native metric's.
const MetricDesc* FindMetric(std::string_view name) noexcept;

}  // namespace gpulens
