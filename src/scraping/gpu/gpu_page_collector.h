// One target that is a GPU exporter's page, as a collector: what the plugins for such pages are made of.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "catalog/gpu/board.h"
#include "catalog/gpu/health.h"
#include "catalog/gpu/parts.h"
#include "catalog/self_io.h"
#include "pipeline/plugin.h"
#include "scraping/gpu/page_row.h"

namespace gpulens::gpu_page {

struct CollectorOptions {
  std::string name;                    // of the target, in self-metrics
  const Exporter* exporter = nullptr;  // null: found out from the page
  bool pass_through = false;           // families that no table reads are shown as they are
  // Nobody asked for this target: while nothing answers there it is asked less and less often, and no page
  // speaks of it.
  bool on_trial = false;
};

// `target` has the options of scraping/target_options.h. The collector fetches; see Collector for threads.
Result<std::unique_ptr<Collector>> MakeCollector(const Config& target, CollectorOptions options, Env& env);

// The metrics of some tables, each once, and what every page has: for the list of a spec.
namespace internal {
inline constexpr const MetricDesc* kCommon[] = {
    &kGpuInfo,        &kGpuEnergyEstimate, &kGpuEnergyEstimateError, &kGpuDriverInfo,
    &kGpuMigInfo,     &kSelfScrapeUp,      &kSelfScrapeDuration,     &kSelfScrapeSamples,
    &kSelfScrapeSize, &kSelfScrapeErrors,  &kSelfScrapeParseErrors,  &kSelfScrapeFamiliesUnknown,
    &kSelfScrapeInfo};

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

template <const auto& kTables>
consteval auto MetricsOf() {
  constexpr auto kFound = internal::Collect<512>(kTables);
  std::array<const MetricDesc*, kFound.second> metrics{};
  for (size_t i = 0; i < kFound.second; ++i) metrics[i] = kFound.first[i];
  return metrics;
}

}  // namespace gpulens::gpu_page
