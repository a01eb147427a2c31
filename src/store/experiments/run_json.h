// JSON of runs, for `gpulens exp --json` and the agent's page /api/experiments. What is not known is left
// out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/experiments/run_rows.h"
#include "wire/json/json_object.h"

namespace gpulens::experiments {

// What is written of a run: kShared omits script, command and folder, which are its user's alone.
enum class RunJson : uint8_t { kAll, kShared };

void AppendValueJson(std::string& out, const RunParamValue& value);
// Adds the members of a run and its "energy". `now_ns`: until when a running one has lasted.
void AddRunJson(JsonObject& object, const RunRow& run, int64_t now_ns, RunJson which);
// Adds "metrics", an object with one for each metric.
void AddMetricsJson(JsonObject& run, const std::vector<MetricRow>& metrics);

}  // namespace gpulens::experiments
