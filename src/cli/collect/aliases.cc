#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "agent/plugin_tables.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/collect/collect_command.h"
#include "cli/collect/older_options.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "config/value_parse.h"

namespace gpulens {
namespace {

// Intervals of the l9gpu project.
constexpr std::string_view kEvery = "60s";
constexpr std::string_view kEveryEngine = "30s";

// An option of an alias that is one of its target, under another name.
struct AliasOption {
  std::string_view option, type, help, key;
};

struct CommandAlias {
  std::string_view name, target, help;
  // An option of its own: its name, the keys under which the target may have it, and its default value.
  std::string_view option = {}, type = {}, option_help = {};
  std::span<const std::string_view> keys = {};
  std::string_view fallback = {};
  std::string_view every = kEvery;
  std::span<const AliasOption> more = {};

  // Whether the target is an LLM engine, whose table has the address of its page.
  bool IsOfEngine() const noexcept { return IsEngine(target); }
};

constexpr std::string_view kToolKeys[] = {"hl_smi_path", "hl_smi", "command", "path"};
constexpr std::string_view kPageKeys[] = {"url", "endpoint"};
constexpr std::string_view kWindowKeys[] = {"window"};

constexpr CommandAlias EngineAlias(std::string_view name, std::string_view target, std::string_view help,
                                   std::string_view option) {
  return {name, target, help, option, "URL", {}, kPageKeys, {}, kEveryEngine};
}

constexpr std::string_view kIntensity = "--co2-grams-per-kwh";
constexpr AliasOption kCostOptions[] = {
    {"--cost-per-gpu-hour", "USD", "Price of a GPU hour", "price_per_gpu_hour"},
    {"--instance-type", "NAME", "Instance type whose list price counts; otherwise the cloud is queried",
     "instance_type"},
    {"--idle-threshold", "R", "Utilization below which a GPU is idle after the hold time, 0.05",
     "idle_threshold"},
    {kIntensity, "G", "Carbon intensity of the electricity; 0: none", "co2_grams_per_kwh"},
    {"--pue", "R", "Power usage effectiveness, 1.0", "pue"},
};

constexpr std::string_view kNcclTarget = "nccl";
constexpr std::string_view kNcclFileKeys[] = {"files"};
constexpr AliasOption kNcclOptions[] = {
    {"--straggler-threshold-ms", "MS",
     "nccl_rank_straggler: how much longer than the median of its peers an operation takes a rank, 1000",
     "straggler_threshold"},
};

constexpr CommandAlias kAliases[] = {
    {"nvml_monitor", "nvidia", "NVIDIA GPUs, read through NVML."},
    {"amd_monitor", "amd", "AMD GPUs, read through AMD SMI."},
    {"gaudi_monitor", "gaudi", "Intel Gaudi cards, read from hl-smi.", "--hl-smi-path", "FILE",
     "The hl-smi program", kToolKeys},
    {"dcgm_monitor", "dcgm", "The page of a DCGM exporter.", "--dcgm-endpoint", "URL",
     "URL of the page, http://localhost:9400/metrics", kPageKeys, "http://localhost:9400/metrics"},
    {"fleet_health_monitor", "fleet_health", "Health of every GPU over a sliding window.", "--health-window",
     "D", "Length of the window, 300s", kWindowKeys},
    {.name = "cost_monitor",
     .target = kCostAnalyzer,
     .help = "Price, idleness, energy for tokens and carbon of every GPU.",
     .option = "--vllm-endpoint",
     .type = "URL",
     .option_help = "URL of the page of a vLLM server, for the price and energy of its tokens",
     .more = kCostOptions},
    {.name = "nccl_monitor",
     .target = kNcclTarget,
     .help = "Collectives of NCCL, read from the files of NCCL Inspector.",
     .option = "--nccl-log-path",
     .type = "FILE",
     .option_help = "File, folder or pattern; default: NCCL_INSPECTOR_LOG, else /tmp/nccl_inspector.jsonl",
     .keys = kNcclFileKeys,
     .fallback = "/tmp/nccl_inspector.jsonl",
     .every = kEveryEngine,
     .more = kNcclOptions},
    EngineAlias("vllm_monitor", "vllm", "The page of a vLLM server.", "--vllm-endpoint"),
    EngineAlias("nim_monitor", "nim", "The page of an NVIDIA NIM.", "--nim-endpoint"),
    EngineAlias("triton_monitor", "triton", "The page of a Triton server.", "--triton-endpoint"),
    EngineAlias("sglang_monitor", "sglang", "The page of an SGLang server.", "--sglang-endpoint"),
    EngineAlias("tgi_monitor", "tgi", "The page of a Text Generation Inference server.", "--tgi-endpoint"),
};

// Arguments of an alias.
struct AliasOptions {
  CollectOptions collect;
  std::vector<std::string> pairs;  // -o
  std::string own;                 // of CommandAlias::option
  std::vector<std::string> more;   // of CommandAlias::more
  std::string model;               // of an engine
  std::string log_level;           // empty: errors alone
  std::string push_interval;       // older name of collect.interval, which takes precedence
  bool dry_run = false;            // print the equivalent command
};

// Options of that project that have no effect here.
constexpr IgnoredOption kIgnored[] = {
    {"--collect-interval", false, "all readings of the interval are used, none is selected; see --interval"},
    {"--vendor", false, "the command name determines the vendor"},
    {"--log-folder", false, "the log goes to standard error"},
    {"--stdout", true, "the log goes to standard error, data to --sink"},
    {"--heterogeneous-cluster-v1", true, "no partition is added to the cluster's name"},
};

// The collector or analyzer that the alias runs.
std::string_view PartOf(const CommandAlias& alias) {
  return IsPage(alias.target) ? kTargetsCollector : alias.target;
}

bool Works(const CommandAlias& alias) {
  return FindCollector(PartOf(alias)) || (!alias.IsOfEngine() && FindAnalyzer(alias.target));
}

// Plain numbers are seconds, as in the l9gpu project.
std::string WithUnit(const std::string& text) {
  bool number =
      !text.empty() && std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return number ? text + "s" : text;
}

std::span<const OptionSpec> OptionsOf(std::string_view target) {
  if (const CollectorSpec* collector = FindCollector(target)) return collector->options;
  if (const AnalyzerSpec* analyzer = FindAnalyzer(target)) return analyzer->options;
  return {};
}

// The key under which the target has the option; empty when it has none.
std::string_view KeyOf(const CommandAlias& alias) {
  for (std::string_view key : alias.keys) {
    for (const OptionSpec& option : OptionsOf(PartOf(alias))) {
      if (option.key == key) return key;
    }
  }
  return {};
}

int Complain(const CommandAlias& alias, const std::string& sentence) {
  return FailCommand(alias.name, sentence, 2);
}

// Quotes a word for a shell.
std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:/=@%+[]";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string AsCollect(const CollectOptions& options) {
  std::string out = options.queries_cloud ? "GPULENS_ENRICHERS_CLOUD_ENABLED=true " : "";
  out += "gpulens collect " + options.target;
  if (!options.engine_url.empty()) out += " --endpoint " + Quoted(options.engine_url);
  if (options.once) out += " --once";
  if (!options.interval.empty()) out += " --interval " + Quoted(options.interval);
  out += " --sink " + Quoted(options.sink);
  for (const auto& [key, value] : options.options) out += " -o " + Quoted(key + "=" + value);
  if (options.gpus_only && options.sink == "stdout") out += " -o gpus_only=true";
  if (options.genai) out += " --emit-genai-namespace";
  if (!options.cluster.empty()) out += " --cluster " + Quoted(options.cluster);
  if (!options.config_file.empty()) out += " --config " + Quoted(options.config_file);
  if (options.demo) out += " --demo";
  if (options.strict) out += " --strict";
  return out + "\n";
}

// Adds the option of the alias to those of its target. False when the target has no such option.
bool PassOwnOption(const CommandAlias& alias, AliasOptions& options) {
  bool given = !options.own.empty();
  if (!given && (alias.fallback.empty() || !options.collect.config_file.empty())) return true;
  std::string_view key = KeyOf(alias);
  if (key.empty()) return !given;
  std::string value = given ? options.own : std::string(alias.fallback);
  // Before those of -o: a second option of this name is the sink's.
  options.collect.options.emplace(options.collect.options.begin(), key,
                                  alias.type == "D" ? WithUnit(value) : value);
  return true;
}

// Up to this interval the default of `longest_gap` suffices; that option's limit.
constexpr Duration kShortInterval = std::chrono::seconds(10), kLongestGap = std::chrono::hours(1);

// The options of `cost_monitor`. Without a price the cloud is queried what this machine is.
void PassCostOptions(const CommandAlias& alias, AliasOptions& options) {
  CollectOptions& collect = options.collect;
  bool priced = !collect.config_file.empty();
  for (const auto& [key, value] : collect.options) priced = priced || key.starts_with("price_");
  for (size_t i = 0; i < alias.more.size(); ++i) {
    const std::string& value = options.more[i];
    if (value.empty() || (alias.more[i].option == kIntensity && ParseDouble(value) == 0)) continue;
    const std::string_view key = alias.more[i].key;
    priced = priced || key == "price_per_gpu_hour" || key == "instance_type";
    collect.options.emplace(collect.options.begin(), key, value);
  }
  // The time between two readings is no gap in the ledger, however long the interval is.
  Duration interval{};
  const bool has_gap =
      std::ranges::any_of(collect.options, [](const auto& option) { return option.first == "longest_gap"; });
  if (!collect.once && !has_gap && !ParseTimeValue(collect.interval, interval) && interval > kShortInterval) {
    const Duration gap = std::min<Duration>(3 * interval, kLongestGap);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(gap).count();
    collect.options.emplace(collect.options.begin(), "longest_gap", std::to_string(seconds) + "s");
  }
  collect.queries_cloud = !priced;
  collect.engine_url = options.own;
  // Values of an engine are those of no single GPU.
  if (!options.own.empty()) collect.gpus_only = false;
}

// The options of `nccl_monitor`: its names, and with --once what the files have already.
void PassNcclOptions(const CommandAlias& alias, AliasOptions& options, const SinkSpec* sink) {
  auto& given = options.collect.options;
  if (const char* file = ::getenv("NCCL_INSPECTOR_LOG"); file && *file && options.own.empty())
    options.own = file;
  if (!options.more[0].empty())
    given.emplace(given.begin(), alias.more[0].key,
                  ParseDouble(options.more[0]) ? options.more[0] + "ms" : options.more[0]);
  if (options.collect.once) given.emplace(given.begin(), "read_from", "start");
  if (sink && FindOption(sink->options, "names"))
    given.emplace(given.begin(), std::string(sink->name) + ".names", "l9gpu");
}

// Sets the interval. For one snapshot, the second reading that rates need does not wait a minute.
void SetInterval(const CommandAlias& alias, const std::string& push_interval, CollectOptions& collect) {
  if (collect.interval.empty()) collect.interval = push_interval;
  collect.interval = WithUnit(collect.interval);
  if (collect.interval.empty() && !collect.once) collect.interval = alias.every;
  if (collect.once && alias.IsOfEngine()) collect.interval.clear();
}

int RunAlias(const CommandAlias& alias, AliasOptions options) {
  CollectOptions& collect = options.collect;
  if (!Works(alias)) {
    return Complain(alias, "this build has no collector \"" + std::string(PartOf(alias)) +
                               "\", which this command is an alias of; list them: gpulens collect --list");
  }
  collect.target = alias.target;
  collect.gpus_only = !alias.IsOfEngine() && alias.target != kNcclTarget;
  SetInterval(alias, options.push_interval, collect);
  ValueCheck wrong;
  if (alias.type == "URL" && !options.own.empty()) wrong = CheckUrlValue(options.own);
  if (wrong) return Complain(alias, std::string(alias.option) + ": " + wrong->problem + "; " + wrong->hint);
  if (!options.model.empty()) collect.options.emplace_back("model", options.model);
  const SinkSpec* sink = FindSink(collect.sink == "otel" ? "otlp" : collect.sink);
  const auto pairs = SplitPairs(options.pairs);
  if (!pairs) return Complain(alias, pairs.error().detail);
  for (const auto& [key, value] : *pairs) {
    // -o sets an option of the sink, or else one of the collector.
    const SinkOption option = sink ? SinkOptionOf(*sink, key, value) : SinkOption{};
    if (option.known) collect.options.emplace_back(std::string(sink->name) + "." + option.key, option.value);
    else collect.options.emplace_back(key, value);
  }
  if (alias.target == kNcclTarget) PassNcclOptions(alias, options, sink);
  if (alias.target == kCostAnalyzer) PassCostOptions(alias, options);
  else if (!PassOwnOption(alias, options))
    return Complain(alias, std::string(alias.option) + ": " + collect.target + " has no such option");
  if (options.dry_run) {
    std::fputs(AsCollect(collect).c_str(), stdout);
    return 0;
  }
  // The output is data: log only errors, and why there is no price.
  Status levels =
      SetLogLevels(options.log_level.empty() ? "error,cost=warn" : OlderLogLevels(options.log_level));
  if (!levels) return Complain(alias, "--log-level: " + levels.detail);
  return RunCollect(collect);
}

void AddEngineOptions(CLI::App& command, AliasOptions& options) {
  AddOption(command, "--model-name,--model", options.model, "model.name if the page does not contain it",
            "NAME");
  command.add_flag("--emit-genai-namespace", options.collect.genai,
                   "Add OpenTelemetry's gen_ai.* names to the native ones");
}

void AddAlias(CLI::App& app, const CommandAlias& alias, int& code) {
  CLI::App* command = app.add_subcommand(std::string(alias.name), std::string(alias.help));
  command->group(Works(alias) ? "Monitors, under the names of l9gpu" : "");
  auto options = std::make_shared<AliasOptions>();
  CollectOptions& collect = options->collect;
  collect.sink = "stdout";
  command->add_flag("--once", collect.once,
                    std::string("One snapshot; rates come from two readings ") +
                        (alias.IsOfEngine() ? "two seconds" : "one second") + " apart");
  AddOption(*command, "--interval", collect.interval, "Interval, " + std::string(alias.every), "D");
  AddOption(*command, "--push-interval", options->push_interval, "Same as --interval, which takes precedence",
            "D");
  AddOption(*command, "--sink", collect.sink,
            "Sink: stdout (a JSON array each time), file (a line for each reading, in metrics.jsonl "
            "without -o path=FILE), otlp, …",
            "S")
      ->capture_default_str();
  AddOption(*command, "-o,--sink-opt,--sink-opts", options->pairs,
            "An option of the sink, else of the collector; repeatable", "KEY=VALUE");
  if (!alias.option.empty()) {
    std::string help(alias.option_help);
    if (alias.IsOfEngine()) help = "URL of the page, " + PageUrl(alias.target);
    AddOption(*command, std::string(alias.option), options->own, help, std::string(alias.type));
  }
  options->more.resize(alias.more.size());
  for (size_t i = 0; i < alias.more.size(); ++i) {
    const AliasOption& more = alias.more[i];
    AddOption(*command, std::string(more.option), options->more[i], std::string(more.help),
              std::string(more.type));
  }
  if (alias.IsOfEngine()) AddEngineOptions(*command, *options);
  command->add_option("--cluster", collect.cluster, "Name of the cluster, added to every series");
  AddOption(*command, "--log-level", options->log_level, "error, warn, info or debug", "L");
  AddConfigOption(*command, collect.config_file);
  command->add_flag("--demo", collect.demo, "Simulate GPUs");
  command->add_flag("--strict", collect.strict, "Exit 1 when a reading is stale or rejected");
  command->add_flag("--dry-run", options->dry_run, "Print the equivalent gpulens collect command and exit");
  AddIgnoredOptions(*command, alias.name, kIgnored);
  command->footer("\nAlias of gpulens collect " + std::string(alias.target) +
                  (alias.IsOfEngine()            ? "."
                   : alias.target == kNcclTarget ? ", with one element for each rank."
                                                 : ", with one element for each GPU.") +
                  "\nExit: 0 something was read · 1 nothing could be read · "
                  "2 wrong use");
  command->callback([&alias, &code, options] { code = RunAlias(alias, *options); });
}

}  // namespace

void AddIgnoredOptions(CLI::App& command, std::string_view command_name,
                       std::span<const IgnoredOption> options) {
  for (const IgnoredOption& ignored : options) {
    auto report = [command_name, &ignored] {
      FailCommand(command_name, std::string(ignored.option) + " has no effect here: " + ignored.why, 0);
    };
    constexpr const char* kHelp = "Accepted, without effect";
    CLI::Option* option = ignored.flag
                              ? command.add_flag_callback(ignored.option, report, kHelp)
                              : command.add_option_function<std::string>(
                                    ignored.option, [report](const std::string&) { report(); }, kHelp);
    option->group("Options without effect");
  }
}

void AddAliases(CLI::App& app, int& code) {
  for (const CommandAlias& alias : kAliases) AddAlias(app, alias, code);
}

}  // namespace gpulens
