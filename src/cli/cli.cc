
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/plugin_tables.h"
#include "agent/run/agent.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/check/check_table.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/commands.h"
#include "cli/common/output.h"
#include "cli/events/events_command.h"
#include "cli/help/command_tree.h"
#include "cli/help/help.h"
#include "cli/version/libraries.h"

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

inline constexpr const char* kVersionFooter = R"(
  gpulens version --libraries          what of others is in this program
  gpulens version --libraries --json   also as purl, for programs that know of weaknesses

A package of Debian has the version that was installed when this program was built. How
a weakness in a library is answered: SECURITY.md.)";

inline constexpr const char* kExplainFooter = R"(
  gpulens explain 79                   an XID: what it means, what to do, sources
  gpulens explain sxid 20034
  gpulens explain gpu.power.draw       a metric; DCGM_FI_DEV_POWER_USAGE works too
  gpulens explain gpu_temperature      a check and its thresholds
  gpulens explain vllm                 an LLM engine and what it reports

Exit: 0 printed · 2 an unknown word)";

inline constexpr const char* kCompletionFooter = R"(
Packages have installed them. For a program that was copied, or for one shell:
  source <(gpulens completion bash)    in ~/.bashrc
  source <(gpulens completion zsh)     in ~/.zshrc, after compinit
  gpulens completion fish | source     in ~/.config/fish/config.fish

Exit: 0 printed · 2 another shell)";

// Reports an unknown command, with the nearest one.
int NoCommand(const CLI::App& app, std::string_view word) {
  WriteNote("gpulens: no command \"" + std::string(word) + "\"." +
            DidYouMean(word, SubcommandNames(app, true)) + "   gpulens help all lists them");
  return 2;
}

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// All that can be typed, with the names that are known only when it runs.
CommandEntry Commands(const CLI::App& app) {
  ArgumentWords words{
      {"gpulens collect", TargetWords()}, {"gpulens check", {"all", "in-use"}}, {"gpulens help", {"all"}}};
  for (const CheckSpec& check : AllChecks()) words["gpulens check"].emplace_back(check.name);
  for (std::string_view name : SubcommandNames(app, false)) words["gpulens help"].emplace_back(name);
  return CommandTree(app, words);
}

