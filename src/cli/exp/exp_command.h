// `gpulens exp …` and `gpulens query`: runs that were kept, looked at from outside.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/exp/exp_text.h"
#include "store/experiments/run_reader.h"

namespace gpulens {

struct MlflowRun {
  RunPage page;
  std::vector<std::vector<experiments::PointRow>> points;  // of each metric of the page
};

// The id of the experiment of this name.
std::string MlflowExperimentId(std::string_view name);
// A key as MLflow takes it: letters, digits, _ - . : / and blanks; no part of it leads elsewhere.
std::string MlflowKey(std::string_view key);
// Writes below `folder`, which is made where it is missing. Copied artifacts come along. A run that is there
// is written over. kInvalidArgument: its id is not a valid folder name.
Status WriteMlflow(const MlflowRun& run, const std::string& folder);

struct ExpOptions {
  std::string db;
  size_t limit = 20;
  std::string status, name;
  std::string run;                // an id, a part of one, or a name
  std::vector<std::string> runs;  // of compare; of plot those besides `run`
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

// Each returns the exit code: 0 done, 1 the file cannot be read or written, 2 wrong use (no such run).
int RunExpList(const ExpOptions& options);
int RunExpShow(const ExpOptions& options);
int RunExpCompare(const ExpOptions& options);
int RunExpDelete(const ExpOptions& options);
int RunExpPlot(const ExpOptions& options);
int RunExpExport(const ExpOptions& options);
int RunQueryCommand(const ExpOptions& options);

// Opens the file that --db or the variable names, else the default. Old files of the zernel project are
// detected by what is in it.
Result<experiments::RunReader> OpenExperiments(const std::string& db, Duration longest = {});
Result<RunPage> ReadPage(experiments::RunReader& reader, const experiments::RunRow& run);

}  // namespace gpulens
