
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/plugin_tables.h"
#include "agent/run/agent.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/commands.h"
#include "cli/common/command.h"
#include "cli/common/text_table.h"
#include "cli/compare/compare_command.h"
#include "cli/events/events_command.h"
#include "cli/gpu_command.h"
#include "cli/help/help.h"
#include "names/naming.h"

namespace gpulens {
namespace {

inline constexpr const char* kAgentFooter = R"(
  gpulens agent                          on 127.0.0.1:9091, WebSocket on 9092
  gpulens agent --config /etc/gpulens/gpulens.yaml
  GPULENS_INTERVAL=5s gpulens agent      every key can be set by a variable

Options override variables, and variables override the file. SIGHUP or POST /-/reload read the file again.
All keys: gpulens config schema.
Exit: 0 stopped by Ctrl-C or SIGTERM · 1 cannot run (port in use) · 2 wrong configuration)";

inline constexpr const char* kCollectFooter = R"(
  gpulens collect host --once                      a table
  gpulens collect host --once --json
  gpulens collect vllm --once                      an LLM engine at its usual port
  gpulens collect sglang --endpoint http://10.0.0.7:30000/metrics --interval 5s
  gpulens collect scrape -o url=http://127.0.0.1:9100/metrics --once
  gpulens collect host --interval 5s --sink file -o path=host.jsonl
  gpulens collect gpu_summary --once               an analyzer, over the GPUs here
  gpulens collect --list                           what can be collected here

Exit: 0 something was read · 1 nothing could be read · 2 wrong use)";

inline constexpr const char* kExplainFooter = R"(
  gpulens explain 79                   an XID: what it means, what to do, sources
  gpulens explain sxid 20034
  gpulens explain gpu.power.draw       a metric; DCGM_FI_DEV_POWER_USAGE works too
  gpulens explain gpu_temperature      a check and its thresholds
  gpulens explain vllm                 an LLM engine and what it reports

Exit: 0 printed · 2 an unknown word)";

inline constexpr const char* kConfigInitFooter = R"(
  gpulens config init                       $GPULENS_CONFIG, or /etc/gpulens/gpulens.yaml
  gpulens config init gpulens.yaml
  gpulens config init -                     print it

Exit: 0 written · 1 the file exists, or cannot be written)";

inline constexpr const char* kGpuFooter = R"(
  gpulens gpu release --for 5m && nvidia-smi --gpu-reset && gpulens gpu resume

Returns when the agent holds no GPU open.
Exit: 0 done · 1 no agent, or its reader process does not end · 2 wrong use)";

inline constexpr const char* kDoctorFooter = R"(
  gpulens doctor
  gpulens doctor --compare             each reading next to nvidia-smi's, amd-smi's or hl-smi's
  gpulens doctor --compare-with smi.xml --json   next to the tool's saved output

With --compare: exit 1 when a difference has no known reason, 2 when nothing can be compared.
Exit: 0 fine · 1 limited: something here may not be read · 2 a fault. Absent hardware never counts.)";

// A word that is no command gets the right one.
int NoCommand(const CLI::App& app, std::string_view word) {
  if (std::string instead = InsteadOfCommand(word); !instead.empty()) {
    WriteNote("gpulens: " + instead);
  } else {
    WriteNote("gpulens: no command \"" + std::string(word) + "\"." +
              DidYouMean(word, SubcommandNames(app, true)) + "   gpulens help all lists them");
  }
  return 2;
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// `gpulens help [all | COMMAND …]`.
int Help(const CLI::App& app, std::span<const std::string> words) {
  const HelpStyle style = HelpStyleOf(STDOUT_FILENO);
  if (words.empty()) return Print(FirstHelp(app, style)), 0;
  const std::string itself[] = {"help"};
  if (words.front() == "--help" || words.front() == "-h") words = itself;
  if (words.front() == "all") return Print(AllHelp(app, style)), 0;
  const CLI::App* command = &app;
  std::string name = "gpulens";
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> found =
        command->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
    if (found.empty()) {
      if (command == &app) return NoCommand(app, word);
      WriteNote(name + ": no command \"" + word + "\"." + DidYouMean(word, SubcommandNames(*command, true)) +
                "   gpulens help " + name.substr(name.find(' ') + 1));
      return 2;
    }
    command = found.front();
    name += " " + command->get_name();
  }
  return Print(CommandHelp(*command, name, style)), 0;
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
  ExplainOptions explain;
  std::string clear_gpu, clear_socket, config_file;
  SimOptions sim;
  DriverOrder driver;
  bool runs_agent = false;
  std::string schema_format = "yaml";
  bool schema_json = false, version_json = false, list = false;
  int code = 0;
};

