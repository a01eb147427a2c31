// `gpulens telemetry …`: stored inference records.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/sqlite/sqlite.h"

namespace gpulens {

struct TelemetryOptions {
  std::string db;
  std::string since, until;  // text; empty: open
  std::string model, engine, batch, by;
  bool exclude_warmup = false;
  bool json = false, yes = false;
  size_t top = 10;
  std::string format = "json", output;  // of export
};

// Writes the records. Returns the exit code 0, or an error.
Result<int> ExportTelemetry(const TelemetryOptions& options);

// Returns the file or server that --db or the variable names, or else the default: our file, or without it
// that of openjarvis.
Result<std::string> FindTelemetry(const std::string& db);
// Does the same for commands that need a file. kInvalidArgument: it is a server.
Result<std::string> FindTelemetryFile(const std::string& db);
// kInvalidArgument: a time cannot be parsed.
Result<Query> QueryOf(const TelemetryOptions& options, int64_t now_ns);

struct TelemetryStats {
  std::string path;
  std::string since, until;  // as given; empty: open
  Query query;
  InferenceSummary all;
  std::vector<InferenceSummary> models, engines;  // empty with `by`
  std::string by;                                 // "minute"; empty: models and engines
  std::vector<InferenceSummary> groups;
  size_t top = 10;  // maximum number of models and of groups other than times
};

// Leaves out the rightmost columns beyond `width`; 0: any width.
std::string StatsText(const TelemetryStats& stats, size_t width);
// {"schema":"gpulens.telemetry_stats/1", …}: base units, null where nothing was measured.
std::string StatsJson(const TelemetryStats& stats);

}  // namespace gpulens
