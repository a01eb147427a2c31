#include <poll.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "agent/control/control_socket.h"
#include "agent/demo/scenario.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "config/value_parse.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/nvml_source.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/fault_watch.h"

namespace gpulens {
namespace {

struct CaptureRequest {
  Duration length, every;
  std::string library;  // A name, a path or "simulated"; empty: the usual one.
  std::vector<unsigned> gpus;
};

struct CaptureOutcome {
  nvml::NvmlRecording recording;  // Identity kept.
  bool interrupted = false;
};

// Progress of a recording.
struct CaptureProgress {
  Duration done{0};
  size_t gpus = 0;
};

// Opening a library on a machine whose GPUs sleep may take this long.
constexpr Duration kStartTimeout = std::chrono::seconds(45);
// A call that takes longer than this hangs. Much longer than the driver's own pauses.
constexpr Duration kCallTimeout = std::chrono::seconds(10);
constexpr size_t kMaxTrouble = 8;

// A temporary file, readable by this user only, which is removed with this object.
class SpoolFile {
 public:
  SpoolFile() = default;
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  ~SpoolFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Status Make() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/gpulens-capture-XXXXXX";
    UniqueFd fd(::mkstemp(path.data()));
    if (!fd) return ErrnoStatus(path, errno);
    path_ = std::move(path);
    return Ok();
  }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

nvml::SourceOptions MakeOptions(const CaptureRequest& request, const std::string& spool) {
  nvml::SourceOptions options;
  bool simulated = request.library == "simulated";
  if (simulated) options.arguments.push_back("--simulated");
  else options.library_path = request.library;
  options.arguments.push_back("--record=" + spool);
  std::string gpus;
  for (unsigned gpu : request.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  if (!gpus.empty()) options.arguments.push_back("--record-gpus=" + gpus);
  options.build_id = std::string(Version()) + " " + std::string(Revision());
  options.interval = request.every;
  // Everything is read several times even in a short recording; a long one stays small.
  bool brief = request.length < 30 * request.every;
  options.medium = (brief ? 2 : 5) * request.every;
  options.slow = (brief ? 5 : 10) * request.every;
  options.details = nvml::kDetailsAll;
  options.deadline = std::max<Duration>(kCallTimeout, 2 * request.every);
  return options;
}

class CaptureSession {
 public:
  CaptureSession(const CaptureRequest& request, const std::string& spool)
      : source_(MakeOptions(request, spool)) {}

  // Waits until the library is open and its GPUs have been counted.
  Status Start(const std::function<bool()>& stopped) {
    Instant end = RealClock().Now() + kStartTimeout;
    while (!source_.state().up) {
      Turn();
      const nvml::ReaderState& driver = source_.state();
      if (driver.fault != reader::ReaderFault::kNone && !driver.up)
        return {Code::kUnavailable,
                driver.last_error.empty() ? "the library cannot be read" : driver.last_error};
      if (stopped()) return {Code::kUnavailable, "stopped before the library was open"};
      if (RealClock().Now().boot_ns > end.boot_ns)
        return {Code::kTimeout, "the library did not open within 45 s"};
    }
    return Ok();
  }

  // Waits for the next message of the reader process and handles it.
  void Turn() {
    Instant now = RealClock().Now();
    source_.Poll(now);
    source_.TakeChanges(changes_);
    for (nvml::ReaderChange& change : changes_) {
      if (change.kind == nvml::ReaderChange::kStarted || change.kind == nvml::ReaderChange::kReleased)
        continue;
      AddTrouble(change.detail.empty() ? "the reader process failed" : change.detail);
    }
    for (const nvml::Gpu& gpu : source_.gpus()) {
      if (gpu.state != nvml::GpuState::kHung) continue;
      AddTrouble("GPU " + std::to_string(gpu.index) + " hung in " +
                 std::string(nvml::CallName(gpu.hung_call)));
    }
    constexpr int64_t kLongestNs = 100'000'000;
    int64_t wait_ns = std::clamp<int64_t>(source_.NextDueBootNs() - now.boot_ns, 1'000'000, kLongestNs);
    pollfd fd{.fd = source_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&fd, 1, static_cast<int>(wait_ns / 1'000'000));
  }

  const std::vector<std::string>& trouble() const noexcept { return trouble_; }
  size_t gpus() const noexcept { return source_.gpus().size(); }

 private:
  void AddTrouble(std::string sentence) {
    bool known = std::ranges::find(trouble_, sentence) != trouble_.end();
    if (!known && trouble_.size() < kMaxTrouble) trouble_.push_back(std::move(sentence));
  }

  nvml::NvmlSource source_;
  std::vector<nvml::ReaderChange> changes_;
  std::vector<std::string> trouble_;
};

std::string OneText(const std::vector<std::string>& sentences) {
  return Joined(sentences, "; ").substr(0, 1000);
}

// The number of GPUs that the library reported.
std::optional<unsigned> CountOf(const nvml::NvmlRecording& recording) {
  auto count = recording.system.find("nvmlDeviceGetCount_v2");
  if (count == recording.system.end() || count->second.first.values.empty()) return std::nullopt;
  return ParseInt<unsigned>(count->second.first.values[0]);
}

// Reports what the recording lacks; empty: nothing.
std::string Missing(const nvml::NvmlRecording& recording) {
  if (recording.gpus.empty()) return "no GPU answered";
  unsigned gpus = CountOf(recording).value_or(0);
  if (gpus <= nvml::kMaxRecordedGpus) return {};
  return std::to_string(gpus) + " GPUs were found: the first 16 were recorded; --gpu selects others";
}

// Runs a reader process with a recorder until the time is over or `stopped` returns true. A crash or hang of
// the library is noted in the recording's `trouble`. Fails when nothing was recorded; kInvalidArgument: a GPU
// is not on this machine. `every` is at least 100 ms.
Result<CaptureOutcome> Capture(const CaptureRequest& request, const std::function<bool()>& stopped,
                               const std::function<void(const CaptureProgress&)>& progress) {
  SpoolFile spool;
  RETURN_IF_ERROR(spool.Make());
  CaptureOutcome outcome;
  std::vector<std::string> trouble;
  Status started;
  Duration done{0};
  {
    CaptureSession session(request, spool.path());
    Instant begin = RealClock().Now();
    started = session.Start(stopped);
    if (started.ok()) begin = RealClock().Now();
    else done = RealClock().Now() - begin;
    outcome.interrupted = !started.ok() && stopped();
    while (started.ok() && done < request.length) {
      session.Turn();
      done = RealClock().Now() - begin;
      progress({.done = done, .gpus = session.gpus()});
      if (stopped()) {
        outcome.interrupted = true;
        break;
      }
    }
    trouble = session.trouble();
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(spool.path(), 2 * nvml::kMaxSpoolBytes));
  nvml::CaptureSpool read = nvml::ReadSpool(text);
  if (!read.library_error.empty()) return Status{Code::kUnavailable, read.library_error};
  outcome.recording = std::move(read.recording);
  if (auto count = CountOf(outcome.recording); count && *count < request.gpus.size()) {
    return Status{Code::kInvalidArgument,
                  "GPU " + std::to_string(request.gpus[*count]) + " is not on this machine"};
  }
  std::string missing = Missing(outcome.recording);
  if (outcome.recording.gpus.empty()) {
    if (!started.ok()) return started;
    return Status{Code::kUnavailable, trouble.empty() ? missing : OneText(trouble)};
  }
  // The reader process may have read GPUs before its report that the library is open arrived.
  if (!started.ok() && !outcome.interrupted) trouble.push_back(started.detail);
  if (!missing.empty()) trouble.push_back(missing);
  if (read.full) trouble.push_back("the recording reached its size limit: its end is missing");
  outcome.recording.trouble = OneText(trouble);
  outcome.recording.seconds = std::max(static_cast<double>(done.count()) * 1e-9, 0.001);
  outcome.recording.every = static_cast<double>(request.every.count()) * 1e-9;
  return outcome;
}

struct CaptureOptions {
  std::string source = "nvml";
  std::string length = "60s", every = "1s";
  std::string file;  // "-": standard output. Empty: a name with the time, here.
  std::string library;
  std::vector<unsigned> gpus;  // Empty: all.
  bool keep_identity = false;
  bool quiet = false;
};

constexpr const char* kCaptureFooter = R"(
  gpulens sim record                                    60 s, into gpulens-nvml-TIME.yaml
  gpulens sim record --for 5m --every 10s -o node7.yaml --gpu 0 3
  gpulens sim replay node7.yaml                         an agent with these GPUs

Writes down every call of the library with its answer, error codes included; values that change become a timeline.
The library runs in a process of its own: when it crashes or hangs, what was recorded until then is written.
UUIDs, serial numbers, names of virtual machines and pids are replaced, each by the same made-up one everywhere.
Host, user and process names are never recorded.
Exit: 0 written · 1 nothing, or only a part, was recorded · 2 wrong use · 130 ended by Ctrl-C, written)";

constexpr Duration kShortest = std::chrono::seconds(1), kLongest = std::chrono::hours(1);
constexpr Duration kShortestEvery = std::chrono::milliseconds(100);

volatile sig_atomic_t stop_requested = 0;
void RequestStop(int) { stop_requested = 1; }

std::string UtcNow(const char* format) {
  time_t now = static_cast<time_t>(RealClock().Now().unix_ns / 1'000'000'000);
  tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

// Returns what is wrong with the options, or nothing.
std::string ReadOptions(const CaptureOptions& options, CaptureRequest& out) {
  if (options.source != "nvml") {
    return options.source.empty() ? "no source given; the only one is nvml: gpulens sim record nvml"
                                  : "no source \"" + options.source + "\"; the only one is nvml";
  }
  if (ParseTimeValue(options.length, out.length) || out.length < kShortest || out.length > kLongest)
    return "--for " + options.length + ": expected a time from 1s to 1h";
  if (ParseTimeValue(options.every, out.every) || out.every < kShortestEvery || out.every > out.length)
    return "--every " + options.every + ": expected a time from 100ms to the value of --for";
  out.library = options.library;
  out.gpus = options.gpus;
  std::sort(out.gpus.begin(), out.gpus.end());
  out.gpus.erase(std::unique(out.gpus.begin(), out.gpus.end()), out.gpus.end());
  if (out.gpus.size() > nvml::kMaxRecordedGpus) return "--gpu: at most 16 GPUs fit into a recording";
  if (!out.gpus.empty() && out.gpus.back() > 63) return "--gpu: GPUs are numbered 0 to 63";
  return {};
}

// Progress: one line that is redrawn on a terminal, otherwise a line each half minute.
class ProgressLine {
 public:
  ProgressLine(bool quiet, Duration length)
      : shown_(!quiet), terminal_(::isatty(STDERR_FILENO)), length_(length) {}

  void Show(const CaptureProgress& progress) {
    Duration pause =
        terminal_ ? Duration(std::chrono::milliseconds(100)) : Duration(std::chrono::seconds(30));
    if (!shown_ || progress.done - last_ < pause) return;
    last_ = progress.done;
    auto whole = [](Duration d) { return static_cast<long long>(d.count() / 1'000'000'000); };
    ::dprintf(
        STDERR_FILENO,
        terminal_ ? "\r  recording %zu GPUs, %lld of %lld s\x1b[K" : "recording %zu GPUs, %lld of %lld s\n",
        progress.gpus, whole(progress.done), whole(length_));
    drawn_ = terminal_;
  }
  void End() {
    if (std::exchange(drawn_, false)) ::dprintf(STDERR_FILENO, "\r\x1b[K");
  }

 private:
  bool shown_, terminal_, drawn_ = false;
  Duration length_, last_{0};
};

std::string MadeWith(const CaptureOptions& options) {
  std::string out = "gpulens capture nvml --for " + options.length + " --every " + options.every;
  if (!options.gpus.empty()) out += " --gpu";
  for (unsigned gpu : options.gpus) out += " " + std::to_string(gpu);
  return out + (options.keep_identity ? " --keep-identity" : "");
}

size_t CountChanges(const nvml::NvmlRecording& recording) {
  size_t count = 0;
  auto add = [&](const nvml::AnswerTracks& tracks) {
    for (const auto& [question, track] : tracks) count += track.later.size();
  };
  add(recording.system);
  for (const nvml::RecordedGpu& gpu : recording.gpus) {
    add(gpu.calls);
    for (const auto& [place, tracks] : gpu.mig) add(tracks);
  }
  return count;
}

Result<int> Write(const CaptureOptions& options, const CaptureOutcome& outcome) {
  const nvml::NvmlRecording& recording = outcome.recording;
  // Readings of one round share a time.
  std::string text = nvml::WriteRecording(recording, std::min(recording.every / 4, 0.25));
  if (Result<nvml::NvmlRecording> again = nvml::ReadRecording(text); !again)
    return Status{Code::kDataLoss, "the recording cannot be replayed: " + again.error().detail +
                                       "; a longer --every or fewer GPUs may help"};
  std::string path =
      options.file.empty() ? "gpulens-nvml-" + UtcNow("%Y%m%dT%H%M%SZ") + ".yaml" : options.file;
  if (path == "-") {
    if (PrintText(text) != 0) return Status{Code::kIo, "standard output cannot be written"};
  } else if (Status status = WriteFileAtomically(path, text); !status.ok()) {
    return Status{Code::kIo, status.detail};
  }
  if (!options.quiet) {
    ::dprintf(STDERR_FILENO,
              "written: %s, %zu KiB: %zu GPUs, %.0f s, %zu changes, %zu events; identity %s\n"
              "replay:  gpulens sim replay %s\n",
              path.c_str(), (text.size() + 1023) / 1024, recording.gpus.size(), recording.seconds,
              CountChanges(recording), recording.events.size(), recording.identity_kept ? "kept" : "made up",
              path.c_str());
  }
  if (!recording.trouble.empty())
    return Status{Code::kDataLoss, "the recording is incomplete: " + recording.trouble};
  return outcome.interrupted ? 130 : 0;
}

Result<int> RunCapture(const CaptureOptions& options) {
  CaptureRequest request{};
  if (std::string error = ReadOptions(options, request); !error.empty())
    return Status{Code::kInvalidArgument, std::move(error)};
  static_cast<void>(SetLogLevels("error"));
  struct sigaction action{};
  action.sa_handler = RequestStop;
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  ProgressLine line(options.quiet, request.length);
  Result<CaptureOutcome> outcome =
      Capture(request, [] { return stop_requested != 0; }, [&](const CaptureProgress& p) { line.Show(p); });
  line.End();
  if (!outcome) return outcome.error();
  nvml::NvmlRecording& recording = outcome->recording;
  recording.made_by = "gpulens " + std::string(Version());
  recording.made_at = UtcNow("%Y-%m-%dT%H:%M:%SZ");
  recording.made_with = MadeWith(options);
  if (!options.keep_identity) nvml::HideIdentity(recording);
  return Write(options, *outcome);
}

CLI::App* AddCapture(CLI::App& app, const char* name, int& code) {
  auto kept = std::make_shared<CaptureOptions>();
  CaptureOptions& options = *kept;
  CLI::App* capture = app.add_subcommand(name, "Record the answers of this machine's GPUs.");
  capture->add_option("SOURCE", options.source, "Source to record: nvml")->capture_default_str();
  AddOption(*capture, "--for", options.length, "Length of the recording", "D")->capture_default_str();
  AddOption(*capture, "--every", options.every, "Time between two rounds of readings", "D")
      ->capture_default_str();
  AddOption(*capture, "-o,--output", options.file, "Output file; - is standard output", "FILE");
  capture->add_option("--gpu", options.gpus, "Record only these GPUs, by index; they become 0, 1, …")
      ->type_name("N");
  AddOption(*capture, "--library", options.library, "NVML, by name or path; simulated for simulated GPUs",
            "L");
  capture->add_flag("--keep-identity", options.keep_identity,
                    "Keep UUIDs, serial numbers and pids unchanged");
  capture->add_flag("-q,--quiet", options.quiet, "Print no progress and no summary");
  capture->footer(kCaptureFooter);
  capture->callback([kept, &code] { code = ExitCode("sim record", RunCapture(*kept)); });
  return capture;
}

constexpr const char* kSimFooter = R"(
  gpulens sim record --for 60s -o node7.yaml     what the GPUs here answer
  gpulens sim replay node7.yaml                  an agent with the recorded GPUs
  gpulens agent --demo &                         or one with eight GPUs, and engines on them
  gpulens sim set engine=chat-a load=0.9 for=2m
  gpulens sim stop engine=chat-a for=30s
  gpulens sim fail gpu=3 mode=fallen_off_bus after=5s for=20s
  gpulens sim status
  gpulens sim heal

Faults go into simulated GPUs only: an agent that reads real ones refuses. They end with the agent; what sim set and
sim stop change lasts until its time is over, or it is healed.
Exit: 0 done · 1 no agent, or it refuses · 2 wrong use)";

constexpr const char* kFailFooter = R"(
  gpulens sim fail gpu=3 mode=lost                           until sim heal
  gpulens sim fail gpu=3 mode=xid code=79 after=5s
  gpulens sim fail gpu=all mode=slow delay=200ms for=1m
  gpulens sim fail gpu=0 mode=error call=nvmlDeviceGetTemperature code=999
  gpulens sim fail gpu=0 mode=wrong_value reading=power value=all_ones

gpu=N, as numbered at the start, or gpu=all. after=TIME and for=TIME are 500ms, 10s, 5m, or seconds. Modes:

)";

constexpr const char* kReplayFooter = R"(
  gpulens sim replay node7.yaml
  gpulens sim replay node7.yaml --config gpulens.yaml

Serves what gpulens agent serves; every GPU series has simulated="true". Exit codes are those of the agent.)";

struct FakeOrder {
  std::vector<std::string> words;
  std::string socket, config_file;
};

// `wire`: the command on the socket, "nvml fail".
int RunFault(const FakeOrder& order, const std::string& wire) {
  AgentQuestion question{"gpulens sim", wire, order.socket, order.config_file};
  const std::string words = order.words.empty() ? "" : " " + Joined(order.words, " ");
  if (wire == "nvml fail") {
    Result<nvml::LiveFault> fault = nvml::ParseFaultOrder(words, RealClock().Now().boot_ns);
    if (!fault) return FailCommand("sim fail", fault.error().detail + "   gpulens sim fail --help", 2);
  }
  question.command += words;
  if (question.command.size() > kMaxControlLine)
    return FailCommand("sim", "too many words for one command", 2);
  return QueryAndPrint(question);
}

// Adds fail, heal and status, under `sim` and, as before 0.2, under `fake nvml`.
void AddFaults(CLI::App& app, const std::shared_ptr<FakeOrder>& order, bool with_engines, int& code) {
  auto add = [&](const char* verb, const char* wire, const char* help) {
    CLI::App* command = app.add_subcommand(verb, help);
    AddOption(*command, "--socket", order->socket, "The agent's control socket", "PATH");
    AddConfigOption(*command, order->config_file);
    command->callback([order, wire, &code] { code = RunFault(*order, wire); });
    return command;
  };
  CLI::App* fail = add("fail", "nvml fail", "Inject a fault into a running agent with simulated GPUs.");
  fail->add_option("WORDS", order->words, "gpu=N mode=MODE and the keys of the mode, see below")->required();
  fail->footer(kFailFooter + nvml::FaultHelp());
  add("heal", "nvml heal", "End all faults and changes, or those of one; counters keep their values.")
      ->add_option("WORDS", order->words, "gpu=N, id=N or engine=NAME");
  add("status", "nvml faults", "List active faults and changes, engines, and where their pages are.");
  if (!with_engines) return;
  add("set", "demo set", "Change the load of an engine of gpulens agent --demo.")
      ->add_option("WORDS", order->words, "engine=NAME load=0…1.5 [for=TIME] [after=TIME]")
      ->required();
  add("stop", "demo stop", "Stop an engine of gpulens agent --demo: no page, no process.")
      ->add_option("WORDS", order->words, "engine=NAME [for=TIME] [after=TIME]")
      ->required();
  CLI::App* scenario = app.add_subcommand("scenario", "Print the scenario of gpulens agent --demo, as YAML.");
  scenario->callback([&code] { code = PrintText(std::string(demo::BuiltInScenario())); });
}

// Checks a recording; the simulated library reads it again when the agent starts.
int CheckRecording(const std::string& file) {
  std::string wrong;
  if (Result<std::string> text = ReadFile(file, nvml::kMaxRecordingBytes); !text) wrong = text.error().detail;
  else if (Result<nvml::NvmlRecording> recording = nvml::ReadRecording(*text); !recording)
    wrong = file + ": " + recording.error().detail;
  if (wrong.empty()) return 0;
  return FailCommand("sim replay", wrong, 2);
}

}  // namespace

void AddSim(CLI::App& app, SimOptions& options, int& code) {
  CLI::App* sim =
      app.add_subcommand("sim", "Record GPUs, replay them, inject faults, and change simulated engines.");
  sim->group("Simulated GPUs");
  sim->require_subcommand(1);
  sim->footer(kSimFooter);
  AddCapture(*sim, "record", code);
  CLI::App* replay = sim->add_subcommand("replay", "Run an agent with recorded GPUs.");
  replay->add_option("FILE", options.replay_file, "A recording")->required();
  AddConfigOption(*replay, options.config_file);
  replay->footer(kReplayFooter);
  replay->callback([&options, &code] {
    code = CheckRecording(options.replay_file);
    options.replays = code == 0;
  });
  auto order = std::make_shared<FakeOrder>();
  AddFaults(*sim, order, true, code);

  // Names before 0.2.
  AddCapture(app, "capture", code)->group("");
  CLI::App* fake = app.add_subcommand("fake", "The older name of gpulens sim.");
  fake->group("")->require_subcommand(1);
  CLI::App* nvml = fake->add_subcommand("nvml", "The older name of gpulens sim.");
  nvml->require_subcommand(1);
  AddFaults(*nvml, order, false, code);
}

}  // namespace gpulens
