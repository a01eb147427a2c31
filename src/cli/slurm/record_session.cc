#include "cli/slurm/record_commands.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/text.h"
#include "base/workers.h"
#include "cli/collect/older_options.h"
#include "cli/common/command.h"
#include "config/value_parse.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/delivery/delivery.h"

namespace gpulens {
namespace {

constexpr Duration kFlushTimeout = std::chrono::seconds(10);

// Takes what it is given; for a command that prints by itself.
class NoSink final : public Sink {
 public:
  Status Write(const Snapshot&) override { return Ok(); }
};

// Older tools keep jobs and nodes in files of their own: -o job_file_path, -o node_file_path.
struct OwnFile {
  std::string_view option, record;
};
constexpr OwnFile kOwnFiles[] = {{"job_file_path", "slurm.job"}, {"node_file_path", "slurm.node"}};

// Hands some records to sinks of their own, and the rest to the first.
class ByRecord final : public Sink {
 public:
  explicit ByRecord(std::unique_ptr<Sink> rest) : rest_(std::move(rest)) {}
  void Add(std::string_view record, std::unique_ptr<Sink> sink) { own_.emplace(record, std::move(sink)); }

  Status Write(const Snapshot& snapshot) override { return rest_->Write(snapshot); }
  Status Write(const Events& events) override {
    std::map<Sink*, Ref<Events>> parts;
    for (const Event& event : events.list) {
      auto own = own_.find(event.name);
      Ref<Events>& part = parts[own == own_.end() ? rest_.get() : own->second.get()];
      if (!part) part = MakeRef<Events>();
      part->resource = events.resource;
      part->list.push_back(event);
    }
    for (const auto& [sink, part] : parts) RETURN_IF_ERROR(sink->Write(*part));
    return Ok();
  }
  Status Flush(Instant deadline) override {
    Status status = rest_->Flush(deadline);
    for (const auto& [record, sink] : own_) {
      const Status own = sink->Flush(deadline);
      if (status) status = own;
    }
    return status;
  }

 private:
  const std::unique_ptr<Sink> rest_;
  std::map<std::string, std::unique_ptr<Sink>, std::less<>> own_;
};

Result<Duration> TimeOf(const char* option, const std::string& text) {
  ASSIGN_OR_RETURN(Duration span, SlurmSpan(option, text));
  if (span.count() <= 0) return Status{Code::kInvalidArgument, std::string(option) + ": must be more than 0"};
  return span;
}

class RecordSession {
 public:
  explicit RecordSession(const RecordSessionOptions& options)
      : options_(options), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  int Run(RecordCommand command) {
    Status made = Prepare();
    if (!made) return Complain(made, 2);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    for (int signal : {SIGINT, SIGTERM}) {
      static_cast<void>(io_.OnSignal(signal, [this] {
        const uint64_t one = 1;
        static_cast<void>(!::write(stop_.get(), &one, sizeof one));
      }));
    }
    io_.Start();
    const int code = Turns(command);
    io_.Stop();
    return code;
  }

 private:
  int Complain(const Status& why, int code) const { return FailCommand(options_.command, why.detail, code); }

  Status Prepare() {
    const char* cluster = std::getenv("L9GPU_CLUSTER_NAME");
    cluster_ = !options_.cluster.empty() ? options_.cluster : cluster ? cluster : "";
    ASSIGN_OR_RETURN(interval_, TimeOf("--interval", options_.interval));
    ASSIGN_OR_RETURN(timeout_, TimeOf("--timeout", options_.timeout));
    const std::string name = options_.sink == "otel" ? "otlp" : options_.sink;
    const SinkSpec* spec = FindSink(name);
    if (!spec) {
      std::string list;
      for (const SinkSpec* one : AllSinks()) list += " " + std::string(one->name);
      return {Code::kInvalidArgument, "no sink \"" + name + "\". There are:" + list};
    }
    ASSIGN_OR_RETURN(std::vector<FlagValue> flags, Flags(*spec));
    schema_ = MakeSchema();
    LoadOutcome loaded = LoadConfig(*schema_, FindConfigFile(options_.config_file), flags);
    if (name == "file" && loaded.config.Group("sinks").Group("file").Text("path").empty()) {
      flags.push_back({"--sink", "sinks.file.path",
                       own_files_.empty() ? std::string(kMetricsFile) : own_files_.begin()->second});
      loaded = LoadConfig(*schema_, FindConfigFile(options_.config_file), flags);
    }
    if (const std::string report = loaded.Errors(); !report.empty())
      ::dprintf(STDERR_FILENO, "%s", report.c_str());
    if (!loaded.ok()) return {Code::kInvalidArgument, "the configuration is invalid"};
    resource_ = MakeResource(loaded.config, {.demo = false, .host_name = HostName()});
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    if (!options_.needs_sink) {
      sink_ = std::make_unique<NoSink>();
      return Ok();
    }
    auto made = MakeStandaloneSink(*spec, SinkConfig(loaded.config, spec->name), env_);
    if (!made) return made.error();
    sink_ = std::move(*made);
    return own_files_.empty() ? Ok() : DivideFiles(*spec, SinkConfig(loaded.config, spec->name));
  }

