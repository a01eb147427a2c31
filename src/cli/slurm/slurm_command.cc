#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/slurm/record_commands.h"
#include "config/value_parse.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "pipeline/delivery/delivery.h"

namespace gpulens {

namespace {

// Arguments of a command.
struct SlurmArguments {
  std::string_view command;  // its name, for messages
  std::string sink = "stdout";
  std::string config_file;
  std::string cluster;                                       // empty: $L9GPU_CLUSTER_NAME
  std::string interval;                                      // text
  std::string programs;                                      // the folder of Slurm's programs; empty: PATH
  std::string timeout = "120s";                              // of one program
  std::vector<std::pair<std::string, std::string>> options;  // -o, of the sink
  std::vector<std::string> pairs;                            // -o, not split yet
  std::string log_level;
  std::string push_interval;  // older name of `interval`, which takes precedence
  RecordOptions record;
  bool derive_cluster = false, once = false, needs_sink = true;
  bool strict = false;  // of slurm_monitor
};

constexpr Duration kFlushTimeout = std::chrono::seconds(10);

// Discards everything, for a command that prints by itself.
class DiscardingSink final : public Sink {
 public:
  Status Write(const Snapshot&) override { return Ok(); }
};

// Older tools keep jobs and nodes in files of their own: -o job_file_path, -o node_file_path.
struct OwnFile {
  std::string_view option, record;
};
constexpr OwnFile kOwnFiles[] = {{"job_file_path", "slurm.job"}, {"node_file_path", "slurm.node"}};

// Passes some records to sinks of their own, and the rest to the first.
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

// Runs a command once, or at an interval until a signal, and sends its records to a sink.
class RecordSession {
 public:
  explicit RecordSession(const SlurmArguments& options)
      : options_(options), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Returns the exit code: 0 all was sent, 1 a failure, 2 wrong use.
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
      sink_ = std::make_unique<DiscardingSink>();
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

  // Takes an option that names the file of one kind of record. False for other options.
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
    slurm::SlurmPrograms::Options programs;
    programs.folder = options_.programs;
    programs.timeout = timeout_;
    programs.stop_fd = stop_.get();
    const slurm::SlurmPrograms slurm(programs, *env_.clock);
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
      // Programs that a signal ended did not fail.
      if (!status && !StoppedWithin(stop_.get(), Duration(0))) Complain(status, code);
      // A failed sink stays failed, and so does wrong use.
      if (options_.once || code == 2 || !sent ||
          StoppedWithin(stop_.get(), begun + interval_ - env_.clock->Now()))
        break;
    }
    Status flushed = sink_->Flush(env_.clock->Now() + kFlushTimeout);
    return flushed ? code : Complain(flushed, 1);
  }

