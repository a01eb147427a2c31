#include <fcntl.h>
#include <gpulens/status.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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
#include "cli/common/output.h"
#include "cli/exp/exp_command.h"
#include "cli/help/help.h"
#include "cli/run_probes.h"
#include "sdk/experiment/metric_lines.h"
#include "sdk/experiment/recorder.h"
#include "sdk/experiment/run_context.h"
#include "store/experiments/run_reader.h"
#include "store/experiments/run_rows.h"

namespace gpulens {
namespace {

// A program to run as a child: its output is passed through unchanged, and signals are passed on to it.
struct ChildRun {
  std::string program;                 // a path
  std::vector<std::string> arguments;  // without argv[0]
  // Bytes of its standard output (1) or error output (2), after they were passed on.
  std::function<void(int stream, std::string_view bytes)> on_output;
};

constexpr int kPassedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr size_t kOutputPiece = 64 << 10;
// How long to wait for output after the child has ended: processes that it left may keep the pipe open.
constexpr int kLingerMs = 500;

sigset_t PassedSignals(bool with_pipe) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : kPassedSignals) sigaddset(&signals, signal);
  if (with_pipe) sigaddset(&signals, SIGPIPE);
  return signals;
}

struct PipeEnds {
  UniqueFd read, write;
};
Result<PipeEnds> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
  return PipeEnds{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class Pump {
 public:
  Pump(const ChildRun& run, ChildProcess child, PipeEnds out, PipeEnds error, UniqueFd signals)
      : run_(run), child_(std::move(child)), signals_(std::move(signals)), piece_(kOutputPiece, '\0') {
    streams_[0] = std::move(out.read);
    streams_[1] = std::move(error.read);
  }

  int Run() {
    std::optional<int> status;
    while (streams_[0] || streams_[1] || !status) {
      // A closed descriptor is -1, which poll skips.
      pollfd waiting[] = {{streams_[0].get(), POLLIN, 0},
                          {streams_[1].get(), POLLIN, 0},
                          {signals_.get(), POLLIN, 0},
                          {status ? -1 : child_.end_fd(), POLLIN, 0}};
      int ready = ::poll(waiting, 4, status ? kLingerMs : -1);
      if (ready == 0) break;
      if (ready < 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (waiting[i].revents != 0) Read(i);
      }
      if (waiting[2].revents != 0) PassSignal();
      if (!status && waiting[3].revents != 0) status = child_.TryWait();
    }
    return *status;
  }

 private:
  void Read(int stream) {
    UniqueFd& from = streams_[static_cast<size_t>(stream)];
    ssize_t got = ::read(from.get(), piece_.data(), piece_.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return from.reset();
    const std::string_view bytes(piece_.data(), static_cast<size_t>(got));
    const bool passed = WriteAll(stream + 1, bytes);
    run_.on_output(stream + 1, bytes);
    if (!passed) from.reset();
  }

  void PassSignal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    // Ctrl-C of a terminal has reached the child, too: it is of our process group.
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    if (!from_terminal) child_.Signal(static_cast<int>(info.ssi_signo));
  }

  const ChildRun& run_;
  ChildProcess child_;
  UniqueFd streams_[2], signals_;
  std::string piece_;
};

// Blocks the signals that RunChild passes on, for this thread and those that it starts. Called before any
// thread starts.
void BlockPassedSignals() {
  const sigset_t signals = PassedSignals(true);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Runs the child and returns its wait status after all its output was read. When our output is closed, the
// stream of the child is closed as well.
Result<int> RunChild(const ChildRun& run) {
  ASSIGN_OR_RETURN(PipeEnds out, MakePipe());
  ASSIGN_OR_RETURN(PipeEnds error, MakePipe());
  const sigset_t handed = PassedSignals(false);
  UniqueFd signals(::signalfd(-1, &handed, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return ErrnoStatus("signalfd", errno);
  ChildProcess::Options options;
  options.program = run.program;
  options.arguments = run.arguments;
  options.pass_fds = {{out.write.get(), 1}, {error.write.get(), 2}};
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(options));
  out.write.reset(), error.write.reset();
  return Pump(run, std::move(child), std::move(out), std::move(error), std::move(signals)).Run();
}

struct RunCommandOptions {
  std::string db, name;
  std::vector<std::string> tags, params;  // KEY=VALUE
  std::string probes;                     // see JobProbes; empty: the environment stays as it is
  std::string copy_to;                    // a folder for libraries; no program is run then
  std::vector<std::string> command;       // script or program with its arguments
  bool quiet = false;
  bool energy = true;
};

using namespace experiments;

constexpr Duration kEndTime = std::chrono::seconds(20);
// Sufficient for long runs: counters are exact, and integrated power is close enough.
constexpr Duration kEnergyInterval = std::chrono::milliseconds(200);

constexpr const char* kRunFooter = R"(
  gpulens run train.py --epochs 3                       a Python script and its arguments
  gpulens run --name ft-8b --tag team=nlp train.py
  gpulens run -- torchrun --nproc-per-node 8 train.py   any program
  gpulens log -f                                        meanwhile
  gpulens exp show NAME                                 afterwards
  gpulens run --probes=nccl,torch train.py              collectives, phases and data loading for the agent here

--probes=nccl[:count|time|link][:chain],cuda[:count|time|profile][:hes],torch,none loads libraries into the program that
report to the agent on this machine. A profiler that the environment names stays in place: nccl is refused then, or loads
it behind its own with nccl:chain; cuda is refused. none turns off what the environment names. --copy-to is for init
containers of Kubernetes. docs/nccl-plugin.md

Output and error output pass through unchanged and are kept in a log. Metrics are parsed from both: dictionaries of
Hugging Face's Trainer, loss=0.3, "loss: 3e-4", JSON lines, tqdm's bars, 942 samples/s. A program that uses
gpulens.experiment() writes into the same run. Python runs with unbuffered output.
Exit: the program's own code, 128 + n when signal n ended it · 126, 127 it cannot be started · 1 the run cannot be
recorded · 2 wrong use)";

// The value of KEY=VALUE as the type that it looks like.
RunParamValue ValueOf(const std::string& text) {
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

// Writes what the program prints into the log and to the tracker.
class Output {
 public:
  Output(RunRecorder& recorder, const std::string& log) : recorder_(recorder) {
    Status made = MakeFoldersAbove(log);
    if (made) log_.reset(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
    if (!log_)
      FailCommand("run",
                  "the log is not recorded: " + (made ? ErrnoStatus("open " + log, errno) : made).detail, 0);
  }

  void Add(int stream, std::string_view bytes) {
    Keep(bytes);
    within_line_ = bytes.back() != '\n';
    Splitter(stream).Add(bytes, [this](std::string_view line) { Track(line); });
  }
  // Whether the output ends within a line, as progress bars do.
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
    if (!log_ || WriteAll(log_.get(), bytes)) return;
    FailCommand("run", "the log ends here: " + ErrnoStatus("write", errno).detail, 0);
    log_.reset();
  }

  RunRecorder& recorder_;
  UniqueFd log_;
  metric_lines::LineSplitter out_, error_;
  metric_lines::MetricTracker tracker_;
  bool within_line_ = false;
};

std::string Absolute(const std::string& path) {
  return path.starts_with('/') ? path : CurrentFolder() + "/" + path;
}

// Describes the run for the file and, in variables, for the program.
Result<RunRecorderOptions> Prepare(const RunCommandOptions& options,
                                   const std::vector<std::string>& program) {
  RunRecorderOptions recording;
  ASSIGN_OR_RETURN(recording.database, FindDatabase(options.db));
  recording.database = Absolute(recording.database);
  recording.source = PointSource::kOutput;
  // The program inherits the environment, so its visible devices are ours.
  if (options.energy) recording.energy = EnergyOfThisMachine({.interval = kEnergyInterval});
  experiments::RunStart& start = recording.start;
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

experiments::RunEnd EndOf(int status) {
  experiments::RunEnd end;
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

// Sets what makes the program load gpulens's libraries; or, with `copy_to`, copies them and prints that.
Status SetProbes(const std::string& text, const std::string& copy_to) {
  ASSIGN_OR_RETURN(const JobProbes probes, JobProbes::Parse(text));
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return ErrnoStatus("/proc/self/exe", errno);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  JobProbeFolders folders = JobProbeFolders::Of(std::string(self, static_cast<size_t>(length)));
  if (!copy_to.empty()) {
    ASSIGN_OR_RETURN(folders, CopyJobLibraries(probes, folders, copy_to));
  }
  ASSIGN_OR_RETURN(const EnvironmentVariables set, JobProbeEnvironment(probes, folders, variable));
  for (const auto& [name, value] : set) {
    if (copy_to.empty()) ::setenv(name.c_str(), value.c_str(), 1);
    else WriteText(name + "=" + value + "\n");
  }
  return Ok();
}

int RunProgram(const RunCommandOptions& options) {
  if (!options.copy_to.empty()) {
    if (options.probes.empty() || !options.command.empty())
      return FailCommand("run", "--copy-to takes --probes, and no program", 2);
    const Status copied = SetProbes(options.probes, options.copy_to);
    return copied ? 0 : FailCommand("run", copied.detail, copied.code == Code::kInvalidArgument ? 2 : 1);
  }
  if (options.command.empty())
    return FailCommand("run", "no program given   gpulens run train.py …   gpulens run --help", 2);
  if (options.command.front().starts_with('-'))
    return FailCommand("run", "no option " + options.command.front() + ".   gpulens run --help", 2);
  for (const auto* pairs : {&options.tags, &options.params}) {
    for (const std::string& text : *pairs) {
      if (!Pair(text)) return FailCommand("run", "\"" + text + "\": expected KEY=VALUE", 2);
    }
  }
  if (!options.probes.empty()) {
    if (Status set = SetProbes(options.probes, {}); !set) return FailCommand("run", set.detail, 2);
  }
  auto program = ProgramFor(options.command);
  if (!program)
    return FailCommand("run", program.error().detail,
                       program.error().code == Code::kPermissionDenied ? 126 : 127);
  BlockPassedSignals();
  auto recording = Prepare(options, *program);
  if (!recording) return FailCommand("run", recording.error().detail, 2);
  const std::string database = recording->database;
  const ExperimentEnergyMeter energy = recording->energy;
  auto recorder = RunRecorder::Begin(*std::move(recording));
  if (!recorder) return FailCommand("run", "the run cannot be recorded: " + recorder.error().detail, 1);
  RunRecorder& run = **recorder;
  for (const std::string& text : options.tags) run.Tag(Pair(text)->first, Pair(text)->second);
  for (const std::string& text : options.params) run.Param(Pair(text)->first, ValueOf(Pair(text)->second));
  if (!options.quiet) ::dprintf(STDERR_FILENO, "gpulens run: %s\n", run.run_id().c_str());

  Output output(run, LogPath(database, run.run_id()));
  ChildRun child{.program = program->front(),
                 .arguments = {program->begin() + 1, program->end()},
                 .on_output = [&](int stream, std::string_view bytes) { output.Add(stream, bytes); }};
  auto status = RunChild(child);
  output.Finish();
  experiments::RunEnd end = status ? EndOf(*status) : experiments::RunEnd{};
  if (!status)
    end.outcome = kFailed, end.reason = status.error().detail, end.exit_code = 126, end.decides = true;
  if (energy) end.energy = ToRow(QueryEnergy(energy, true));
  Status left = run.Leave(end, kEndTime);
  if (!left) FailCommand("run", "the end of the run is not recorded: " + left.detail, 0);
  if (uint64_t dropped = run.health().dropped; dropped != 0)
    FailCommand("run", std::to_string(dropped) + " values did not fit into the queue and were dropped", 0);
  if (!status) return FailCommand("run", status.error().detail, 126);
  if (!options.quiet && output.within_line()) ::dprintf(STDERR_FILENO, "\n");
  if (!options.quiet) Summarize(database, run.run_id());
  return static_cast<int>(end.exit_code.value_or(1));
}

}  // namespace

void AddRun(CLI::App& app, int& code) {
  auto kept = std::make_shared<RunCommandOptions>();
  RunCommandOptions& options = *kept;
  CLI::App* run = app.add_subcommand("run", "Run a program; record its output and the metrics in it.");
  run->group("Runs and records");
  AddOption(*run, "--name", options.name, "Name of the run; default: the script's name", "NAME");
  AddOption(*run, "--tag", options.tags, "A tag; repeatable", "KEY=VALUE")->allow_extra_args(false);
  AddOption(*run, "--param", options.params, "A parameter; repeatable", "KEY=VALUE")->allow_extra_args(false);
  run->add_flag("!--no-energy", options.energy, "Do not measure the energy of GPUs or processors");
  AddOption(*run, "--probes", options.probes, "Libraries that the program loads: nccl, cuda, torch, or none",
            "LIST");
  AddOption(*run, "--copy-to", options.copy_to,
            "Copy these libraries into a folder, print the variables that load them, and run nothing",
            "FOLDER");
  AddOption(*run, "--db", options.db, "The file of experiments, ~/.gpulens/experiments.db", "FILE");
  run->add_flag("-q,--quiet", options.quiet, "Print only the output of the program");
  run->add_option("COMMAND", options.command, "A Python script or a program, with its arguments");
  run->positionals_at_end();
  run->footer(kRunFooter);
  run->callback([kept, &code] {
    static_cast<void>(SetLogLevels("error"));
    code = RunProgram(*kept);
  });
}

}  // namespace gpulens