  Status DivideFiles(const SinkSpec& spec, Config config) {
    auto divided = std::make_unique<ByRecord>(std::move(sink_));
    const std::string rest = config.Text("path");
    for (const auto& [record, path] : own_files_) {
      if (path == rest) continue;
      config.Set("path", path, config.origin("path"));
      ASSIGN_OR_RETURN(auto sink, MakeStandaloneSink(spec, config, env_));
      divided->Add(record, std::move(sink));
    }
    sink_ = std::move(divided);
    return Ok();
  }

  // Of an option that names the file of one kind of record.
  bool TakeOwnFile(const SinkSpec& spec, const std::string& given, const std::string& value) {
    auto file = std::ranges::find(kOwnFiles, given, &OwnFile::option);
    if (spec.name != "file" || file == std::end(kOwnFiles)) return false;
    own_files_[std::string(file->record)] = value;
    return true;
  }

  Result<std::vector<FlagValue>> Flags(const SinkSpec& spec) {
    std::vector<FlagValue> flags;
    const std::string sink = "sinks." + std::string(spec.name) + ".";
    if (spec.name == "stdout") flags.push_back({"--sink", sink + "end_when_closed", "true"});
    if (!cluster_.empty()) flags.push_back({"--cluster", "resource.cluster", cluster_});
    OlderResource resource;
    for (const auto& [given, value] : options_.options) {
      ASSIGN_OR_RETURN(const bool is_resource, resource.Take(given, value));
      if (is_resource || TakeOwnFile(spec, given, value)) continue;
      const SinkOption option = SinkOptionOf(spec, given, value);
      if (!option.known) {
        return Status{Code::kInvalidArgument, std::string(spec.name) + " has no option \"" + option.key +
                                                  "\". List them: gpulens config schema"};
      }
      flags.push_back({"-o " + option.key, sink + option.key, option.value});
    }
    resource.AddTo(flags);
    return flags;
  }

  int Turns(RecordCommand command) {
    slurm::Programs::Options programs;
    programs.folder = options_.programs;
    programs.timeout = timeout_;
    programs.stop_fd = stop_.get();
    const slurm::Programs slurm(programs, *env_.clock);
    RecordSender sender(*sink_, resource_);
    int code = 0;
    for (;;) {
      RecordRun run{slurm, sender, *env_.clock, {}, options_.record, stop_.get()};
      run.context.cluster = cluster_;
      run.context.derive_cluster = options_.derive_cluster;
      const Instant begun = env_.clock->Now();
      Status status = command(run);
      Status sent = sender.Send();
      if (status) status = sent;
      if (run.bad_lines > 0) {
        FailCommand(options_.command,
                    std::to_string(run.bad_lines) + " lines belong to no record and were left out", 0);
      }
      code = status ? 0 : status.code == Code::kInvalidArgument ? 2 : 1;
      // A signal while programs run is no failure of theirs.
      if (!status && !Stopped(Duration(0))) Complain(status, code);
      // A sink that failed takes nothing more; wrong use does not get better.
      if (options_.once || code == 2 || !sent || Stopped(begun + interval_ - env_.clock->Now())) break;
    }
    Status flushed = sink_->Flush(env_.clock->Now() + kFlushTimeout);
    return flushed ? code : Complain(flushed, 1);
  }

  // Whether a signal came, within the span.
  bool Stopped(Duration span) const {
    struct pollfd fd = {stop_.get(), POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    return ::poll(&fd, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 7 * 86'400'000))) > 0;
  }

  const RecordSessionOptions& options_;
  std::string cluster_;
  Duration interval_{}, timeout_{};
  UniqueFd stop_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  Env env_;
  std::unique_ptr<Schema> schema_;
  AttributeSet resource_;
  std::unique_ptr<Sink> sink_;
  std::map<std::string, std::string> own_files_;  // by record
};

}  // namespace

int RunRecordSession(RecordCommand command, const RecordSessionOptions& options) {
  return RecordSession(options).Run(command);
}

}  // namespace gpulens