void AddAgent(CLI::App& app, CommandLine& line) {
  CLI::App* agent = app.add_subcommand("agent", "Collect and serve the metrics of this machine.");
  agent->group("Look");
  AddConfigOption(*agent, line.agent.config_file);
  AddOption(*agent, "--http-listen", line.http,
            "Where /metrics is served (default 127.0.0.1:9091 and [::1]:9091)", "HOST:PORT");
  AddOption(*agent, "--ws-listen", line.websocket, "Where the WebSocket stream is served (default port 9092)",
            "HOST:PORT");
  AddOption(*agent, "--interval", line.interval, "Time between two snapshots (default 1s)", "D");
  AddOption(*agent, "--log-level", line.log_level, "info, or per component: info,nvidia=debug", "L");
  agent->add_flag("--demo,--simulate", line.agent.demo, "Simulate eight GPUs; host series stay real");
  agent->add_flag("-q,--quiet", line.agent.quiet, "Print no banner, only log lines");
  AddOption(*agent, "--metrics-port", line.metrics_port, "Port of --http-listen; option of zerneld", "PORT")
      ->group("Options of zerneld");
  AddOption(*agent, "--ws-port", line.websocket_port, "Port of --ws-listen; option of zerneld", "PORT")
      ->group("Options of zerneld");
  AddOption(*agent, "--push-interval-ms", line.push_ms, "websocket.push_interval, in milliseconds", "MS")
      ->group("Options of zerneld");
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
  CLI::App* collect =
      app.add_subcommand("collect", "Run one collector, once or in a loop, without an agent.");
  collect->group("Look");
  collect->add_option("COLLECTOR", line.collect.target,
                      "A collector, an analyzer or an LLM engine; the list is below");
  collect->add_flag("--list", line.list, "List the collectors, and which are available on this machine");
  collect->add_flag("--once", line.collect.once, "Run once; rates come from two readings one interval apart");
  AddOption(*collect, "--interval", line.collect.interval, "Interval (default: that of the collector)", "D");
  AddOption(*collect, "--sink", line.collect.sink, "stdout (JSON), file, otlp, … (default: a table)", "S");
  AddOption(*collect, "--endpoint", line.collect.endpoint, "The page to read, for collectors that read one",
            "URL");
  collect->add_flag("--emit-genai-namespace", line.collect.genai,
                    "Add OpenTelemetry's gen_ai.* names to the native ones, as JSON");
  AddOption(*collect, "-o", line.pairs, "Set an option of the collector or the sink; repeatable",
            "KEY=VALUE");
  AddConfigOption(*collect, line.collect.config_file);
  collect->add_option("--cluster", line.collect.cluster, "Name of the cluster, added to every series");
  collect->add_flag("--json", line.collect.json, "JSON");
  collect->add_flag("--demo", line.collect.demo, "Simulated GPUs");
  collect->add_flag("--strict", line.collect.strict, "Exit 1 when a reading is stale or rejected");
  collect->footer(TargetNames() + kCollectFooter);
  collect->callback([&line] {
    if (line.list) {
      line.code = ListCollectors(line.collect.config_file, line.collect.demo);
      return;
    }
    if (line.collect.target.empty()) {
      line.code = FailCommand("collect", "no collector given   list them: gpulens collect --list", 2);
      return;
    }
    for (const std::string& pair : line.pairs) {
      size_t equals = pair.find('=');
      if (equals == pair.npos) {
        line.code = FailCommand("collect", "-o " + pair + ": expected KEY=VALUE", 2);
        return;
      }
      line.collect.options.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    }
    // The output is data: log only errors.
    static_cast<void>(SetLogLevels("error"));
    line.code = RunCollect(line.collect);
  });
}

void AddDoctor(CLI::App& app, CommandLine& line) {
  CLI::App* doctor = app.add_subcommand("doctor", "Report what was found, what is missing and what to do.");
  doctor->group("Look");
  AddConfigOption(*doctor, line.doctor.config_file);
  doctor->add_flag("--json", line.doctor.json, "JSON");
  AddCompare(*doctor, line.compare);
  doctor->footer(kDoctorFooter);
  doctor->callback([&line] {
    line.compare.config_file = line.doctor.config_file;
    line.compare.json = line.doctor.json;
    line.code = line.compare.IsRequested() ? RunCompare(line.compare) : RunDoctor(line.doctor);
  });
}

