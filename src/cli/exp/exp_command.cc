#include "cli/exp/exp_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/help/help.h"
#include "store/experiments/run_writer.h"

namespace gpulens {
namespace {

using namespace experiments;

constexpr const char* kFooter = R"(
  gpulens exp list                           the newest runs; --status failed, --json
  gpulens exp show 9f3a11c2                  an id, a part of one, or a name
  gpulens exp compare ft-8b 77b01e4d         what differs, and by how much
  gpulens exp plot ft-8b loss                in the terminal; with -o, an SVG
  gpulens exp plot ft-8b loss eval_loss -o loss.svg
  gpulens exp plot ft-8b loss --with 77b01e4d --log -o loss.svg
  gpulens exp export ft-8b --format mlflow mlruns      or json, csv
  gpulens exp delete 77b01e4d --yes          with its log and artifacts

The file is ~/.gpulens/experiments.db; --db or $GPULENS_EXPERIMENTS_DB name another one. Files of the zernel
project (~/.zernel/experiments/experiments.db) can be read and are never written.
Exit: 0 done · 1 the file cannot be read · 2 wrong use, no such run)";

constexpr const char* kQueryFooter = R"(
  gpulens query "SELECT name, loss FROM experiments WHERE loss < 0.5 ORDER BY loss LIMIT 5"
  gpulens query "SELECT step, value FROM metrics WHERE run_id = 'exp-…' AND key = 'loss'" --csv
  gpulens query "SELECT lr, min(loss) FROM experiments GROUP BY lr" --json

SQL of SQLite, read-only. Views:
  runs         id name status parent_id started ended duration script command git_commit host exit_code reason …
  params       run_id run key type value
  metrics      run_id run key step time value          every point
  summaries    run_id run key count last_step last min max
  tags         run_id run key value
  artifacts    run_id run name path bytes sha256 copied
  experiments  a row for each run, a column for each metric's last value and each param
Durations are in seconds, times in UTC; NaN is NULL.
Exit: 0 done · 1 the file cannot be read · 2 wrong use, wrong SQL, too long)";

int Print(const std::string& text) { return WriteOut(text) ? 0 : 1; }

Result<std::vector<ListedRun>> Listed(RunReader& reader, const RunReader::Filter& filter) {
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, reader.List(filter));
  std::vector<ListedRun> out;
  for (RunRow& run : runs) {
    ASSIGN_OR_RETURN(std::vector<MetricRow> metrics, reader.Metrics(run.id));
    out.push_back({std::move(run), std::move(metrics)});
  }
  return out;
}

Result<int> ListRuns(const ExpOptions& options) {
  auto reader = OpenExperiments(options.db);
  if (!reader) {
    const bool none_yet = reader.error().detail.starts_with("no run was recorded");
    if (none_yet && options.json) Print("{\"schema\":\"gpulens.experiments/1\",\"runs\":[]}\n");
    const int code = FailCommand("exp list", reader.error());
    return none_yet ? 0 : code;
  }
  ASSIGN_OR_RETURN(const std::vector<ListedRun> runs,
                   Listed(*reader, {.limit = options.limit, .status = options.status, .name = options.name}));
  if (options.json) return Print(RunListJson(runs, reader->now_ns()));
  if (!runs.empty()) return Print(RunListText(runs, reader->now_ns()));
  WriteNote("gpulens exp list: no matching run in " + reader->path());
  return 0;
}

Result<int> ShowRun(const ExpOptions& options) {
  ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
  ASSIGN_OR_RETURN(const RunRow run, reader.Find(options.run));
  ASSIGN_OR_RETURN(const RunPage page, ReadPage(reader, run));
  return Print(options.json ? RunPageJson(page, reader.now_ns()) : RunPageText(page, reader.now_ns()));
}

