// `gpulens telemetry …`: inference records that were kept, looked at from outside.
#pragma once

#include <optional>
#include <string>

#include <gpulens/inference.h>

#include "cli/telemetry/stats_text.h"
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

// Each returns the exit code: 0 done, 1 the file cannot be read or written, 2 wrong use.
int RunTelemetryStats(const TelemetryOptions& options);
int RunTelemetryExport(const TelemetryOptions& options);
int RunTelemetryClear(const TelemetryOptions& options);
int RunTelemetryVacuum(const TelemetryOptions& options);
int RunTelemetryCheck(const TelemetryOptions& options);

// Of the file or server that --db, the variable or nothing names; an openjarvis file where there is none of
// ours.
Result<std::string> FindTelemetry(const std::string& db);
// The same for what works on files alone. kInvalidArgument: it is a server.
Result<std::string> FindTelemetryFile(const std::string& db);
// kInvalidArgument: a time that is none.
Result<Query> QueryOf(const TelemetryOptions& options, int64_t now_ns);

}  // namespace gpulens
