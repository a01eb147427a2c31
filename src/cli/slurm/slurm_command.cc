#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/common/command.h"
#include "cli/common/text_table.h"
#include "cli/help/help.h"
#include "cli/slurm/record_commands.h"

namespace gpulens {
namespace {

struct SlurmCommand {
  std::string_view name, help;
  const char* every;      // empty: it runs once
  RecordCommand command;  // null: another way
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

// What was arguments behind a command.
struct SlurmArguments {
  RecordSessionOptions session;
  std::vector<std::string> pairs;  // -o
  std::string log_level;
  std::string push_interval;  // another word for session.interval, which is stronger
  bool strict = false;
};

// Options of that project without a meaning here.
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

int Complain(std::string_view name, const std::string& sentence) { return FailCommand(name, sentence, 2); }

int Run(const SlurmCommand& spec, RecordCommand command, SlurmArguments arguments) {
  RecordSessionOptions& session = arguments.session;
  session.command = spec.name;
  session.needs_sink = spec.name != kStrict;
  session.once = session.once || std::string_view(spec.every).empty();
  if (session.interval.empty()) session.interval = arguments.push_interval;
  if (session.interval.empty()) session.interval = *spec.every ? spec.every : "1h";
  for (const std::string& pair : arguments.pairs) {
    const size_t equals = pair.find('=');
    if (equals == pair.npos) return Complain(spec.name, "-o " + pair + ": expected KEY=VALUE");
    session.options.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  // The output is data: log only errors.
  Status levels = SetLogLevels(arguments.log_level.empty() ? "error" : OlderLogLevels(arguments.log_level));
  if (!levels) return Complain(spec.name, "--log-level: " + levels.detail);
  if (command) return RunRecordSession(command, session);
  // Numbers go the way of every collector.
  CollectOptions collect;
  collect.target = "slurm";
  collect.sink = session.sink;
  collect.config_file = session.config_file;
  collect.once = session.once;
  collect.strict = arguments.strict;
  collect.interval = session.interval;
  collect.cluster = session.cluster;
  collect.options = session.options;
  const bool plain = collect.interval.find_first_not_of("0123456789.") == std::string::npos;
  if (plain) collect.interval += "s";
  if (!session.programs.empty()) collect.options.emplace_back("programs", session.programs);
  return RunCollect(collect);
}

void AddCommon(CLI::App& command, const SlurmCommand& spec,
               const std::shared_ptr<SlurmArguments>& arguments) {
  RecordSessionOptions& session = arguments->session;
  if (*spec.every) {
    command.add_flag("--once", session.once, "One turn");
    AddOption(command, "--interval", session.interval, std::string("Interval, ") + spec.every, "D");
    AddOption(command, "--push-interval", arguments->push_interval,
              "Same as --interval, which takes precedence", "D");
  }
  if (spec.name != kStrict) {
    const std::string lines =
        spec.name == kMonitor ? "a JSON array each time" : "a line of JSON for each record";
    AddOption(command, "--sink", session.sink,
              "Sink: stdout (" + lines + "), file (metrics.jsonl without -o path=FILE), otlp, …", "S")
        ->capture_default_str();
    AddOption(command, "-o,--sink-opt,--sink-opts", arguments->pairs, "An option of the sink; repeatable",
              "KEY=VALUE");
    command.add_option("--cluster", session.cluster, "Name of the cluster, added to every series");
    command.add_flag("--heterogeneous-cluster-v1", session.derive_cluster,
                     "slurm.cluster.derived: the cluster with the partition behind a dot");
  }
  AddConfigOption(command, session.config_file);
  AddOption(command, "--log-level", arguments->log_level, "error, warn, info or debug", "L");
  if (spec.name != kPublish && spec.name != kStorage)
    AddOption(command, "--programs", session.programs, "The folder of Slurm's programs; default: PATH",
              "DIR");
  AddIgnoredOptions(command, spec.name, kIgnoredByAll);
}

void AddBounds(CLI::App& command, RecordOptions& record, const char* start) {
  AddOption(command, "-S,--start", record.start, std::string("Start time, UTC; ") + start, "T");
  AddOption(command, "-E,--end", record.end, "End time, UTC; now", "T");
  AddOption(command, "--sacct-timeout", record.timeout, "Timeout of one sacct", "D")->capture_default_str();
}

void AddOwn(CLI::App& command, const SlurmCommand& spec, SlurmArguments& arguments) {
  RecordOptions& record = arguments.session.record;
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

// The two ways of sacct_backfill are commands below it.
void AddBackfill(CLI::App& command, const SlurmCommand& spec,
                 const std::shared_ptr<SlurmArguments>& arguments, int& code) {
  RecordOptions& record = arguments->session.record;
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
