// `gpulens exp …` and `gpulens query`: recorded runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/common/output.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_rows.h"

namespace gpulens {

// "0.25s", "12.3s", "1m 40s", "1h 42m", "2d 3h": truncated, never rounded up. "–" for NaN.
std::string DurationText(double seconds);
// At most six digits: 0.0003125, 1.873, 124439808; "nan" for NaN.
std::string MetricText(double value);
// "41.8 J", "1.8 kWh"; "–" for NaN.
std::string EnergyText(double joules);

// A run with its parameters, tags, metrics, artifacts, processes and children.
struct RunPage {
  experiments::RunRow run;
  std::vector<experiments::ParamRow> params;
  std::vector<experiments::TagRow> tags;
  std::vector<experiments::MetricRow> metrics;
  std::vector<experiments::ArtifactRow> artifacts;
  std::vector<experiments::ProcessRow> processes;
  std::vector<experiments::RunRow> children;
  std::string log;  // its path; empty: there is none
  bool old_file = false;
};

// A run in a list, with the metrics that its columns need.
struct ListedRun {
  experiments::RunRow run;
  std::vector<experiments::MetricRow> metrics;
};
std::string RunListText(const std::vector<ListedRun>& runs, int64_t now_ns);
std::string RunListJson(const std::vector<ListedRun>& runs, int64_t now_ns);
std::string RunPageText(const RunPage& page, int64_t now_ns);
std::string RunPageJson(const RunPage& page, int64_t now_ns);
// Compares runs; equal values are left out unless `all`.
std::string CompareText(const std::vector<RunPage>& pages, bool all, int64_t now_ns);
std::string CompareJson(const std::vector<RunPage>& pages, int64_t now_ns);
// The summary that `gpulens run` prints at the end.
std::string RunSummary(const experiments::RunRow& run, const std::vector<experiments::MetricRow>& metrics,
                       int64_t now_ns);

// "+12.5 %" from `before` to `after`; empty from zero or with a NaN.
std::string ChangeText(double before, double after);

// A run with the points of its metrics, as it is exported to MLflow.
struct MlflowRun {
  RunPage page;
  std::vector<std::vector<experiments::PointRow>> points;  // of each metric of the page
};

// Returns the id of the experiment of this name.
std::string MlflowExperimentId(std::string_view name);
// Returns a key that MLflow accepts: letters, digits, _ - . : / and blanks; it never leads out of its folder.
std::string MlflowKey(std::string_view key);
// Writes a run with its copied artifacts below `folder`, which is created if missing. Replaces an existing
// run. kInvalidArgument: its id is not a valid folder name, or an artifact's copy is not below
// .../ID/artifacts.
Status WriteMlflow(const MlflowRun& run, const std::string& folder);

struct ExpOptions {
  std::string db;
  size_t limit = 20;
  std::string status, name;
  std::string run;                // an id, a part of one, or a name
  std::vector<std::string> runs;  // of compare; further ones of plot
  std::vector<std::string> metrics;
  bool json = false, all = false, yes = false;
  std::string output;  // of plot and export
  bool log_scale = false, by_time = false, text = false, ascii = false;
  std::string format = "json";
  // query
  std::string sql;
  bool csv = false;
  size_t rows = 10'000;
};

// The commands return an exit code: 0 done, 1 the output cannot be written, or an error. RunQueryCommand
// reports its errors itself.
Result<int> PlotRuns(const ExpOptions& options);
Result<int> ExportRun(const ExpOptions& options);
int RunQueryCommand(const ExpOptions& options);

// Opens the file that --db or the variable names, or else the default. Also opens old files of the zernel
// project, which it detects by their contents.
Result<experiments::RunReader> OpenExperiments(const std::string& db, Duration longest = {});
Result<RunPage> ReadPage(experiments::RunReader& reader, const experiments::RunRow& run);

}  // namespace gpulens
