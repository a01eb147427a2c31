// Queries experiments in SQL: views with plural names, and a connection that can only read.
//
//   runs         id name status parent_id started ended duration script command git_commit host exit_code
//                reason resumed dropped energy_joules energy_uncertainty_joules energy_method energy_validity
//                energy_attribution device_vendor devices and mean_ and peak_ of power_watts,
//                utilization_ratio, memory_used_bytes
//   params       run_id run key type value
//   metrics      run_id run key step time value          every point
//   summaries    run_id run key count last_step last min max
//   tags         run_id run key value
//   artifacts    run_id run name path bytes sha256 copied
//   experiments  a row for each run with a column for each metric (its last value) and param, as the zernel
//                project's queries expect
//
// Times are texts of UTC, durations seconds, a NaN is NULL.
#pragma once

#include <functional>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "store/experiments/run_reader.h"

namespace gpulens::experiments {

struct QueryLimits {
  size_t rows = 10'000;
  Duration time = std::chrono::seconds(30);
};

struct QueryOutcome {
  size_t rows = 0;
  bool cut = false;  // there were more
};

// Called once before the first row, and for each row. Returning false ends the query.
using QueryRow = std::function<bool(const sqlite::Statement& statement, bool first)>;

// Makes the views. kDataLoss: the file is broken.
Status MakeViews(const RunReader& reader);
// Runs one SELECT (or WITH … SELECT) over them; SQLite refuses everything but reading. kInvalidArgument:
// SQLite's error; kTimeout: took too long; kExhausted: too much memory. `time` is measured on `clock` and
// includes `on_row`. Untrusted files are opened with OpenOptions::longest.
Result<QueryOutcome> RunQuery(const RunReader& reader, std::string_view sql, const QueryLimits& limits,
                              const Clock& clock, const QueryRow& on_row);

}  // namespace gpulens::experiments
