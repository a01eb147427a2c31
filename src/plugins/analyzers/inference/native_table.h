// Table of the metrics that the analyzer makes, in terms of engine metrics; docs/inference-windows.md
// describes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/metric_desc.h"

namespace gpulens::windows {

// Selects label sets of an engine metric.
struct LabelFilter {
  std::string_view key = {};                      // empty: all
  std::span<const std::string_view> values = {};  // the attribute has one of these …
  bool except = false;                            // … or, it has another one than these
};

struct MetricPick {
  const MetricDesc* role = nullptr;  // an engine metric; null: none
  LabelFilter filter = {};
};

enum class NativeOp : uint8_t {
  kLevel,         // `of` as it is now
  kTotal,         // the same; where `of` is not offered, `fallback` and `over` together
  kRate,          // growth of `of` per second
  kQuantiles,     // p50, p90, p95 and p99 of what `of` observed
  kMean,          // `scale` times the sum over the count of what `of` observed
  kRatio,         // growth of `of` over that of `over`; where one of them is not offered, `fallback` as it is
  kOnePlusRatio,  // the same, plus one
};

struct NativeMetric {
  std::string_view engine;  // inference.engine of the entity
  const MetricDesc* metric;
  NativeOp op;
  MetricPick of;
  MetricPick over = {}, fallback = {};
  double scale = 1;
  std::string_view key = {}, value = {};  // an attribute that the series gets
};

struct WindowQuantile {
  std::string_view name;  // value of the attribute `quantile`
  double q;
};
inline constexpr std::array<WindowQuantile, 4> kWindowQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}};

// Static storage. Rows of one engine are adjacent.
std::span<const NativeMetric> AllNatives() noexcept;
std::span<const NativeMetric> NativesOf(std::string_view engine) noexcept;  // empty: no rows

}  // namespace gpulens::windows
