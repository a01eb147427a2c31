// Output of `gpulens bench serve`. Pure.
#pragma once

#include <optional>
#include <string>

#include "cli/bench/bench_store.h"
#include "cli/bench/load_run.h"
#include "cli/bench/load_summary.h"

namespace gpulens {

// One line, without its end.
std::string ProgressText(const LoadPlan& plan, const LoadProgress& progress);
struct BenchResult {
  const LoadPlan& plan;
  const LoadRecord& record;
  const LoadSummary& summary;
  const BenchEnergy& energy;
  std::optional<BenchStored> stored = {};  // nothing: no store was named
};
// For people; for programs (schema gpulens.bench_serve/1, one object).
std::string ResultText(const BenchResult& result);
std::string ResultJson(const BenchResult& result);

}  // namespace gpulens