Result<int> CompareRuns(const ExpOptions& options) {
  ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
  std::vector<RunPage> pages;
  for (const std::string& text : options.runs) {
    ASSIGN_OR_RETURN(const RunRow run, reader.Find(text));
    ASSIGN_OR_RETURN(pages.emplace_back(), ReadPage(reader, run));
  }
  return Print(options.json ? CompareJson(pages, reader.now_ns())
                            : CompareText(pages, options.all, reader.now_ns()));
}

Result<int> DeleteRun(const ExpOptions& options) {
  std::string path;
  RunRow run;
  {
    ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
    if (reader.old_file())
      return Status{Code::kInvalidArgument, reader.path() + " is an old file, which is read-only"};
    ASSIGN_OR_RETURN(run, reader.Find(options.run));
    if (run.status == kRunning && !options.yes)
      return Status{Code::kInvalidArgument, run.id + " is running; pass --yes to delete it anyway"};
    path = reader.path();
  }
  if (!options.yes) {
    if (::isatty(STDIN_FILENO) == 0)
      return Status{Code::kInvalidArgument,
                    "no terminal to confirm on; pass --yes to delete without confirmation"};
    if (!IsConfirmed("Delete " + run.id + " (" + run.name + "), its log and its artifacts? [y/N] ")) return 1;
  }
  ASSIGN_OR_RETURN(const auto writer, RunWriter::Open(path));
  ASSIGN_OR_RETURN(const auto deleted, writer->Delete(run.id));
  for (const std::string& id : deleted) {
    std::error_code error;
    // Ids come from the file and must not lead elsewhere.
    if (IsRunId(id)) std::filesystem::remove_all(RunFolder(path, id), error);
    if (error) return Status{Code::kIo, RunFolder(path, id) + ": " + error.message()};
    WriteNote("deleted " + id);
  }
  return 0;
}

void AddList(CLI::App& exp, const std::shared_ptr<ExpOptions>& kept, int& code) {
  ExpOptions& options = *kept;
  CLI::App* list = exp.add_subcommand("list", "List the newest runs.");
  list->add_option("--limit", options.limit, "Maximum number of runs")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  list->add_option("--status", options.status, "Only runs with this status")
      ->check(CLI::IsMember({"running", "done", "failed", "crashed", "queued"}));
  AddOption(*list, "--name", options.name, "Only runs with this name", "NAME");
  list->callback([kept, &code] { code = ExitCode("exp list", ListRuns(*kept)); });
  CLI::App* show = exp.add_subcommand("show", "Show one run.");
  show->add_option("RUN", options.run, "Id of the run, its beginning or end, or a name")->required();
  show->callback([kept, &code] { code = ExitCode("exp show", ShowRun(*kept)); });
  CLI::App* compare = exp.add_subcommand("compare", "Show what differs between runs.");
  compare->add_option("RUN", options.runs, "Two or more runs")->required()->expected(2, 20);
  compare->add_flag("--all", options.all, "Show equal values, too");
  compare->callback([kept, &code] { code = ExitCode("exp compare", CompareRuns(*kept)); });
  for (CLI::App* command : {list, show, compare}) command->add_flag("--json", options.json, "JSON");
  CLI::App* remove =
      exp.add_subcommand("delete", "Delete a run with the runs within it, their logs and artifacts.");
  remove->add_option("RUN", options.run, "Id of the run, its beginning or end, or a name")->required();
  remove->add_flag("--yes", options.yes, "Do not ask for confirmation");
  remove->callback([kept, &code] { code = ExitCode("exp delete", DeleteRun(*kept)); });
  for (CLI::App* command : {list, show, compare, remove})
    AddOption(*command, "--db", options.db, "The file of experiments", "FILE");
}