// `gpulens help [all | COMMAND … | --json]`.
int Help(const CLI::App& app, std::span<const std::string> words) {
  const HelpStyle style = HelpStyleOf(STDOUT_FILENO);
  if (words.size() == 1 && words.front() == "--json") return PrintText(CommandTreeJson(Commands(app)));
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

// Values of the options of all commands. Each command sets `code` when it has run.
struct CommandLine {
  AgentOptions agent;
  std::deque<FlagValue> flags;  // of the agent, one for each option
  CollectOptions collect;
  std::vector<std::string> pairs;
  EventsOptions events;
  std::vector<std::string> explain_words, help_words;
  bool explain_json = false, help_json = false;
  std::string clear_gpu, clear_socket, shell;
  SimOptions sim;
  bool runs_agent = false;
  bool version_json = false, version_libraries = false, list = false;
  int code = 0;
};

void AddAgent(CLI::App& app, CommandLine& line) {
  CLI::App* agent = app.add_subcommand("agent", "Collect and serve the metrics of this machine.");
  agent->group("Look");
  AddConfigOption(*agent, line.agent.config_file);
  // An option that sets the value at `path` of the configuration.
  auto add = [&](const char* name, const char* path, const char* help, const char* type) {
    line.flags.push_back({name, path, {}});
    return AddOption(*agent, name, line.flags.back().text, help, type);
  };
  // Options of zerneld have a number; `complete` turns it into our value.
  auto add_older = [&](const char* name, const char* path, const char* help, const char* type,
                       std::string (*complete)(std::string)) {
    add(name, path, help, type)->transform(complete)->group("Options of zerneld");
  };
  add("--http-listen", "http.listen", "Where /metrics is served (default 127.0.0.1:9091 and [::1]:9091)",
      "HOST:PORT");
  add("--ws-listen", "websocket.listen", "Where the WebSocket stream is served (default port 9092)",
      "HOST:PORT");
  add("--interval", "interval", "Time between two snapshots (default 1s)", "D");
  add("--log-level", "log.level", "info, or per component: info,nvidia=debug", "L");
  agent->add_flag("--demo,--simulate", line.agent.demo,
                  "Simulate eight GPUs and what runs on them; host series stay real");
  AddOption(*agent, "--scenario", line.agent.scenario,
            "What --demo simulates: a file (gpulens sim scenario prints one), calm for jobs without trouble, "
            "or none for GPUs alone",
            "FILE");
  agent->add_flag("-q,--quiet", line.agent.quiet, "Print no banner, only log lines");
  auto port = [](std::string p) { return p.empty() ? p : "127.0.0.1:" + p + ",[::1]:" + p; };
  add_older("--metrics-port", "http.listen", "Port of --http-listen; option of zerneld", "PORT", port);
  add_older("--ws-port", "websocket.listen", "Port of --ws-listen; option of zerneld", "PORT", port);
  add_older("--push-interval-ms", "websocket.push_interval", "websocket.push_interval, in milliseconds", "MS",
            [](std::string ms) { return ms.empty() ? ms : ms + "ms"; });
  agent->footer(kAgentFooter);
  agent->callback([&line] {
    for (const FlagValue& flag : line.flags) {
      if (!flag.text.empty()) line.agent.flags.push_back(flag);
    }
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
    auto options = SplitPairs(line.pairs);
    if (!options) {
      line.code = FailCommand("collect", options.error());
      return;
    }
    line.collect.options = *std::move(options);
    // The output is data: log only errors.
    static_cast<void>(SetLogLevels("error"));
    line.code = RunCollect(line.collect);
  });
}

void AddVersion(CLI::App& app, CommandLine& line) {
  CLI::App* version = app.add_subcommand("version", "Print the version and the build.");
  version->group("Look");
  version->add_flag("--json", line.version_json, "JSON");
  version->add_flag("--libraries", line.version_libraries,
                    "Add each library that is linked: its version, Debian package and licence");
  version->footer(kVersionFooter);
  version->callback([&line] {
    const auto width = static_cast<size_t>(::isatty(STDOUT_FILENO) == 1 ? TerminalColumns(STDOUT_FILENO) : 0);
    line.code = PrintText(line.version_json ? VersionJson(line.version_libraries)
                                            : VersionText(line.version_libraries, width));
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
  explain->add_option("CODE", line.explain_words, "")->required();
  events->require_subcommand(0, 1);
  events->callback([&line, explain, clear] {
    if (explain->parsed()) line.code = RunExplain(line.explain_words, line.explain_json);
    else if (clear->parsed())
      line.code = QueryAndPrint({"gpulens events clear", "xid clear " + line.clear_gpu, line.clear_socket,
                                 line.events.config_file});
    else line.code = RunEvents(line.events);
  });
}

void AddExplain(CLI::App& app, CommandLine& line) {
  CLI::App* explain = app.add_subcommand("explain", "Explain an XID, a metric, a check or an LLM engine.");
  explain->group("Look");
  explain->add_option("WORD", line.explain_words, "79, \"sxid 20034\", gpu.power.draw, gpu_temperature, vllm")
      ->required();
  explain->add_flag("--json", line.explain_json, "JSON");
  explain->footer(kExplainFooter);
  explain->callback([&line] { line.code = RunExplain(line.explain_words, line.explain_json); });
}

// Help() answers it; here it is for the lists of commands.
void AddHelp(CLI::App& app, CommandLine& line) {
  CLI::App* help = app.add_subcommand("help", "Show help on a command; help all lists every command.");
  help->group("Set up");
  help->add_option("COMMAND", line.help_words, "The words of a command, or all");
  help->add_flag("--json", line.help_json, "All commands, options and texts, for other programs");
}

void AddCompletion(CLI::App& app, CommandLine& line) {
  CLI::App* completion = app.add_subcommand("completion", "Print completions for bash, zsh or fish.");
  completion->group("Set up");
  completion->add_option("SHELL", line.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(kCompletionFooter);
  completion->callback([&app, &line] { line.code = PrintText(CompletionScript(Commands(app), line.shell)); });
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
  app.require_subcommand(0, 1);  // an argument may have the name of another command: gpulens why gpu 2
  app.set_version_flag("--version", "gpulens " + std::string(Version()));
  AddAgent(app, line);
  AddDoctor(app, line.code);
  AddTop(app, line.code);
  AddCheck(app, line.code);
  AddEvents(app, line);
  AddMetrics(app, line.code);
  AddExplain(app, line);
  AddTrace(app, line.code);
  AddWhy(app, line.code);
  AddFlightRecorder(app, line.code);
  AddMcp(app, line.code);
  AddCollect(app, line);
  AddVersion(app, line);
  AddEngines(app, line.code);
  AddBench(app, line.code);
  AddRun(app, line.code);
  AddLog(app, line.code);
  AddExp(app, line.code);
  AddTelemetry(app, line.code);
  AddCost(app, line.code);
  AddSim(app, line.sim, line.code);
  AddConfig(app, line.code);
  AddMigrate(app, line.code);
  AddProxy(app, line.code);
  AddProfile(app, line.code);
  AddProbe(app, line.code);
  AddProbeHost(app, line.code);
  AddQueue(app, line.code);
  AddGpu(app, line.code);
  AddCompletion(app, line);
  AddHelp(app, line);
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
    // The parser expects the arguments in reverse order.
    app.parse(std::vector<std::string>(leading.arguments.rbegin(), leading.arguments.rend()));
  } catch (const CLI::CallForVersion&) {
    std::printf("gpulens %s\n", std::string(Version()).c_str());
    return 0;
  } catch (const CLI::CallForHelp&) {
    const ParsedCommand parsed = DeepestCommand(app);
    Print(CommandHelp(*parsed.command, parsed.name, HelpStyleOf(STDOUT_FILENO)));
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fputs(Complaint(app, error).c_str(), stderr);
    return first == "check" ? 3 : 2;  // 3 is what Nagios calls unknown
  }
  if (line.sim.replays) {
    ::setenv("GPULENS_FAKE_NVML", line.sim.replay_file.c_str(), 1);
    line.agent = {.config_file = line.sim.config_file, .flags = {}, .demo = true, .scenario = {}};
    line.runs_agent = true;
  }
  if (!line.runs_agent) return line.code;
  parser.reset();  // It is 160 kB, and the agent runs for months.
  return RunAgent(line.agent);
}

}  // namespace gpulens
