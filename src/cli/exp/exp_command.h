// `gpulens exp …` and `gpulens query`: runs that were kept, looked at from outside.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/exp/exp_text.h"
#include "store/experiments/run_reader.h"

namespace CLI {
class App;
}

namespace gpulens {

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

// Each returns the exit code: 0 told, 1 the file cannot be read or written, 2 wrong use (no such run).
int RunExpList(const ExpOptions& options);
int RunExpShow(const ExpOptions& options);
int RunExpCompare(const ExpOptions& options);
int RunExpDelete(const ExpOptions& options);
int RunExpPlot(const ExpOptions& options);
int RunExpExport(const ExpOptions& options);
int RunQueryCommand(const ExpOptions& options);

// One line on the standard error for `gpulens exp COMMAND`; the exit code: 2 what was wrong use, else 1.
int Complain(const char* command, const Status& status);

// Opens the file that --db, the variable or nothing names. An old one of the zernel project is told from ours
// by what is in it.
Result<experiments::RunReader> OpenExperiments(const std::string& db, Duration longest = {});
Result<RunPage> ReadPage(experiments::RunReader& reader, const experiments::RunRow& run);

void AddExp(CLI::App& app, ExpOptions& options, int& code);

}  // namespace gpulens