  const SlurmArguments& options_;
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

struct SlurmCommand {
  std::string_view name, help;
  const char* every;      // empty: it runs once
  RecordCommand command;  // null: runs in another way
};

constexpr std::string_view kMonitor = "slurm_monitor", kBackfill = "sacct_backfill",
                           kPublish = "sacct_publish", kStrict = "fsacct", kStorage = "storage";

constexpr SlurmCommand kSlurmCommands[] = {
    {"slurm_monitor", "Nodes, CPUs, GPUs, jobs, users and the scheduler of a Slurm cluster, as metrics.",
     "300s", nullptr},
    {"slurm_job_monitor", "Every node and every job of the queue, as records.", "60s", &SendNodesAndJobs},
    {"sacct_running", "The accounting's records of jobs that run.", "3600s", &SendRunningJobs},
    {"sacct_publish", "Output of sacct, from a file or standard input, as records.", "", &PublishAccounting},
    {"sacct_backfill", "The accounting's records of past time, part by part.", "3600s", nullptr},
    {"fsacct", "Prints sacct's rows of jobs and steps that ended within the bounds.", "", &PrintAccounting},
    {"sacctmgr_qos", "Qualities of service with their limits, as records.", "86400s", &SendQos},
    {"sacctmgr_user", "Users with their accounts, as records.", "86400s", &SendUsers},
    {"scontrol", "Partitions with their limits and weights, as records.", "86400s", &SendPartitions},
    {"scontrol_config", "The controller's configuration, as a record.", "86400s", &SendConfiguration},
    {"sprio", "Components of the priorities of waiting jobs, as records.", "120s", &SendPriorities},
    {"sshare", "Shares and use of accounts and users, as records.", "300s", &SendShares},
    {"storage", "Use of file systems, in total and by user, as records.", "86400s", &SendStorage},
};

// Options of the l9gpu project that have no effect here.
constexpr IgnoredOption kIgnoredByAll[] = {
    {"--log-folder", false, "the log goes to standard error"},
    {"--stdout", true, "the log goes to standard error, data to --sink"},
    {"--retries", false, "network sinks have a queue and retry"},
    {"--chunk-size", false, "sinks split what they send by themselves"},
};
constexpr IgnoredOption kIgnoredBackfill[] = {
    {"--publish-timeout", false, "records are sent to the sink directly, without starting a program"},
    {"--concurrently", false, "one sacct at a time, so that the accounting is not loaded"},
};

int Run(const SlurmCommand& spec, RecordCommand command, SlurmArguments arguments) {
  arguments.command = spec.name;
  arguments.needs_sink = spec.name != kStrict;
  arguments.once = arguments.once || std::string_view(spec.every).empty();
  if (arguments.interval.empty()) arguments.interval = arguments.push_interval;
  if (arguments.interval.empty()) arguments.interval = *spec.every ? spec.every : "1h";
  auto options = SplitPairs(arguments.pairs);
  if (!options) return FailCommand(spec.name, options.error());
  arguments.options = *std::move(options);
  // The output is data: log only errors.
  Status levels = SetLogLevels(arguments.log_level.empty() ? "error" : OlderLogLevels(arguments.log_level));
  if (!levels) return FailCommand(spec.name, "--log-level: " + levels.detail, 2);
  if (command) return RecordSession(arguments).Run(command);
  // Metrics are read by the collector.
  CollectOptions collect;
  collect.target = "slurm";
  collect.sink = arguments.sink;
  collect.config_file = arguments.config_file;
  collect.once = arguments.once;
  collect.strict = arguments.strict;
  collect.interval = arguments.interval;
  collect.cluster = arguments.cluster;
  collect.options = arguments.options;
  const bool plain = collect.interval.find_first_not_of("0123456789.") == std::string::npos;
  if (plain) collect.interval += "s";
  if (!arguments.programs.empty()) collect.options.emplace_back("programs", arguments.programs);
  return RunCollect(collect);
}

void AddCommon(CLI::App& command, const SlurmCommand& spec,
               const std::shared_ptr<SlurmArguments>& arguments) {
  if (*spec.every) {
    command.add_flag("--once", arguments->once, "One turn");
    AddOption(command, "--interval", arguments->interval, std::string("Interval, ") + spec.every, "D");
    AddOption(command, "--push-interval", arguments->push_interval,
              "Same as --interval, which takes precedence", "D");
  }
  if (spec.name != kStrict) {
    const std::string lines =
        spec.name == kMonitor ? "a JSON array each time" : "a line of JSON for each record";
    AddOption(command, "--sink", arguments->sink,
              "Sink: stdout (" + lines + "), file (metrics.jsonl without -o path=FILE), otlp, …", "S")
        ->capture_default_str();
    AddOption(command, "-o,--sink-opt,--sink-opts", arguments->pairs, "An option of the sink; repeatable",
              "KEY=VALUE");
    command.add_option("--cluster", arguments->cluster, "Name of the cluster, added to every series");
    command.add_flag("--heterogeneous-cluster-v1", arguments->derive_cluster,
                     "slurm.cluster.derived: the cluster with the partition behind a dot");
  }
  AddConfigOption(command, arguments->config_file);
  AddOption(command, "--log-level", arguments->log_level, "error, warn, info or debug", "L");
  if (spec.name != kPublish && spec.name != kStorage)
    AddOption(command, "--programs", arguments->programs, "The folder of Slurm's programs; default: PATH",
              "DIR");
  AddIgnoredOptions(command, spec.name, kIgnoredByAll);
}

void AddBounds(CLI::App& command, RecordOptions& record, const char* start) {
  AddOption(command, "-S,--start", record.start, std::string("Start time, UTC; ") + start, "T");
  AddOption(command, "-E,--end", record.end, "End time, UTC; now", "T");
  AddOption(command, "--sacct-timeout", record.timeout, "Timeout of one sacct", "D")->capture_default_str();
}

void AddOwn(CLI::App& command, const SlurmCommand& spec, SlurmArguments& arguments) {
  RecordOptions& record = arguments.record;
  if (spec.name == kPublish) {
    command.add_option("FILE", record.file, "Output of sacct -P; default: standard input");
    command.add_option("--delimiter", record.delimiter,
                       "Separator of values; default: as in the header, |# or |");
  }
  if (spec.name == kStrict) AddBounds(command, record, "1 hour ago");
  if (spec.name == kMonitor)
    command.add_flag("--strict", arguments.strict, "Exit 1 when a reading is doubtful");
  if (spec.name == kStorage) {
    AddOption(command, "--mounts", record.mounts,
              "Mounts to read, by path: CLUSTER=PATTERN, or PATTERN; repeatable", "P");
    AddOption(command, "--pure-file", record.pure_file, "Lines of JSON: user, used, sample_time, directory",
              "FILE");
  }
}

// Adds the two subcommands of sacct_backfill.
void AddBackfill(CLI::App& command, const SlurmCommand& spec,
                 const std::shared_ptr<SlurmArguments>& arguments, int& code) {
  RecordOptions& record = arguments->record;
  command.require_subcommand(1);
  auto add = [&](const char* name, const char* help, RecordCommand run) {
    CLI::App* way = command.add_subcommand(name, help);
    AddCommon(*way, spec, arguments);
    AddOption(*way, "--sleep", record.pause, "Pause between two parts", "D")->capture_default_str();
    AddIgnoredOptions(*way, spec.name, kIgnoredBackfill);
    way->callback([&spec, &code, arguments, run] { code = Run(spec, run, *arguments); });
    return way;
  };
  CLI::App* fresh = add("new", "From --start to --end, in steps.", &BackfillNew);
  AddBounds(*fresh, record, "3 hours ago");
  AddOption(*fresh, "--step", record.step, "Length of one part", "D")->capture_default_str();
  CLI::App* listed =
      add("from_file", "The parts listed in a file, START,END on each line.", &BackfillFromFile);
  listed->add_option("FILE", record.file, "Lines START,END, UTC")->required();
  AddOption(*listed, "--sacct-timeout", record.timeout, "Timeout of one sacct", "D");
}

}  // namespace

void AddSlurm(CLI::App& app, int& code) {
  for (const SlurmCommand& spec : kSlurmCommands) {
    CLI::App* command = app.add_subcommand(std::string(spec.name), std::string(spec.help));
    command->group("Slurm");
    auto arguments = std::make_shared<SlurmArguments>();
    command->footer(
        "\nFields: docs/slurm.md.\nExit: 0 all was sent · 1 something could not be read or sent · 2 wrong "
        "use");
    if (spec.name == kBackfill) {
      AddBackfill(*command, spec, arguments, code);
      continue;
    }
    AddCommon(*command, spec, arguments);
    AddOwn(*command, spec, *arguments);
    command->callback([&spec, &code, arguments] { code = Run(spec, spec.command, *arguments); });
  }
}

}  // namespace gpulens
