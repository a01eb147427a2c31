#include "agent/cli/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "agent/cli/bench/bench_command.h"
#include "agent/cli/capture/capture_command.h"
#include "agent/cli/check_command.h"
#include "agent/cli/cli_texts.h"
#include "agent/cli/collect/aliases.h"
#include "agent/cli/collect/collect_command.h"
#include "agent/cli/collect/older_options.h"
#include "agent/cli/compare/compare_command.h"
#include "agent/cli/config_command.h"
#include "agent/cli/doctor_command.h"
#include "agent/cli/driver_command.h"
#include "agent/cli/driver_release.h"
#include "agent/cli/engines/engines_command.h"
#include "agent/cli/events/events_command.h"
#include "agent/cli/exp/exp_command.h"
#include "agent/cli/fake/ask_agent.h"
#include "agent/cli/fake/fake_command.h"
#include "agent/cli/metrics_command.h"
#include "agent/cli/queue/queue_command.h"
#include "agent/cli/run/log_command.h"
#include "agent/cli/run/run_command.h"
#include "agent/cli/slurm/slurm_command.h"
#include "agent/cli/telemetry/telemetry_command.h"
#include "agent/plugin_tables.h"
#include "agent/run/agent.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "dialects/dialect.h"

namespace gpulens {
namespace {

constexpr std::string_view kCommands[] = {
    "agent", "bench", "capture", "check", "collect", "config", "doctor", "driver", "engines",   "events",
    "gpu",   "exp",   "fake",    "log",   "metrics", "query",  "queue",  "run",    "telemetry", "version"};

std::vector<std::string_view> CommandNames() {
  std::vector<std::string_view> names(std::begin(kCommands), std::end(kCommands));
  for (std::string_view alias : AliasNames()) names.push_back(alias);
  for (std::string_view command : SlurmCommandNames()) names.push_back(command);
  return names;
}

std::string Help() {
  std::string text = kHelp;
  std::vector<std::string_view> aliases = WorkingAliasNames();
  if (aliases.empty()) return text;
  size_t at = text.rfind("--help in every");
  std::string line = "L9GPU    ";
  for (std::string_view alias : aliases)
    line += (alias == aliases.front() ? " " : " · ") + std::string(alias);
  line += "\nSLURM    ";
  bool first = true;
  for (std::string_view command : SlurmCommandNames())
    line += (std::exchange(first, false) ? " " : " · ") + std::string(command);
  return text.insert(at, line + "\n");
}

// A word that is no command gets the right one.
int NoCommand(std::string_view word) {
  if (std::string instead = InsteadOfCommand(word); !instead.empty()) {
    ::dprintf(STDERR_FILENO, "gpulens: %s\n", instead.c_str());
    return 2;
  }
  std::vector<std::string_view> names = CommandNames();
  std::string_view nearest = NearestWord(word, names);
  std::string text = "gpulens: no command \"";
  AppendPrintable(text, word);
  text += "\".";
  if (!nearest.empty()) text += " Did you mean " + std::string(nearest) + "?";
  ::dprintf(STDERR_FILENO, "%s   All of them: gpulens --help\n", text.c_str());
  return 2;
}

// The whole command line as values. Each command sets `code` when it has run.
struct CommandLine {
  AgentOptions agent;
  std::string http, websocket, interval, log_level, metrics_port, websocket_port, push_ms;
  CollectOptions collect;
  std::vector<std::string> pairs;
  DoctorOptions doctor;
  CompareOptions compare;
  MetricsOptions metrics;
  EventsOptions events;
  std::string explain, clear_gpu, clear_socket, config_file;
  CheckOptions check;
  CaptureOptions capture;
  EnginesOptions engines;
  ExpOptions exp;
  RunCommandOptions run;
  LogCommandOptions log;
  TelemetryOptions telemetry;
  DriverOrder driver;
  bool runs_agent = false;
  bool schema_json = false, version_json = false, list = false;
  int code = 0;
};

void AddAgent(CLI::App& app, CommandLine& line) {
  CLI::App* agent = app.add_subcommand("agent", "Collect everything that is here and serve it.");
  agent->add_option("--config", line.agent.config_file, "Configuration file (YAML)")->type_name("FILE");
  agent->add_option("--http-listen", line.http, "Where /metrics is served, 127.0.0.1:9091 and [::1]:9091")
      ->type_name("HOST:PORT");
  agent->add_option("--ws-listen", line.websocket, "Where the WebSocket stream is served, port 9092")
      ->type_name("HOST:PORT");
  agent->add_option("--interval", line.interval, "How often a snapshot is made, 1s")->type_name("D");
  agent->add_option("--log-level", line.log_level, "info, or per part: info,nvidia=debug")->type_name("L");
  agent->add_flag("--demo,--simulate", line.agent.demo, "Eight simulated GPUs; host series stay real");
  agent->add_flag("-q,--quiet", line.agent.quiet, "No banner, only log lines");
  agent->add_option("--metrics-port", line.metrics_port, "Port alone, as zerneld has it")->group("Aliases");
  agent->add_option("--ws-port", line.websocket_port, "Port alone, as zerneld has it")->group("Aliases");
  agent->add_option("--push-interval-ms", line.push_ms, "websocket.push_interval in ms")->group("Aliases");
  agent->footer(kAgentFooter);
  agent->callback([&line] {
    auto flag = [&line](const char* name, const char* path, const std::string& text) {
      if (!text.empty()) line.agent.flags.push_back({name, path, text});
    };
    flag("--http-listen", "http.listen", line.http);
    flag("--ws-listen", "websocket.listen", line.websocket);
    flag("--interval", "interval", line.interval);
    flag("--log-level", "log.level", line.log_level);
    auto port = [](const std::string& p) { return p.empty() ? p : "127.0.0.1:" + p + ",[::1]:" + p; };
    flag("--metrics-port", "http.listen", port(line.metrics_port));
    flag("--ws-port", "websocket.listen", port(line.websocket_port));
    flag("--push-interval-ms", "websocket.push_interval", line.push_ms.empty() ? "" : line.push_ms + "ms");
    line.runs_agent = true;
  });
}

void AddCollect(CLI::App& app, CommandLine& line) {
  CLI::App* collect = app.add_subcommand("collect", "Run one collector once or in a loop; needs no agent.");
  collect->add_option("COLLECTOR", line.collect.target,
                      "A collector, an analyzer or an LLM engine, see below");
  collect->add_flag("--list", line.list, "What there is to collect, and what of it is here");
  collect->add_flag("--once", line.collect.once, "One run; rates come from two readings one interval apart");
  collect->add_option("--interval", line.collect.interval, "How often; default: the collector's own")
      ->type_name("D");
  collect->add_option("--sink", line.collect.sink, "stdout (JSON), file, otlp; without it: a table")
      ->type_name("S");
  collect->add_option("--endpoint", line.collect.endpoint, "Where the page is, of what reads one")
      ->type_name("URL");
  collect->add_flag("--emit-genai-namespace", line.collect.genai,
                    "OpenTelemetry's gen_ai.* names beside the native ones, as JSON");
  collect->add_option("-o", line.pairs, "An option of the collector or the sink; repeatable")
      ->type_name("KEY=VALUE");
  collect->add_option("--config", line.collect.config_file, "Configuration file (YAML)")->type_name("FILE");
  collect->add_option("--cluster", line.collect.cluster, "Name of the cluster, told with everything");
  collect->add_flag("--json", line.collect.json, "JSON instead of a table");
  collect->add_flag("--demo", line.collect.demo, "Simulated GPUs");
  collect->add_flag("--strict", line.collect.strict, "Exit 1 when a reading is stale or rejected");
  collect->footer(TargetNames() + kCollectFooter);
  collect->callback([&line] {
    if (line.list) {
      line.code = ListCollectors(line.collect.config_file, line.collect.demo);
      return;
    }
    if (line.collect.target.empty()) {
      ::dprintf(STDERR_FILENO, "gpulens collect: which collector?   All of them: gpulens collect --list\n");
      line.code = 2;
      return;
    }
    for (const std::string& pair : line.pairs) {
      size_t equals = pair.find('=');
      if (equals == pair.npos) {
        ::dprintf(STDERR_FILENO, "gpulens collect: -o %s: expected KEY=VALUE\n", pair.c_str());
        line.code = 2;
        return;
      }
      line.collect.options.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    }
    // What is printed is data; the log says only what went wrong.
    static_cast<void>(SetLogLevels("error"));
    line.code = RunCollect(line.collect);
  });
}

void AddLooks(CLI::App& app, CommandLine& line) {
  CLI::App* doctor = app.add_subcommand("doctor", "What is found, what is not, why, and what to do.");
  doctor->add_option("--config", line.doctor.config_file, "Configuration file (YAML)")->type_name("FILE");
  doctor->add_flag("--json", line.doctor.json, "JSON");
  AddCompare(*doctor, line.compare);
  doctor->footer(kDoctorFooter);
  doctor->callback([&line] {
    line.compare.config_file = line.doctor.config_file;
    line.compare.json = line.doctor.json;
    line.code = line.compare.Wanted() ? RunCompare(line.compare) : RunDoctor(line.doctor);
  });

  CLI::App* metrics = app.add_subcommand("metrics", "The catalogue of metrics, or the page of one.");
  metrics->add_option("NAME", line.metrics.name, "A native, Prometheus or dialect name");
  metrics->add_option("--format", line.metrics.format, "table, md or json")
      ->check(CLI::IsMember({"table", "md", "json"}));
  metrics->add_flag("--rules", line.metrics.rules, "Which readings are rejected, and why: a table");
  std::string dialects;
  for (std::string_view name : DialectNames()) dialects += (dialects.empty() ? "" : ", ") + std::string(name);
  metrics->add_option("--dialect", line.metrics.dialect, "Only the names of this dialect: " + dialects);
  metrics->callback([&line] { line.code = RunMetrics(line.metrics); });

  CLI::App* version = app.add_subcommand("version", "Which build this is.");
  version->add_flag("--json", line.version_json, "JSON");
  version->callback([&line] {
    std::string_view v = Version(), r = Revision(), c = Compiler(), b = BuildType();
    const char* form = line.version_json
                           ? "{\"schema\":\"gpulens.version/1\",\"version\":\"%.*s\",\"revision\":\"%.*s\","
                             "\"compiler\":\"%.*s\",\"build\":\"%.*s\"}\n"
                           : "gpulens %.*s (%.*s), %.*s, %.*s build\n";
    std::printf(form, static_cast<int>(v.size()), v.data(), static_cast<int>(r.size()), r.data(),
                static_cast<int>(c.size()), c.data(), static_cast<int>(b.size()), b.data());
  });
}

void AddEvents(CLI::App& app, CommandLine& line) {
  EventsOptions& options = line.events;
  CLI::App* events = app.add_subcommand("events", "What happened to this machine's GPUs, and before it.");
  events->add_option("--since", options.since, "How far back: 90m, 24h, 7d")
      ->type_name("D")
      ->capture_default_str();
  events->add_option("--gpu", options.gpu, "Of one GPU: its index or UUID")->type_name("N");
  events->add_option("--name", options.name, "Of one name: gpu.xid")->type_name("X");
  events->add_option("--format", options.format, "table, json (a line each) or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}));
  events->add_option("--state-dir", options.state_dir, "The agent's state folder")->type_name("D");
  events->add_option("--config", options.config_file, "Configuration file (YAML)")->type_name("FILE");
  events->add_option("--limit", options.limit, "At most so many, the newest")
      ->check(CLI::Range(1, 1'000'000));
  events->add_flag("--with-readings", options.readings, "With the readings of the 30 s before");
  events->footer(kEventsFooter);
  CLI::App* explain = events->add_subcommand("explain", "What a code means, what to do, and who says so.");
  explain->add_option("CODE", line.explain, "79, \"sxid 20034\", amdgpu.ras.umc.ue")->required();
  CLI::App* clear =
      events->add_subcommand("clear", "XIDs so far are dealt with: health and checks forget them.");
  clear->add_option("--gpu", line.clear_gpu, "Of one GPU: its index or UUID")->type_name("N");
  clear->add_option("--socket", line.clear_socket, "The agent's control socket")->type_name("PATH");
  clear->add_option("--config", options.config_file, "Configuration file (YAML)")->type_name("FILE");
  events->require_subcommand(0, 1);
  events->callback([&line, explain, clear] {
    if (explain->parsed()) line.code = RunExplain(line.explain);
    else if (clear->parsed())
      line.code = AskAndPrint({"gpulens events clear", "xid clear " + line.clear_gpu, line.clear_socket,
                               line.events.config_file});
    else line.code = RunEvents(line.events);
  });
}

void AddConfig(CLI::App& app, CommandLine& line) {
  CLI::App* config =
      app.add_subcommand("config", "Check the configuration, print it, and print every key there is.");
  config->require_subcommand(1);
  CLI::App* check = config->add_subcommand("check", "Say what is wrong with it, or that it is good.");
  CLI::App* print = config->add_subcommand("print", "Every value in force, with where it comes from.");
  for (CLI::App* command : {check, print})
    command->add_option("FILE,--config", line.config_file, "Configuration file");
  check->callback([&line] { line.code = RunConfigCheck(line.config_file, {}); });
  print->callback([&line] { line.code = RunConfigPrint(line.config_file, {}); });
  CLI::App* schema = config->add_subcommand("schema", "Every key with its type, default and meaning.");
  schema->add_flag("--json", line.schema_json, "JSON Schema, for editors");
  schema->callback([&line] { line.code = RunConfigSchema(line.schema_json); });
}

void AddDriver(CLI::App& app, CommandLine& line) {
  CLI::App* driver = app.add_subcommand("gpu", "Free the GPUs of a running agent for a while.");
  driver->alias("driver");
  driver->require_subcommand(1);
  driver->footer(kDriverFooter);
  auto add = [&](const char* verb, const char* help) {
    CLI::App* command = driver->add_subcommand(verb, help);
    command->add_option("--socket", line.driver.socket, "The agent's control socket")->type_name("PATH");
    command->add_option("--config", line.driver.config_file, "Configuration file (YAML)")->type_name("FILE");
    command->callback([&line, verb] {
      line.driver.verb = verb;
      line.code = RunDriverOrder(line.driver);
    });
    return command;
  };
  add("release", "End the reader process: no GPU is held open any more.")
      ->add_option("--for", line.driver.length, "Start again by itself after so long")
      ->type_name("D");
  add("resume", "Start it again now.");
  add("status", "Whether it runs or is released.");
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  // Before anything else: a reader process stays small.
  if (argc > 2 && std::string_view(argv[1]) == "reader" && IsDriverProcess(argv[2])) {
    RunDriver(std::vector<std::string_view>(argv + 2, argv + argc));
  }
  auto parser = std::make_unique<CLI::App>("", "gpulens");
  CLI::App& app = *parser;
  CommandLine line;
  app.set_help_flag("-h,--help", "Help");
  app.set_version_flag("--version", "gpulens " + std::string(Version()));
  AddAgent(app, line);
  AddCollect(app, line);
  AddCapture(app, line.capture, line.code);
  AddLooks(app, line);
  AddEngines(app, line.engines, line.code);
  AddEvents(app, line);
  AddCheck(app, line.check, line.code);
  AddConfig(app, line);
  AddAliases(app, line.code);
  AddSlurm(app, line.code);
  AddDriver(app, line);
  AddFake(app, line.code);
  AddBench(app, line.code);
  AddExp(app, line.exp, line.code);
  AddRun(app, line.run, line.code);
  AddLog(app, line.log, line.code);
  AddTelemetry(app, line.telemetry, line.code);
  AddQueue(app, line.code);
  if (argc <= 1) {
    std::fputs(Help().c_str(), stderr);
    return 2;
  }
  LeadingOptions leading = TakeLeadingOptions(argc, argv);
  if (leading.arguments.empty()) leading.arguments.emplace_back(argv[1]);
  const std::string first = leading.arguments[0];
  if (first == "--help" || first == "-h" || first == "help") {
    std::fputs(Help().c_str(), stdout);
    return 0;
  }
  std::vector<std::string_view> names = CommandNames();
  bool known = std::find(names.begin(), names.end(), first) != names.end();
  if (!known && !first.starts_with('-')) return NoCommand(first);
  if (leading.detach && !Detach()) return 0;
  try {
    // From the last to the first, as the parser wants them.
    app.parse(std::vector<std::string>(leading.arguments.rbegin(), leading.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version; every wrong use is 2, but 3 where Nagios asks.
    return app.exit(error) == 0 ? 0 : first == "check" ? 3 : 2;
  }
  if (!line.runs_agent) return line.code;
  parser.reset();  // It is 160 kB, and the agent runs for months.
  return RunAgent(line.agent);
}

}  // namespace gpulens