void AddMetrics(CLI::App& app, CommandLine& line) {
  CLI::App* metrics = app.add_subcommand("metrics", "List the metrics, or show one.");
  metrics->group("Look");
  metrics->add_option("NAME", line.metrics.name, "Show one metric, by its native, Prometheus or other name");
  metrics->add_flag("--json", line.metrics.json, "JSON");
  metrics->add_option("--format", line.metrics.format, "table, md (docs/metrics.md) or json")
      ->check(CLI::IsMember({"table", "md", "json"}));
  metrics->add_flag("--rules", line.metrics.rules, "List which readings are rejected, and why");
  const std::vector<std::string> names(NamingNames().begin(), NamingNames().end());
  metrics->add_option("--names", line.metrics.names, "Names to list (default native)")
      ->check(CLI::IsMember(names));
  metrics->add_option("--dialect", line.metrics.names, "")->check(CLI::IsMember(names))->group("");
  metrics->callback([&line] { line.code = RunMetrics(line.metrics); });
}

void AddVersion(CLI::App& app, CommandLine& line) {
  CLI::App* version = app.add_subcommand("version", "Print the version and the build.");
  version->group("Look");
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
  CLI::App* events = app.add_subcommand("events", "List GPU events: XIDs, resets, throttling, lost GPUs.");
  events->group("Look");
  AddOption(*events, "--since", options.since, "Period to look back: 90m, 24h, 7d", "D")
      ->capture_default_str();
  AddOption(*events, "--gpu", options.gpu, "Events of this GPU: its index or UUID", "N");
  AddOption(*events, "--name", options.name, "Events of this name: gpu.xid", "X");
  events->add_flag("--json", options.json, "JSON, an object on each line");
  events->add_option("--format", options.format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}));
  AddOption(*events, "--state-dir", options.state_dir, "The agent's state folder", "DIR");
  AddConfigOption(*events, options.config_file);
  events->add_option("--limit", options.limit, "Maximum number of events; the newest are shown")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  events->add_flag("--with-readings", options.readings, "Add the readings of the 30 s before each event");
  events->footer(kEventsFooter);
  CLI::App* clear = events->add_subcommand("clear", "Clear XIDs: health and checks then ignore them.");
  AddOption(*clear, "--gpu", line.clear_gpu, "XIDs of this GPU: its index or UUID", "N");
  AddOption(*clear, "--socket", line.clear_socket, "The agent's control socket", "PATH");
  AddConfigOption(*clear, options.config_file);
  // As it was called before 0.2.
  CLI::App* explain = events->add_subcommand("explain", "The older name of gpulens explain.");
  explain->group("");
  explain->add_option("CODE", line.explain.words, "")->required();
  events->require_subcommand(0, 1);
  events->callback([&line, explain, clear] {
    if (explain->parsed()) line.code = RunExplain(line.explain);
    else if (clear->parsed())
      line.code = QueryAndPrint({"gpulens events clear", "xid clear " + line.clear_gpu, line.clear_socket,
                                 line.events.config_file});
    else line.code = RunEvents(line.events);
  });
}

void AddExplain(CLI::App& app, CommandLine& line) {
  CLI::App* explain = app.add_subcommand("explain", "Explain an XID, a metric, a check or an LLM engine.");
  explain->group("Look");
  explain->add_option("WORD", line.explain.words, "79, \"sxid 20034\", gpu.power.draw, gpu_temperature, vllm")
      ->required();
  explain->add_flag("--json", line.explain.json, "JSON");
  explain->footer(kExplainFooter);
  explain->callback([&line] { line.code = RunExplain(line.explain); });
}

void AddConfig(CLI::App& app, CommandLine& line) {
  CLI::App* config = app.add_subcommand("config", "Write, check and print the configuration.");
  config->group("Set up");
  config->require_subcommand(1);
  CLI::App* check = config->add_subcommand("check", "Report what is wrong with the configuration.");
  CLI::App* print = config->add_subcommand("print", "Print every value in force and where it comes from.");
  for (CLI::App* command : {check, print})
    AddOption(*command, "FILE,--config", line.config_file, "Configuration file (YAML)", "FILE");
  check->callback([&line] { line.code = RunConfigCheck(line.config_file); });
  print->callback([&line] { line.code = RunConfigPrint(line.config_file); });
  CLI::App* init = config->add_subcommand("init", "Write a short configuration file to start from.");
  init->add_option("FILE", line.config_file, "Default: what the agent reads without --config; - prints it");
  init->footer(kConfigInitFooter);
  init->callback([&line] { line.code = RunConfigInit(line.config_file); });
  CLI::App* schema = config->add_subcommand("schema", "List every key with its type, default and meaning.");
  schema->add_flag("--json", line.schema_json, "JSON Schema, for editors");
  schema->add_option("--format", line.schema_format, "yaml, json (JSON Schema) or md (docs/configuration.md)")
      ->check(CLI::IsMember({"yaml", "json", "md"}));
  schema->callback([&line] { line.code = RunConfigSchema(line.schema_json ? "json" : line.schema_format); });
}

