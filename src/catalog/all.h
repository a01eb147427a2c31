// The whole catalogue: every native metric there is, for `gpulens metrics`, the documentation and tests.
// Code that writes values names its rows directly. Static storage; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens {

// Every row, by area and in the order in which people should read them.
std::span<const MetricDesc* const> AllMetrics() noexcept;

// The row of a native name; null when there is none.
const MetricDesc* FindMetric(std::string_view name) noexcept;

// What users may rely on: a stable name, unit and meaning never change; one in development follows a
// convention that is not settled.
enum class Stability : uint8_t { kStable, kDevelopment };

struct MetricFacts {
  Stability stability = Stability::kStable;
  bool opt_in = false;        // off unless configuration asks for it, wholly or by one attribute key
  bool dialect_only = false;  // made for other people's names: stands under its own on no page
};
MetricFacts FactsOf(const MetricDesc& metric) noexcept;

}  // namespace gpulens
