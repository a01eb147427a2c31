// `gpulens trace`.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/node/node_reader.h"
#include "cli/telemetry/telemetry_command.h"
#include "cli/trace/trace_builder.h"
#include "config/value_parse.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"

namespace gpulens {
namespace {

constexpr const char* kTraceFooter = R"(
  gpulens trace -o node.pftrace                    the last 10 minutes; open it in https://ui.perfetto.dev
  gpulens trace --last 1h -o node.pftrace
  gpulens trace --for 30s -o node.pftrace          from now on; Ctrl-C ends it and keeps what is there
  gpulens trace --last 2m --for 30s -o node.json   Chrome's trace events, by the name of the file
  gpulens trace https://n1:9091 -o n1.pftrace      another machine's agent
  gpulens trace --format csv -o - | head

An agent keeps the last hour from the first reading on. Runs and calls of engines come from the files of
gpulens exp and gpulens telemetry of this machine and, for a URL, only from files that are named.
Exit: 0 written · 1 nothing could be read or written · 2 wrong use · 130 stopped by Ctrl-C, and written)";

constexpr int64_t kPieceMs = 60'000;     // of the past, read at once
constexpr int64_t kLivePieceMs = 1'000;  // between two readings
constexpr int64_t kOverlapMs = 15'000;   // readings that come late
constexpr size_t kMostTraceRuns = 200, kMostRunCurves = 24, kMostRunPoints = 20'000;
constexpr size_t kMostRequests = 100'000;

struct TraceOptions {
  NodeOptions node;
  std::string last, for_time, output, format, most = "1GiB", experiments, telemetry;
  bool all = false, quiet = false;
};

volatile sig_atomic_t trace_stop = 0;

// Where the bytes go: a file next to the wanted one until Keep, or the standard output.
class TraceOutput {
 public:
  explicit TraceOutput(std::string path) : path_(std::move(path)) {}
  ~TraceOutput() {
    if (!part_.empty()) ::unlink(part_.c_str());
  }
  TraceOutput(const TraceOutput&) = delete;
  TraceOutput& operator=(const TraceOutput&) = delete;

  Status Open() {
    if (path_ == "-") return Ok();
    std::string part = path_ + ".XXXXXX";
    file_.reset(::mkostemp(part.data(), O_CLOEXEC));
    if (!file_) return ErrnoStatus("open " + path_, errno);
    part_ = part;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(file_.get(), 0644 & ~mask);
    return Ok();
  }
  Status Write(std::string& bytes) {
    // Names in it come from other programs.
    const bool terminal = !file_ && ::isatty(STDOUT_FILENO) == 1;
    if (terminal) std::erase(bytes, '\r');
    const bool written = terminal ? WriteOut(bytes) : WriteAll(file_ ? file_.get() : STDOUT_FILENO, bytes);
    if (!written) return ErrnoStatus("write " + path_, errno);
    size_ += bytes.size();
    bytes.clear();
    return Ok();
  }
  Status Keep() {
    if (!file_) return Ok();
    if (::fsync(file_.get()) != 0 || ::rename(part_.c_str(), path_.c_str()) != 0)
      return ErrnoStatus("write " + path_, errno);
    part_.clear();
    return Ok();
  }
  uint64_t size() const noexcept { return size_; }

 private:
  const std::string path_;
  std::string part_;  // the file to remove unless it is kept
  UniqueFd file_;
  uint64_t size_ = 0;
};

std::string FormatOf(const TraceOptions& options) {
  if (!options.format.empty()) return options.format;
  if (options.output.ends_with(".json")) return "chrome";
  return options.output.ends_with(".csv") ? "csv" : "perfetto";
}

std::unique_ptr<TimelineWriter> MakeWriter(const std::string& format, const TimelineFacts& facts,
                                           int64_t from_ms) {
  if (format == "chrome") return std::make_unique<ChromeTraceWriter>(facts);
  if (format == "csv") return std::make_unique<CsvTimelineWriter>(facts);
  return std::make_unique<PerfettoWriter>(facts, from_ms * 1'000'000);
}

int64_t LocalMs() { return RealClock().Now().unix_ns / 1'000'000; }

Result<int64_t> Milliseconds(const char* option, const std::string& text) {
  Duration length{};
  if (const ValueCheck wrong = ParseTimeValue(text, length); wrong || length <= Duration{})
    return Status{Code::kInvalidArgument,
                  std::string(option) + " \"" + text + "\": expected a time such as 30s, 10m or 1h"};
  return std::chrono::duration_cast<std::chrono::milliseconds>(length).count();
}

// One trace from begin to end.
class Tracer {
 public:
  Tracer(const TraceOptions& options, NodeReader& node) : options_(options), node_(node) {}

