#include "cli/capture/capture_command.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/capture/capture_session.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

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

int ComplainOfCapture(const std::string& sentence, int code) {
  std::string text;
  AppendPrintable(text, sentence);
  ::dprintf(STDERR_FILENO, "gpulens sim record: %s\n", text.c_str());
  return code;
}

std::string UtcNow(const char* format) {
  time_t now = static_cast<time_t>(RealClock().Now().unix_ns / 1'000'000'000);
  tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

// Empty: the options can be used.
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

// One line that is drawn again on a terminal, else a line each half minute.
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

size_t CountChanges(const nvml::Recording& recording) {
  size_t count = 0;
  auto add = [&](const nvml::Tracks& tracks) {
    for (const auto& [question, track] : tracks) count += track.later.size();
  };
  add(recording.system);
  for (const nvml::RecordedGpu& gpu : recording.gpus) {
    add(gpu.calls);
    for (const auto& [place, tracks] : gpu.mig) add(tracks);
  }
  return count;
}

int Write(const CaptureOptions& options, const CaptureOutcome& outcome) {
  const nvml::Recording& recording = outcome.recording;
  // Readings of one round are one moment.
  std::string text = nvml::WriteRecording(recording, std::min(recording.every / 4, 0.25));
  if (Result<nvml::Recording> again = nvml::ReadRecording(text); !again)
    return ComplainOfCapture("the recording cannot be replayed: " + again.error().detail +
                                 "; a longer --every or fewer GPUs may help",
                             1);
  std::string path =
      options.file.empty() ? "gpulens-nvml-" + UtcNow("%Y%m%dT%H%M%SZ") + ".yaml" : options.file;
  if (path == "-") {
    bool written =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!written) return ComplainOfCapture("standard output cannot be written", 1);
  } else if (Status status = WriteFileAtomically(path, text); !status.ok()) {
    return ComplainOfCapture(status.detail, 1);
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
    return ComplainOfCapture("the recording is incomplete: " + recording.trouble, 1);
  return outcome.interrupted ? 130 : 0;
}

}  // namespace

int RunCapture(const CaptureOptions& options) {
  CaptureRequest request{};
  if (std::string error = ReadOptions(options, request); !error.empty()) return ComplainOfCapture(error, 2);
  static_cast<void>(SetLogLevels("error"));
  struct sigaction action{};
  action.sa_handler = RequestStop;
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  ProgressLine line(options.quiet, request.length);
  Result<CaptureOutcome> outcome =
      Capture(request, [] { return stop_requested != 0; }, [&](const CaptureProgress& p) { line.Show(p); });
  line.End();
  if (!outcome) {
    return ComplainOfCapture(outcome.error().detail, outcome.error().code == Code::kInvalidArgument ? 2 : 1);
  }
  nvml::Recording& recording = outcome->recording;
  recording.made_by = "gpulens " + std::string(Version());
  recording.made_at = UtcNow("%Y-%m-%dT%H:%M:%SZ");
  recording.made_with = MadeWith(options);
  if (!options.keep_identity) nvml::HideIdentity(recording);
  return Write(options, *outcome);
}

CLI::App* AddCapture(CLI::App& app, const char* name, CaptureOptions& options, int& code) {
  CLI::App* capture = app.add_subcommand(name, "Record the answers of this machine's GPUs.");
  capture->add_option("SOURCE", options.source, "Source to record: nvml")->capture_default_str();
  capture->add_option("--for", options.length, "Length of the recording")
      ->type_name("D")
      ->capture_default_str();
  capture->add_option("--every", options.every, "Time between two rounds of readings")
      ->type_name("D")
      ->capture_default_str();
  capture->add_option("-o,--output", options.file, "Output file; - is standard output")->type_name("FILE");
  capture->add_option("--gpu", options.gpus, "Record only these GPUs, by index; they become 0, 1, …")
      ->type_name("N");
  capture->add_option("--library", options.library, "NVML, by name or path; simulated for simulated GPUs")
      ->type_name("L");
  capture->add_flag("--keep-identity", options.keep_identity,
                    "Keep UUIDs, serial numbers and pids unchanged");
  capture->add_flag("-q,--quiet", options.quiet, "Print no progress and no summary");
  capture->footer(kCaptureFooter);
  capture->callback([&options, &code] { code = RunCapture(options); });
  return capture;
}

}  // namespace gpulens
