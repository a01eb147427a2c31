// The metrics that tables of GPU exporters make, each once: for the list of a collector's spec.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "catalog/gpu.h"
#include "scrape/gpu/page_row.h"

namespace gpulens::gpu_page {

namespace internal {
// What every page has besides the rows of its tables.
inline constexpr const MetricDesc* kCommon[] = {&kGpuInfo, &kGpuEnergyEstimate, &kGpuEnergyEstimateError,
                                                &kGpuDriverInfo, &kGpuMigInfo};

template <size_t kMost, class Tables>
consteval auto Collect(const Tables& tables) {
  std::array<const MetricDesc*, kMost> all{};
  size_t count = 0;
  auto add = [&](const MetricDesc* metric) {
    for (size_t i = 0; i < count; ++i) {
      if (all[i] == metric) return;
    }
    if (metric) all[count++] = metric;
  };
  for (std::span<const PageRow> rows : tables) {
    for (const PageRow& row : rows) {
      add(row.metric);
      add(row.part_metric);
    }
  }
  for (const MetricDesc* metric : kCommon) add(metric);
  return std::pair(all, count);
}
}  // namespace internal

// The metrics of some tables.
template <const auto& kTables>
consteval auto MetricsOf() {
  constexpr auto kFound = internal::Collect<512>(kTables);
  std::array<const MetricDesc*, kFound.second> metrics{};
  for (size_t i = 0; i < kFound.second; ++i) metrics[i] = kFound.first[i];
  return metrics;
}

}  // namespace gpulens::gpu_page