  Result<int> Run();

 private:
  Status Begin();
  Status AddPiece(int64_t from_ms, int64_t to_ms);
  Status AddRuns();
  Status AddRequests();
  // False when it was stopped meanwhile.
  bool WaitUntil(int64_t ms);
  void Report(bool stopped) const;
  int64_t NodeMs() const { return LocalMs() + ahead_ms_; }

  const TraceOptions& options_;
  NodeReader& node_;
  NodeNow now_;
  int64_t ahead_ms_ = 0;  // the clock of the node, by ours
  int64_t from_ms_ = 0, to_ms_ = 0, end_ms_ = 0, most_ = 0, begin_ms_ = 0, events_ms_ = 0;
  std::unique_ptr<TimelineWriter> writer_;
  std::unique_ptr<TraceBuilder> builder_;
  std::vector<std::string> notes_;
};

Status Tracer::Begin() {
  ASSIGN_OR_RETURN(const std::string page, node_.Get("/api/now"));
  ASSIGN_OR_RETURN(now_, ParseNodeNow(page));
  // The last tick is up to an interval old.
  const int64_t ahead = now_.at_ms - LocalMs();
  ahead_ms_ = std::abs(ahead) > 5000 ? ahead : 0;
  int64_t last = 0, live = 0;
  if (!options_.last.empty()) {
    ASSIGN_OR_RETURN(last, Milliseconds("--last", options_.last));
  }
  if (!options_.for_time.empty()) {
    ASSIGN_OR_RETURN(live, Milliseconds("--for", options_.for_time));
  }
  if (last == 0 && live == 0) last = 600'000;
  const int64_t now_ms = NodeMs();
  from_ms_ = now_ms - last;
  end_ms_ = now_ms + live;
  std::string node = now_.node.Text("host.name");
  if (node.empty()) node = "node";
  TimelineFacts facts = {{"node", node},
                         {"simulated", now_.simulated ? "true" : "false"},
                         {"made.by", "gpulens " + std::string(Version())},
                         {"agent.version", now_.version},
                         {"read.from", node_.name()}};
  writer_ = MakeWriter(FormatOf(options_), facts, from_ms_);
  builder_ = std::make_unique<TraceBuilder>(*writer_, node + (now_.simulated ? " (SIMULATED)" : ""), from_ms_,
                                            options_.all);
  return Ok();
}

Status Tracer::AddPiece(int64_t from_ms, int64_t to_ms) {
  const int64_t window = to_ms - from_ms + kOverlapMs;
  ASSIGN_OR_RETURN(const std::string page,
                   node_.Get(NodeTarget("/api/history", {{"end", std::to_string(to_ms)},
                                                         {"window", std::to_string(window) + "ms"}})));
  ASSIGN_OR_RETURN(const NodeHistory history, ParseNodeHistory(page));
  begin_ms_ = history.begin_ms;
  builder_->AddSeries(history.series, to_ms);
  // Events up to now come with the first piece.
  if (to_ms > events_ms_) {
    const int64_t now_ms = NodeMs();
    const int64_t since = events_ms_ == 0 ? from_ms_ : events_ms_ - kOverlapMs;
    const auto events = node_.Get(NodeTarget(
        "/api/events", {{"since", std::to_string(since)}, {"limit", std::to_string(kMostNodeEvents)}}));
    if (events) {
      ASSIGN_OR_RETURN(const std::vector<NodeEvent> list, ParseNodeEvents(*events));
      builder_->AddEvents(list);
      events_ms_ = now_ms;
      if (list.size() == kMostNodeEvents) notes_.push_back("only the newest events are shown");
    } else if (events.error().code != Code::kUnavailable) {
      return events.error();
    }
  }
  builder_->Flush();
  return Ok();
}

// Of this machine unless a file is named: a file here has no runs of another node.
Status Tracer::AddRuns() {
  if (options_.experiments.empty() && node_.kind() == NodeReader::kUrl) return Ok();
  ASSIGN_OR_RETURN(const std::string path, experiments::FindDatabase(options_.experiments));
  auto reader = experiments::RunReader::Open(path, experiments::HereAndNow(), std::chrono::seconds(10));
  if (!reader) {
    if (options_.experiments.empty() && reader.error().code == Code::kUnavailable) return Ok();
    return reader.error();
  }
  ASSIGN_OR_RETURN(const std::vector<experiments::RunRow> rows, reader->List({.limit = kMostTraceRuns}));
  for (const experiments::RunRow& row : rows) {
    if (row.started_ns / 1'000'000 >= to_ms_ || (row.ended_ns && *row.ended_ns / 1'000'000 < from_ms_))
      continue;
    TraceBuilder::Run run;
    run.run = row;
    ASSIGN_OR_RETURN(run.metrics, reader->Metrics(row.id));
    for (const experiments::MetricRow& metric : run.metrics) {
      if (run.points.size() == kMostRunCurves) {
        notes_.push_back("of run " + row.id + " only " + std::to_string(kMostRunCurves) +
                         " metrics are shown");
        break;
      }
      ASSIGN_OR_RETURN(auto points, reader->Curve(row.id, metric.key, kMostRunPoints));
      run.points.emplace_back(metric.key, std::move(points));
    }
    ASSIGN_OR_RETURN(run.artifacts, reader->Artifacts(row.id));
    builder_->AddRun(run, to_ms_);
  }
  return Ok();
}

Status Tracer::AddRequests() {
  if (options_.telemetry.empty() && node_.kind() == NodeReader::kUrl) return Ok();
  ASSIGN_OR_RETURN(const std::string path, FindTelemetry(options_.telemetry));
  if (telemetry::IsServer(path)) {
    notes_.push_back("calls of engines on a server are not shown: name a file with --telemetry");
    return Ok();
  }
  auto database = telemetry::OpenToRead(path);
  if (!database) {
    if (options_.telemetry.empty() && database.error().code == Code::kUnavailable) return Ok();
    return database.error();
  }
  const auto time = [](int64_t ms) {
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
  };
  Query query;
  // Calls have the time of their begin; those that began up to an hour before may reach into the trace.
  query.since = time(from_ms_ - 3'600'000);
  query.until = time(to_ms_);
  query.warmup = true;
  query.limit = kMostRequests;
  size_t count = 0;
  RETURN_IF_ERROR(telemetry::EachRecord(*database, query, [&](const InferenceRecord& record) {
    builder_->AddRequest(record, to_ms_);
    return ++count < kMostRequests;
  }));
  if (count == kMostRequests)
    notes_.push_back("only " + CountText(kMostRequests) + " calls of engines are shown");
  return Ok();
}

bool Tracer::WaitUntil(int64_t ms) {
  for (int64_t left = ms - NodeMs(); left > 0 && trace_stop == 0; left = ms - NodeMs())
    ::poll(nullptr, 0, static_cast<int>(std::min<int64_t>(left, 1000)));
  return trace_stop == 0;
}

Result<int> Tracer::Run() {
  int64_t most = 0;
  if (ParseSizeValue(options_.most, most) || most < 4096)
    return Status{Code::kInvalidArgument,
                  "--max-size \"" + options_.most + "\": expected a size from 4KiB on, such as 1GiB"};
  TraceOutput output(options_.output);
  RETURN_IF_ERROR(output.Open());
  RETURN_IF_ERROR(Begin());
  Status failed = Ok();
  uint64_t failures = 0;
  for (to_ms_ = from_ms_; to_ms_ < end_ms_ && trace_stop == 0;) {
    const bool past = to_ms_ + kPieceMs <= NodeMs();
    const int64_t next =
        std::min(end_ms_, past ? to_ms_ + kPieceMs : std::max(to_ms_ + kLivePieceMs, NodeMs()));
    WaitUntil(next);
    // After Ctrl-C what there is until now is still read.
    const int64_t until = std::min(next, NodeMs());
    if (until <= to_ms_) break;
    failed = AddPiece(to_ms_, until);
    if (!failed) {
      ++failures;
      // The past is there or not; live, the agent may come back.
      if (options_.for_time.empty() || writer_->counts() == 0) return failed;
    }
    to_ms_ = until;
    RETURN_IF_ERROR(output.Write(writer_->bytes()));
    if (output.size() > static_cast<uint64_t>(most)) {
      notes_.push_back("it ends early, at --max-size " + options_.most);
      break;
    }
  }
  if (writer_->counts() == 0 && writer_->slices() == 0 && writer_->marks() == 0)
    return Status{Code::kUnavailable, "nothing is known of this time yet: " + node_.name() +
                                          " keeps the last hour from the first reading on. Try --for 30s"};
  if (failures > 0)
    notes_.push_back(Plural(failures, "reading", "readings") + " failed, the last: " + failed.detail);
  for (const Status& added : {AddRuns(), AddRequests()}) {
    if (!added) notes_.push_back("left out: " + added.detail);
  }
  builder_->Finish(to_ms_);
  RETURN_IF_ERROR(output.Write(writer_->bytes()));
  RETURN_IF_ERROR(output.Keep());
  if (begin_ms_ > from_ms_ + 2000 && !options_.last.empty()) {
    notes_.push_back("the history begins " + CountText((begin_ms_ - from_ms_) / 1000) +
                     " s later than the trace");
  }
  if (!options_.quiet) {
    WriteNote("gpulens trace: " + CountText((to_ms_ - from_ms_) / 1000) + " s of " + node_.name() +
              (now_.simulated ? " (SIMULATED)" : "") + ": " +
              CountText(static_cast<int64_t>(writer_->tracks())) + " tracks, " +
              CountText(static_cast<int64_t>(writer_->counts())) + " values, " +
              CountText(static_cast<int64_t>(writer_->slices())) + " slices, " +
              Plural(writer_->marks(), "event", "events") + ", " + Plural(builder_->gaps(), "gap", "gaps"));
    for (const std::string& note : notes_) WriteNote("  " + note);
    if (options_.output != "-") {
      WriteNote("  " + options_.output + ": " + CountText(static_cast<int64_t>(output.size())) + " bytes" +
                (FormatOf(options_) == "csv" ? "" : ", for https://ui.perfetto.dev"));
    }
  }
  return trace_stop != 0 ? 130 : 0;
}

Result<int> RunTrace(const TraceOptions& options) {
  if (options.output.empty())
    return Status{Code::kInvalidArgument, "no file given: -o node.pftrace, or -o - for the standard output"};
  if (options.output == "-" && ::isatty(STDOUT_FILENO) && FormatOf(options) == "perfetto")
    return Status{Code::kInvalidArgument, "a trace is no text for a terminal: -o FILE"};
  ASSIGN_OR_RETURN(const std::unique_ptr<NodeReader> node, NodeReader::Open(options.node));
  if (!node->why_direct().empty() && !options.quiet)
    WriteNote("gpulens trace: " + node->why_direct() + "; this process reads by itself");
  struct sigaction action{};
  action.sa_handler = [](int) { trace_stop = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends it at once
  for (int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  return Tracer(options, *node).Run();
}

}  // namespace

void AddTrace(CLI::App& app, int& code) {
  auto kept = std::make_shared<TraceOptions>();
  TraceOptions& options = *kept;
  CLI::App* trace = app.add_subcommand("trace", "Write what happened as a timeline for Perfetto.");
  trace->group("Look");
  trace->add_option("URL", options.node.url, "The agent to read; default: the one of this machine");
  AddOption(*trace, "--last", options.last, "Time up to now, at most what the agent keeps (default 10m)",
            "D");
  AddOption(*trace, "--for", options.for_time, "Record from now on for this time", "D");
  AddOption(*trace, "-o,--output", options.output, "The file to write; - is the standard output", "FILE");
  AddOption(*trace, "--format", options.format,
            "Default by the name of the file: .json is chrome, .csv is csv, others are perfetto", "F")
      ->check(CLI::IsMember({"perfetto", "chrome", "csv"}));
  AddOption(*trace, "--max-size", options.most, "End the trace when it is as large as this", "SIZE")
      ->capture_default_str();
  AddOption(*trace, "--experiments", options.experiments, "The file of runs, ~/.gpulens/experiments.db",
            "FILE");
  AddOption(*trace, "--telemetry", options.telemetry, "The file of calls, ~/.gpulens/telemetry.db", "FILE");
  AddNodeOptions(*trace, options.node);
  trace->add_flag("--all", options.all, "Also draw what gpulens measures of itself");
  trace->add_flag("-q,--quiet", options.quiet, "Print nothing but errors");
  trace->footer(kTraceFooter);
  trace->callback([kept, &code] {
    static_cast<void>(SetLogLevels("error"));
    code = ExitCode("trace", RunTrace(*kept));
  });
}

}  // namespace gpulens
