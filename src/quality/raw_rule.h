// Whether a raw reading says that its source does not know: asked before any scaling, by every collector that
// reads a vendor's numbers. What it says yes to is rejected as a sentinel, and nothing is derived from it.
#pragma once

#include <cstdint>

#include "core/metric_desc.h"

namespace gpulens {

// Knows the sentinels of the metric's row, and the patterns of base by the width that such a reading has:
// 64 bits for bytes, joules and counted time, else 32 and 64.
bool SaysNothing(const MetricDesc& metric, int64_t raw) noexcept;
// The same for numbers that have been text, or are floating-point.
bool SaysNothing(const MetricDesc& metric, double raw) noexcept;

}  // namespace gpulens
