#include "cli/slurm/slurm_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/slurm/record_session.h"
#include "cli/table/text_table.h"

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

// What was typed behind a command.
struct Typed {
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

int Complain(std::string_view name, const std::string& sentence) {
  WriteNote("gpulens " + std::string(name) + ": " + sentence);
  return 2;
}

int Run(const SlurmCommand& spec, RecordCommand command, Typed typed) {
  RecordSessionOptions& session = typed.session;
  session.command = spec.name;
  session.needs_sink = spec.name != kStrict;
  session.once = session.once || std::string_view(spec.every).empty();
  if (session.interval.empty()) session.interval = typed.push_interval;
  if (session.interval.empty()) session.interval = *spec.every ? spec.every : "1h";
  for (const std::string& pair : typed.pairs) {
    const size_t equals = pair.find('=');
    if (equals == pair.npos) return Complain(spec.name, "-o " + pair + ": expected KEY=VALUE");
    session.options.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  // What is printed is data; the log says only what went wrong.
  Status levels = SetLogLevels(typed.log_level.empty() ? "error" : OlderLogLevels(typed.log_level));
  if (!levels) return Complain(spec.name, "--log-level: " + levels.detail);
  if (command) return RunRecordSession(command, session);
  // Numbers go the way of every collector.
  CollectOptions collect;
  collect.target = "slurm";
  collect.sink = session.sink;
  collect.config_file = session.config_file;
  collect.once = session.once;
  collect.strict = typed.strict;
  collect.interval = session.interval;
  collect.cluster = session.cluster;
  collect.options = session.options;
  const bool plain = collect.interval.find_first_not_of("0123456789.") == std::string::npos;
  if (plain) collect.interval += "s";
  if (!session.programs.empty()) collect.options.emplace_back("programs", session.programs);
  return RunCollect(collect);
}

void AddCommon(CLI::App& command, const SlurmCommand& spec, const std::shared_ptr<Typed>& typed) {
  RecordSessionOptions& session = typed->session;
  if (*spec.every) {
    command.add_flag("--once", session.once, "One turn");
    command.add_option("--interval", session.interval, std::string("Interval, ") + spec.every)
        ->type_name("D");
    command.add_option("--push-interval", typed->push_interval, "Same as --interval, which takes precedence")
        ->type_name("D");
  }
  if (spec.name != kStrict) {
    const std::string lines =
        spec.name == kMonitor ? "a JSON array each time" : "a line of JSON for each record";
    command
        .add_option("--sink", session.sink,
                    "Sink: stdout (" + lines + "), file (metrics.jsonl without -o path=FILE), otlp, …")
        ->type_name("S")
        ->capture_default_str();
    command.add_option("-o,--sink-opt,--sink-opts", typed->pairs, "An option of the sink; repeatable")
        ->type_name("KEY=VALUE");
    command.add_option("--cluster", session.cluster, "Name of the cluster, added to every series");
    command.add_flag("--heterogeneous-cluster-v1", session.derive_cluster,
                     "slurm.cluster.derived: the cluster with the partition behind a dot");
  }
  command.add_option("--config", session.config_file, "Configuration file (YAML)")->type_name("FILE");
  command.add_option("--log-level", typed->log_level, "error, warn, info or debug")->type_name("L");
  if (spec.name != kPublish && spec.name != kStorage)
    command.add_option("--programs", session.programs, "The folder of Slurm's programs; default: PATH")
        ->type_name("DIR");
  for (const IgnoredOption& ignored : kIgnoredByAll) {
    auto say = [&spec, &ignored] {
      Complain(spec.name, std::string(ignored.option) + " has no effect here: " + ignored.why);
    };
    constexpr const char* kHelp = "Accepted, without effect";
    CLI::Option* option = ignored.flag ? command.add_flag_callback(ignored.option, say, kHelp)
                                       : command.add_option_function<std::string>(
                                             ignored.option, [say](const std::string&) { say(); }, kHelp);
    option->group("Options without effect");
  }
}

void AddBounds(CLI::App& command, RecordOptions& record, const char* start) {
  command.add_option("-S,--start", record.start, std::string("Start time, UTC; ") + start)->type_name("T");
  command.add_option("-E,--end", record.end, "End time, UTC; now")->type_name("T");
  command.add_option("--sacct-timeout", record.timeout, "Timeout of one sacct")
      ->type_name("D")
      ->capture_default_str();
}

void AddOwn(CLI::App& command, const SlurmCommand& spec, Typed& typed) {
  RecordOptions& record = typed.session.record;
  if (spec.name == kPublish) {
    command.add_option("FILE", record.file, "Output of sacct -P; default: standard input");
    command.add_option("--delimiter", record.delimiter,
                       "Separator of values; default: as in the header, |# or |");
  }
  if (spec.name == kStrict) AddBounds(command, record, "1 hour ago");
  if (spec.name == kMonitor) command.add_flag("--strict", typed.strict, "Exit 1 when a reading is doubtful");
  if (spec.name == kStorage) {
    command
        .add_option("--mounts", record.mounts,
                    "Mounts to read, by path: CLUSTER=PATTERN, or PATTERN; repeatable")
        ->type_name("P");
    command.add_option("--pure-file", record.pure_file, "Lines of JSON: user, used, sample_time, directory")
        ->type_name("FILE");
  }
}

// The two ways of sacct_backfill are commands below it.
void AddBackfill(CLI::App& command, const SlurmCommand& spec, const std::shared_ptr<Typed>& typed,
                 int& code) {
  RecordOptions& record = typed->session.record;
  command.require_subcommand(1);
  auto add = [&](const char* name, const char* help, RecordCommand run) {
    CLI::App* way = command.add_subcommand(name, help);
    AddCommon(*way, spec, typed);
    way->add_option("--sleep", record.pause, "Pause between two parts")
        ->type_name("D")
        ->capture_default_str();
    for (const IgnoredOption& ignored : kIgnoredBackfill) {
      way->add_option_function<std::string>(
             ignored.option,
             [&spec, &ignored](const std::string&) {
               Complain(spec.name, std::string(ignored.option) + " has no effect here: " + ignored.why);
             },
             "Accepted, without effect")
          ->group("Options without effect");
    }
    way->callback([&spec, &code, typed, run] { code = Run(spec, run, *typed); });
    return way;
  };
  CLI::App* fresh = add("new", "From --start to --end, in steps.", &BackfillNew);
  AddBounds(*fresh, record, "3 hours ago");
  fresh->add_option("--step", record.step, "Length of one part")->type_name("D")->capture_default_str();
  CLI::App* listed =
      add("from_file", "The parts listed in a file, START,END on each line.", &BackfillFromFile);
  listed->add_option("FILE", record.file, "Lines START,END, UTC")->required();
  listed->add_option("--sacct-timeout", record.timeout, "Timeout of one sacct")->type_name("D");
}

}  // namespace

void AddSlurm(CLI::App& app, int& code) {
  for (const SlurmCommand& spec : kSlurmCommands) {
    CLI::App* command = app.add_subcommand(std::string(spec.name), std::string(spec.help));
    command->group("Slurm");
    auto typed = std::make_shared<Typed>();
    command->footer(
        "\nFields: docs/slurm.md.\nExit: 0 all was sent · 1 something could not be read or sent · 2 wrong "
        "use");
    if (spec.name == kBackfill) {
      AddBackfill(*command, spec, typed, code);
      continue;
    }
    AddCommon(*command, spec, typed);
    AddOwn(*command, spec, *typed);
    command->callback([&spec, &code, typed] { code = Run(spec, spec.command, *typed); });
  }
}

}  // namespace gpulens
