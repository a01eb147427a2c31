#include "cli/run/run_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>

#include <gpulens/experiment_energy.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/exp/exp_text.h"
#include "cli/run/child_run.h"
#include "sdk/experiment/metric_tracker.h"
#include "sdk/experiment/recorder.h"
#include "sdk/experiment/run_context.h"
#include "sdk/experiment/run_energy.h"
#include "store/experiments/run_files.h"
#include "store/experiments/run_reader.h"

namespace gpulens {
namespace {

using namespace experiments;

constexpr Duration kEndTime = std::chrono::seconds(20);
// Of runs, which are long: a counter is exact whatever it is, and an integral of power good enough.
constexpr Duration kEnergyInterval = std::chrono::milliseconds(200);

constexpr const char* kRunFooter = R"(
  gpulens run train.py --epochs 3                       a Python script and its arguments
  gpulens run --name ft-8b --tag team=nlp train.py
  gpulens run -- torchrun --nproc-per-node 8 train.py   any program
  gpulens log -f                                        meanwhile
  gpulens exp show NAME                                 afterwards

Output and error output pass through unchanged and are kept in a log. Metrics are parsed from both: dictionaries of
Hugging Face's Trainer, loss=0.3, "loss: 3e-4", JSON lines, tqdm's bars, 942 samples/s. A program that uses
gpulens.experiment() writes into the same run. Python runs with unbuffered output.
Exit: the program's own code, 128 + n when signal n ended it · 126, 127 it cannot be started · 1 the run cannot be
recorded · 2 wrong use)";

int ComplainOfRun(const std::string& sentence, int code) {
  std::string text;
  AppendPrintable(text, sentence);
  ::dprintf(STDERR_FILENO, "gpulens run: %s\n", text.c_str());
  return code;
}

// KEY=VALUE; the value as the type that it looks like.
Value ValueOf(const std::string& text) {
  if (auto whole = ParseInt<int64_t>(text)) return *whole;
  if (auto number = ParseDouble(text)) return *number;
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  return text;
}

std::optional<std::pair<std::string, std::string>> Pair(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || !IsKey(text.substr(0, equals))) return std::nullopt;
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// What the program prints, into the log and through the tracker.
class Output {
 public:
  Output(Recorder& recorder, const std::string& log) : recorder_(recorder) {
    Status made = MakeFoldersAbove(log);
    if (made) log_.reset(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
    if (!log_)
      ComplainOfRun("the log is not recorded: " + (made ? ErrnoStatus("open " + log, errno) : made).detail,
                    0);
  }

  void Add(int stream, std::string_view bytes) {
    Keep(bytes);
    within_line_ = bytes.back() != '\n';
    Splitter(stream).Add(bytes, [this](std::string_view line) { Track(line); });
  }
  // Whether what a terminal shows ends within a line: bars do.
  bool within_line() const noexcept { return within_line_; }
  void Finish() {
    for (int stream : {1, 2}) Splitter(stream).Finish([this](std::string_view line) { Track(line); });
  }

 private:
  metric_lines::LineSplitter& Splitter(int stream) { return stream == 1 ? out_ : error_; }
  void Track(std::string_view line) {
    tracker_.Add(line, [this](const std::string& key, double value, std::optional<int64_t> step) {
      recorder_.Point(key, value, step.value_or(kNextStep));
    });
  }
  void Keep(std::string_view bytes) {
    while (log_ && !bytes.empty()) {
      ssize_t written = ::write(log_.get(), bytes.data(), bytes.size());
      if (written > 0) {
        bytes.remove_prefix(static_cast<size_t>(written));
      } else if (errno != EINTR) {
        ComplainOfRun("the log ends here: " + ErrnoStatus("write", errno).detail, 0);
        log_.reset();
      }
    }
  }

  Recorder& recorder_;
  UniqueFd log_;
  metric_lines::LineSplitter out_, error_;
  metric_lines::MetricTracker tracker_;
  bool within_line_ = false;
};

std::string Absolute(const std::string& path) {
  return path.starts_with('/') ? path : CurrentFolder() + "/" + path;
}

// The run as it is told to the file, and, in variables, to the program.
Result<RecorderOptions> Prepare(const RunCommandOptions& options, const std::vector<std::string>& program) {
  RecorderOptions recording;
  ASSIGN_OR_RETURN(recording.database, FindDatabase(options.db));
  recording.database = Absolute(recording.database);
  recording.source = Source::kOutput;
  // Its devices are ours, as far as the environment says: the program inherits it.
  if (options.energy) recording.energy = EnergyOfThisMachine({.interval = kEnergyInterval});
  experiments::Start& start = recording.start;
  start.run = DescribeProgram(program, CurrentFolder());
  // The script as it was called, not the interpreter that was found for it.
  start.run.name = options.name.empty() ? NameOf(options.command.front()) : options.name;
  if (!IsKey(start.run.name))
    return Status{Code::kInvalidArgument, "--name: 1 to 250 bytes without control bytes"};
  start.run.id = MakeRunId(UnixNow());
  start.process.role = "runner";
  const char* outer = std::getenv(kRunIdVariable);
  if (outer && IsRunId(outer)) start.run.parent_id = outer;
  ::setenv(kRunIdVariable, start.run.id.c_str(), 1);
  ::setenv("GPULENS_EXPERIMENTS_DB", recording.database.c_str(), 1);
  ::setenv("PYTHONUNBUFFERED", "1", 0);
  if (options.name.empty()) ::unsetenv(kRunNameVariable);
  else ::setenv(kRunNameVariable, options.name.c_str(), 1);
  return recording;
}

experiments::End EndOf(int status) {
  experiments::End end;
  end.decides = true;
  end.unix_ns = UnixNow();
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  else if (WIFSIGNALED(status)) end.exit_code = 128 + WTERMSIG(status);
  if (end.exit_code != 0) end.outcome = kFailed, end.reason = DescribeWaitStatus(status);
  return end;
}

void Summarize(const std::string& database, const std::string& id) {
  auto reader = RunReader::Open(database);
  if (!reader) return;
  auto run = reader->ById(id);
  auto metrics = reader->Metrics(id);
  if (run && metrics) ::dprintf(STDERR_FILENO, "%s", RunSummary(*run, *metrics, reader->now_ns()).c_str());
}

}  // namespace

Result<std::vector<std::string>> ProgramFor(const std::vector<std::string>& command) {
  std::vector<std::string> out = command;
  if (out.front().ends_with(".py")) {
    if (::access(out.front().c_str(), R_OK) != 0) return ErrnoStatus(out.front(), errno);
    auto python = FindProgram("python3");
    if (!python) python = FindProgram("python");
    if (!python) return Status{Code::kUnavailable, "no python3 in PATH"};
    out.insert(out.begin(), *python);
    return out;
  }
  ASSIGN_OR_RETURN(out.front(), FindProgram(out.front()));
  return out;
}

int RunProgram(const RunCommandOptions& options) {
  if (options.command.empty())
    return ComplainOfRun("no program given   gpulens run train.py …   gpulens run --help", 2);
  if (options.command.front().starts_with('-'))
    return ComplainOfRun("no option " + options.command.front() + ".   gpulens run --help", 2);
  for (const auto* pairs : {&options.tags, &options.params}) {
    for (const std::string& text : *pairs) {
      if (!Pair(text)) return ComplainOfRun("\"" + text + "\": expected KEY=VALUE", 2);
    }
  }
  auto program = ProgramFor(options.command);
  if (!program)
    return ComplainOfRun(program.error().detail, program.error().code == Code::kPermissionDenied ? 126 : 127);
  BlockHandedSignals();
  auto recording = Prepare(options, *program);
  if (!recording) return ComplainOfRun(recording.error().detail, 2);
  const std::string database = recording->database;
  const ExperimentEnergyMeter energy = recording->energy;
  auto recorder = Recorder::Begin(*std::move(recording));
  if (!recorder) return ComplainOfRun("the run cannot be recorded: " + recorder.error().detail, 1);
  Recorder& run = **recorder;
  for (const std::string& text : options.tags) run.Tag(Pair(text)->first, Pair(text)->second);
  for (const std::string& text : options.params) run.Param(Pair(text)->first, ValueOf(Pair(text)->second));
  if (!options.quiet) ::dprintf(STDERR_FILENO, "gpulens run: %s\n", run.run_id().c_str());

  Output output(run, LogPath(database, run.run_id()));
  ChildRun child{.program = program->front(),
                 .arguments = {program->begin() + 1, program->end()},
                 .on_output = [&](int stream, std::string_view bytes) { output.Add(stream, bytes); }};
  auto status = RunChild(child);
  output.Finish();
  experiments::End end = status ? EndOf(*status) : experiments::End{};
  if (!status)
    end.outcome = kFailed, end.reason = status.error().detail, end.exit_code = 126, end.decides = true;
  if (energy) end.energy = ToRow(QueryEnergy(energy, true));
  Status left = run.Leave(end, kEndTime);
  if (!left) ComplainOfRun("the end of the run is not recorded: " + left.detail, 0);
  if (uint64_t dropped = run.health().dropped; dropped != 0)
    ComplainOfRun(std::to_string(dropped) + " values did not fit into the queue and were dropped", 0);
  if (!status) return ComplainOfRun(status.error().detail, 126);
  if (!options.quiet && output.within_line()) ::dprintf(STDERR_FILENO, "\n");
  if (!options.quiet) Summarize(database, run.run_id());
  return static_cast<int>(end.exit_code.value_or(1));
}

void AddRun(CLI::App& app, RunCommandOptions& options, int& code) {
  CLI::App* run = app.add_subcommand("run", "Run a program; record its output and the metrics in it.");
  run->group("Runs and records");
  run->add_option("--name", options.name, "Name of the run; default: the script's name")->type_name("NAME");
  run->add_option("--tag", options.tags, "A tag; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run->add_option("--param", options.params, "A parameter; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run->add_flag("!--no-energy", options.energy, "Do not measure the energy of GPUs or processors");
  run->add_option("--db", options.db, "The file of experiments, ~/.gpulens/experiments.db")
      ->type_name("FILE");
  run->add_flag("-q,--quiet", options.quiet, "Print only the output of the program");
  run->add_option("COMMAND", options.command, "A Python script or a program, with its arguments");
  run->positionals_at_end();
  run->footer(kRunFooter);
  run->callback([&options, &code] {
    static_cast<void>(SetLogLevels("error"));
    code = RunProgram(options);
  });
}

}  // namespace gpulens