void AddOutputs(CLI::App& exp, const std::shared_ptr<ExpOptions>& kept, int& code) {
  ExpOptions& options = *kept;
  CLI::App* plot = exp.add_subcommand("plot", "Plot metrics over steps, in the terminal or as an SVG.");
  plot->add_option("RUN", options.run, "Id of the run, its beginning or end, or a name")->required();
  plot->add_option("METRIC,--metric", options.metrics, "Names of the metrics; default: loss");
  AddOption(*plot, "--with", options.runs, "Another run to plot; repeatable", "RUN")->allow_extra_args(false);
  AddOption(*plot, "-o,--output", options.output, "Output file of the SVG; default: standard output", "FILE");
  plot->add_flag("--text", options.text, "Plot as text; default in a terminal");
  plot->add_flag("--ascii", options.ascii, "Plot as ASCII text; default if the locale is not UTF-8");
  plot->add_flag("--log", options.log_scale, "Use a logarithmic value axis");
  plot->add_flag("--by-time", options.by_time, "Plot over seconds since the start instead of steps");
  plot->callback([kept, &code] { code = ExitCode("exp plot", PlotRuns(*kept)); });
  CLI::App* to = exp.add_subcommand("export", "Export a run with its history for other programs.");
  to->add_option("RUN", options.run, "Id of the run, its beginning or end, or a name")->required();
  to->add_option("TO,-o,--output", options.output,
                 "Output file, or folder of MLflow; default: standard output");
  to->add_option("--format", options.format, "mlflow, json or csv")
      ->check(CLI::IsMember({"mlflow", "json", "csv"}))
      ->capture_default_str();
  to->callback([kept, &code] { code = ExitCode("exp export", ExportRun(*kept)); });
  for (CLI::App* command : {plot, to})
    AddOption(*command, "--db", options.db, "The file of experiments", "FILE");
}

}  // namespace

Result<RunReader> OpenExperiments(const std::string& db, Duration longest) {
  ASSIGN_OR_RETURN(std::string path, FindDatabase(db));
  auto reader = RunReader::Open(path, HereAndNow(), longest);
  if (!reader && reader.error().code == Code::kUnavailable && ::access(path.c_str(), F_OK) != 0)
    return Status{Code::kUnavailable,
                  "no run was recorded yet: there is no " + path +
                      " (it is created by gpulens run or gpulens.experiment(); use --db for another file)"};
  return reader;
}

Result<RunPage> ReadPage(RunReader& reader, const RunRow& run) {
  RunPage page;
  page.run = run;
  page.old_file = reader.old_file();
  ASSIGN_OR_RETURN(page.params, reader.Params(run.id));
  ASSIGN_OR_RETURN(page.tags, reader.Tags(run.id));
  ASSIGN_OR_RETURN(page.metrics, reader.Metrics(run.id));
  ASSIGN_OR_RETURN(page.artifacts, reader.Artifacts(run.id));
  ASSIGN_OR_RETURN(page.processes, reader.Processes(run.id));
  ASSIGN_OR_RETURN(page.children, reader.Children(run.id));
  std::string log = LogPath(reader.path(), run.id, reader.old_file());
  if (::access(log.c_str(), F_OK) == 0) page.log = std::move(log);
  return page;
}

void AddExp(CLI::App& app, int& code) {
  auto kept = std::make_shared<ExpOptions>();
  ExpOptions& options = *kept;
  CLI::App* exp = app.add_subcommand("exp", "List, show, compare, plot, export and delete recorded runs.");
  exp->group("Runs and records");
  exp->require_subcommand(1);
  exp->footer(kFooter);
  AddList(*exp, kept, code);
  AddOutputs(*exp, kept, code);

  CLI::App* query = app.add_subcommand("query", "Query recorded runs in SQL, read-only.");
  query->group("Runs and records");
  query->add_option("SQL", options.sql, "One SELECT")->required();
  query->add_flag("--json", options.json, "JSON");
  query->add_flag("--csv", options.csv, "CSV with a header line");
  query->add_option("--limit", options.rows, "Maximum number of rows")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  AddOption(*query, "--db", options.db, "The file of experiments", "FILE");
  query->footer(kQueryFooter);
  query->callback([kept, &code] { code = RunQueryCommand(*kept); });
}

}  // namespace gpulens