void AddDriver(CLI::App& app, CommandLine& line) {
  CLI::App* driver = app.add_subcommand("gpu", "Release the GPUs of a running agent, and resume.");
  driver->alias("driver")->group("Set up");
  driver->require_subcommand(1);
  driver->footer(kGpuFooter);
  auto add = [&](const char* verb, const char* help) {
    CLI::App* command = driver->add_subcommand(verb, help);
    AddOption(*command, "--socket", line.driver.socket, "The agent's control socket", "PATH");
    AddConfigOption(*command, line.driver.config_file);
    command->callback([&line, verb] {
      line.driver.verb = verb;
      line.code = RunDriverOrder(line.driver);
    });
    return command;
  };
  add("release", "Close all GPUs: the agent ends its reader process.")
      ->add_option("--for", line.driver.length, "Resume after this time")
      ->type_name("D");
  add("resume", "Open the GPUs again.");
  add("status", "Report whether the GPUs are open or released.");
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  // Before anything else: a reader process stays small.
  if (argc > 2 && std::string_view(argv[1]) == "reader" && IsDriverProcess(argv[2])) {
    RunReaderProcess(std::vector<std::string_view>(argv + 2, argv + argc));
  }
  auto parser = std::make_unique<CLI::App>("", "gpulens");
  CLI::App& app = *parser;
  CommandLine line;
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", "gpulens " + std::string(Version()));
  AddAgent(app, line);
  AddDoctor(app, line);
  AddCheck(app, line.code);
  AddEvents(app, line);
  AddMetrics(app, line);
  AddExplain(app, line);
  AddCollect(app, line);
  AddVersion(app, line);
  AddEngines(app, line.code);
  AddBench(app, line.code);
  AddRun(app, line.code);
  AddLog(app, line.code);
  AddExp(app, line.code);
  AddTelemetry(app, line.code);
  AddSim(app, line.sim, line.code);
  AddConfig(app, line);
  AddQueue(app, line.code);
  AddDriver(app, line);
  app.add_subcommand("help", "Show help on a command; help all lists every command.")->group("Set up");
  AddAliases(app, line.code);
  AddSlurm(app, line.code);
  if (argc <= 1) {
    std::fputs(FirstHelp(app, HelpStyleOf(STDERR_FILENO)).c_str(), stderr);
    return 2;
  }
  LeadingOptions leading = TakeLeadingOptions(argc, argv);
  if (leading.arguments.empty()) leading.arguments.emplace_back(argv[1]);
  const std::string first = leading.arguments[0];
  if (first == "--help" || first == "-h") return Help(app, {});
  if (first == "help") return Help(app, std::span(leading.arguments).subspan(1));
  const std::vector<std::string_view> names = SubcommandNames(app, true);
  const bool known = std::ranges::find(names, first) != names.end();
  if (!known && !first.starts_with('-')) return NoCommand(app, first);
  if (leading.detach && !Detach()) return 0;
  try {
    // From the last to the first, as the parser wants them.
    app.parse(std::vector<std::string>(leading.arguments.rbegin(), leading.arguments.rend()));
  } catch (const CLI::CallForVersion&) {
    std::printf("gpulens %s\n", std::string(Version()).c_str());
    return 0;
  } catch (const CLI::CallForHelp&) {
    const ParsedCommand asked = DeepestCommand(app);
    Print(CommandHelp(*asked.command, asked.name, HelpStyleOf(STDOUT_FILENO)));
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fputs(Complaint(app, error).c_str(), stderr);
    return first == "check" ? 3 : 2;  // 3 is what Nagios calls unknown
  }
  if (line.sim.replays) {
    ::setenv("GPULENS_FAKE_NVML", line.sim.replay_file.c_str(), 1);
    line.agent = {.config_file = line.sim.config_file, .flags = {}, .demo = true};
    line.runs_agent = true;
  }
  if (!line.runs_agent) return line.code;
  parser.reset();  // It is 160 kB, and the agent runs for months.
  return RunAgent(line.agent);
}

}  // namespace gpulens
