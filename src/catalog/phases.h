// Rows of phases.def: which phases processes are in, and what they wait for.
#pragma once

#include "catalog/gpu.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/phases.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kPhasesRows[] = {
#include "catalog/phases.def"
};
#undef METRIC

// Those of the analyzer recent_latency, and of the collector phases.
inline constexpr auto kRecentRows = RowsWithPrefix<kPhasesRows, "process.recent.">();
inline constexpr auto kProcessPhaseRows = [] {
  std::array<const MetricDesc*, std::size(kPhasesRows) - kRecentRows.size()> rows{};
  std::copy_if(std::begin(kPhasesRows), std::end(kPhasesRows), rows.begin(),
               [](const MetricDesc* row) { return !row->name.starts_with("process.recent."); });
  return rows;
}();

}  // namespace gpulens
