// What inference records add up to, as text for people and as JSON. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpulens/inference.h>

namespace gpulens {

struct TelemetryStats {
  std::string path;
  std::string since, until;  // as given; empty: open
  Query query;
  InferenceSummary all;
  std::vector<InferenceSummary> models, engines;  // empty with `by`
  std::string by;                                 // "minute"; empty: models and engines
  std::vector<InferenceSummary> groups;
  size_t top = 10;  // models that are shown, and groups that are no time
};

// At most `width` columns: what does not fit is left out from the right; 0: any.
std::string StatsText(const TelemetryStats& stats, size_t width);
// {"schema":"gpulens.telemetry_stats/1", …}: base units, null where nothing was measured.
std::string StatsJson(const TelemetryStats& stats);

}  // namespace gpulens
