// What `gpulens bench serve` says: pure text.
#pragma once

#include <string>

#include "agent/cli/bench/bench_energy.h"
#include "loadgen/load_run.h"
#include "loadgen/load_summary.h"

namespace gpulens {

// One line, without its end.
std::string ProgressText(const LoadPlan& plan, const LoadProgress& progress);
// The result, for people; for programs (schema gpulens.bench_serve/1, one object).
std::string ResultText(const LoadPlan& plan, const LoadRecord& record, const LoadSummary& summary,
                       const BenchEnergy& energy);
std::string ResultJson(const LoadPlan& plan, const LoadRecord& record, const LoadSummary& summary,
                       const BenchEnergy& energy);

}  // namespace gpulens
