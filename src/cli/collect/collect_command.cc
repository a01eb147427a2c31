#include "cli/collect/collect_command.h"
#include "cli/common/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/gpu.h"
#include "cli/collect/collect_session.h"
#include "cli/collect/older_options.h"
#include "cli/common/text_table.h"
#include "config/value_parse.h"
#include "pipeline/delivery/delivery.h"

namespace gpulens {
namespace {

constexpr Duration kLongestOnce = std::chrono::seconds(2);

int Complain(const std::string& sentence) { return FailCommand("collect", sentence, 2); }

std::string Unknown(std::string_view noun, const std::string& word,
                    const std::vector<std::string_view>& names) {
  std::string list;
  for (std::string_view name : names) list += (list.empty() ? "" : " ") + std::string(name);
  return "no " + std::string(noun) + " \"" + word + "\"." + DidYouMean(word, names) + " There are: " + list;
}

// What is to be run: a collector, or an analyzer over all collectors of GPUs.
struct Target {
  const CollectorSpec* collector = nullptr;
  const AnalyzerSpec* analyzer = nullptr;

  std::string_view name() const { return collector ? collector->name : analyzer->name; }
  std::span<const OptionSpec> options() const { return collector ? collector->options : analyzer->options; }
  // The options of one target; empty for one without targets.
  std::span<const OptionSpec> element() const {
    return collector && collector->per_target ? collector->options : std::span<const OptionSpec>{};
  }
  // Its group in the configuration.
  std::string section() const { return (collector ? "collectors." : "analyzers.") + std::string(name()); }
};

bool ReadsGpus(const CollectorSpec& spec) {
  return std::find(spec.metrics.begin(), spec.metrics.end(), &kGpuUtilization) != spec.metrics.end();
}

// The options a person may give with -o: those of the collector (or of one of its targets) and of the sink.
// Where both have one of this name, the first is the collector's and the second the sink's; "webhook.url"
// says so.
struct Spread {
  std::vector<FlagValue> flags;
  std::string target_yaml;  // one element of the list of instances
};

Result<Spread> SpreadOptions(const CollectOptions& options, const Target& target, const SinkSpec& sink) {
  Spread out;
  const std::span<const OptionSpec> element = target.element();
  std::set<std::string> taken;  // by the target
  OlderResource resource;
  std::map<std::string, std::map<std::string, std::string>>
      grouped;  // of the target: {transport: {username: …}}
  for (const auto& [given, value] : options.options) {
    ASSIGN_OR_RETURN(const bool is_resource, resource.Take(given, value));
    if (is_resource) continue;
    const bool prefixed = given.starts_with(std::string(sink.name) + ".");
    const SinkOption of_sink =
        SinkOptionOf(sink, prefixed ? given.substr(sink.name.size() + 1) : given, value);
    const bool named = prefixed || of_sink.older;
    const std::string key = named ? of_sink.key : PlacedOption(element, given);
    const bool common = target.collector && element.empty() && (key == "timeout" || key == "ttl");
    const bool of_target = FindOption(element, key) || common || FindOption(target.options(), key);
    if (of_sink.known && (named || !of_target || !taken.insert(key).second)) {
      out.flags.push_back(
          {"-o " + key, "sinks." + std::string(sink.name) + "." + of_sink.key, of_sink.value});
    } else if (named) {
      return Status{Code::kInvalidArgument,
                    "the sink " + std::string(sink.name) + " has no option \"" + key + "\""};
    } else if (FindOption(element, key)) {
      const size_t dot = key.find('.');
      if (dot != key.npos) {
        grouped[key.substr(0, dot)][key.substr(dot + 1)] = value;
        continue;
      }
      out.target_yaml += out.target_yaml.empty() ? "{" : ", ";
      out.target_yaml += key + ": ";
      AppendJsonString(out.target_yaml, value);
    } else if (of_target) {
      out.flags.push_back({"-o " + key, target.section() + "." + key, value});
    } else {
      return Status{Code::kInvalidArgument, "neither " + std::string(target.name()) + " nor " +
                                                std::string(sink.name) + " has an option \"" + key +
                                                "\". List them: gpulens config schema"};
    }
  }
  for (const auto& [group, values] : grouped) {
    out.target_yaml += (out.target_yaml.empty() ? "{" : ", ") + group + ": {";
    for (const auto& [key, value] : values) {
      if (out.target_yaml.back() != '{') out.target_yaml += ", ";
      out.target_yaml += key + ": ";
      AppendJsonString(out.target_yaml, value);
    }
    out.target_yaml += "}";
  }
  resource.AddTo(out.flags);
  if (!out.target_yaml.empty()) {
    if (out.target_yaml.find("name: ") == std::string::npos) out.target_yaml += ", name: collect";
    // A target has an interval of its own, which would win over the collector's.
    if (!options.interval.empty() && FindOption(element, "interval") &&
        out.target_yaml.find("interval: ") == std::string::npos) {
      out.target_yaml += ", interval: ";
      AppendJsonString(out.target_yaml, options.interval);
    }
    out.target_yaml += "}";
  }
  return out;
}

LoadOutcome LoadForCollect(const Schema& schema, const std::string& file, const Spread& spread) {
  if (spread.target_yaml.empty()) return LoadConfig(schema, FindConfigFile(file), spread.flags);
  // A target of the command line replaces those of a file.
  Sources sources;
  sources.file_name = "command line";
  sources.file_text = "targets: [" + spread.target_yaml + "]\n";
  sources.flags = spread.flags;
  return Load(schema, sources);
}

SessionOptions MakeSession(const CollectOptions& options, const Target& target, const Config& config) {
  SessionOptions session;
  session.once = options.once;
  session.strict = options.strict;
  session.demo = options.demo;
  session.analyzer = target.analyzer;
  if (target.collector) session.collectors = {target.collector};
  // Rates and quantiles of an engine are made from its page.
  if (target.collector && target.collector->per_target) session.beside = FindAnalyzer(kEnginesAnalyzer);
  // What has happened to a GPU belongs to its record.
  if (target.collector && options.gpus_only) session.beside = FindAnalyzer("gpu_events");
  for (const CollectorSpec* spec : AllCollectors()) {
    if (!target.analyzer || !ReadsGpus(*spec)) continue;
    if (IsOn(*spec, config)) session.collectors.push_back(spec);
  }
  return session;
}

// The values that the command line sets over the configuration.
void AddFlags(const CollectOptions& options, const Target& target, std::vector<FlagValue>& flags) {
  // The demo has NVIDIA GPUs; `collect amd` simulates AMD's instead.
  const bool library = std::any_of(options.options.begin(), options.options.end(),
                                   [](const auto& option) { return option.first == "library"; });
  if (options.demo && target.collector && target.name() == "amd" && !library)
    flags.push_back({"--demo", "collectors.amd.library", "simulated"});
  // One collector alone exports all of its metrics, unless a sink of the file limits them.
  flags.insert(flags.begin(), {"gpulens collect", "metrics", "all"});
  if (options.sink.empty())
    flags.push_back({"--json", "sinks.stdout.format", options.json ? "json" : "table"});
  if (options.sink.empty() || options.sink == "stdout") {
    flags.push_back({"--sink", "sinks.stdout.end_when_closed", "true"});
    if (options.gpus_only) flags.push_back({"--sink", "sinks.stdout.gpus_only", "true"});
  }
  if (options.genai) {
    std::string sink = options.sink.empty() ? "stdout" : options.sink;
    flags.push_back({"--emit-genai-namespace", "sinks." + sink + ".names", "native,otel_genai"});
  }
  if (!options.cluster.empty()) flags.push_back({"--cluster", "resource.cluster", options.cluster});
  if (options.interval.empty()) return;
  flags.push_back({"--interval", "interval", options.interval});
  for (const CollectorSpec* spec : AllCollectors()) {
    if (spec->per_target) continue;  // each target has an interval of its own
    if (spec == target.collector || (target.analyzer && ReadsGpus(*spec)))
      flags.push_back(
          {"--interval", "collectors." + std::string(spec->name) + ".interval", options.interval});
  }
}

// Checks --endpoint and adds it to the options of the target. Returns an error text, or nothing.
std::string TakeEndpoint(CollectOptions& options, const Target& target) {
  if (options.endpoint.empty()) return {};
  if (ValueCheck wrong = CheckUrlValue(options.endpoint)) {
    return options.endpoint_option + ": " + wrong->problem + (wrong->hint.empty() ? "" : ". ") + wrong->hint;
  }
  if (!FindOption(target.element(), "url"))
    return options.endpoint_option + ": " + std::string(target.name()) + " does not read a page";
  options.options.emplace(options.options.begin(), "url", options.endpoint);
  return {};
}

int RunTarget(CollectOptions options) {
  Target target{FindCollector(options.target), nullptr};
  if (!target.collector) target.analyzer = FindAnalyzer(options.target);
  if (!target.collector && !target.analyzer) {
    std::vector<std::string_view> names;
    for (const CollectorSpec* spec : AllCollectors()) names.push_back(spec->name);
    for (const AnalyzerSpec* spec : AllAnalyzers()) names.push_back(spec->name);
    names.push_back("dcgm");
    for (std::string_view engine : EngineNames()) names.push_back(engine);
    return Complain(Unknown("collector", options.target, names));
  }
  if (std::string wrong = TakeEndpoint(options, target); !wrong.empty()) return Complain(wrong);
  std::string sink_name = options.sink.empty() ? "stdout" : options.sink == "otel" ? "otlp" : options.sink;
  const SinkSpec* sink = FindSink(sink_name);
  if (!sink) {
    std::vector<std::string_view> names;
    for (const SinkSpec* spec : AllSinks()) names.push_back(spec->name);
    return Complain(Unknown("sink", sink_name, names));
  }
  if (options.genai && !FindOption(sink->options, "names"))
    return Complain("--emit-genai-namespace: " + sink_name + " shows native names only");
  if (!options.sink.empty()) options.sink = sink_name;
  Result<Spread> spread = SpreadOptions(options, target, *sink);
  if (!spread) return Complain(spread.error().detail);
  AddFlags(options, target, spread->flags);
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = LoadForCollect(*schema, options.config_file, *spread);
  if (sink_name == "file" && loaded.config.Group("sinks").Group("file").Text("path").empty()) {
    spread->flags.push_back({"--sink", "sinks.file.path", std::string(kMetricsFile)});
    loaded = LoadForCollect(*schema, options.config_file, *spread);
  }
  std::string report = loaded.Errors();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  if (!loaded.ok()) return 2;

  if (options.demo) ::dprintf(STDERR_FILENO, "SIMULATED GPUs: no GPU is read.\n");
  CollectSession session(MakeSession(options, target, loaded.config), loaded.config);
  auto made = MakeStandaloneSink(*sink, SinkConfig(loaded.config, sink->name), session.env());
  if (!made) return Complain(made.error().detail);
  return session.Run(**made);
}

std::string Padded(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(out.size() + 1, width), ' ');
  return out;
}

// What the probe of a collector found, in one word and one reason.
std::string Presence(const CollectorSpec& spec, const Config& config, Env& env) {
  if (!spec.probe) return "here";
  std::string why;
  for (const Finding& finding : spec.probe(PartOf(spec, config), env)) {
    if (finding.kind == Finding::kFound) return "here";
    if (why.empty()) {
      std::string_view words[] = {"", "absent", "no permission", "broken"};
      why = words[finding.kind];
      const std::string& reason = finding.why.empty() ? finding.what : finding.why;
      if (!reason.empty()) why += " (" + reason + ")";
    }
  }
  return why.empty() ? "not configured" : why;
}

// "analyzers   a b c", in lines of 78 columns.
void AppendNames(std::string& out, std::string_view noun, const std::vector<std::string_view>& names) {
  constexpr size_t kIndent = 14, kWidth = 78;
  out += "\n  " + std::string(noun);
  size_t column = 2 + noun.size();
  for (std::string_view name : names) {
    const bool begins = name.data() == names.front().data();
    if (!begins && column + 1 + name.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    const size_t blanks = column < kIndent ? kIndent - column : 1;
    out.append(blanks, ' ') += name;
    column += blanks + name.size();
  }
}

}  // namespace

std::string TargetNames() {
  std::vector<std::string_view> collectors, analyzers;
  for (const CollectorSpec* spec : AllCollectors()) collectors.push_back(spec->name);
  for (const AnalyzerSpec* spec : AllAnalyzers()) analyzers.push_back(spec->name);
  std::string out = "\nCOLLECTOR is one of these; gpulens collect --list shows which are available:";
  AppendNames(out, "collectors", collectors);
  AppendNames(out, "analyzers", analyzers);
  std::vector<std::string_view> pages = EngineNames();
  pages.insert(pages.begin(), "dcgm");
  AppendNames(out, "pages", pages);
  return out + "\n";
}

int ListCollectors(const std::string& config_file, bool demo) {
  const CommandConfig loaded = LoadCommandConfig(config_file);
  if (!loaded.ok()) return 2;
  Env env;
  env.demo = demo;
  std::string out = Padded("COLLECTOR", 16) + "WHAT IT READS\n";
  for (const CollectorSpec* spec : AllCollectors()) {
    out += Padded(spec->name, 16) + std::string(spec->help) + "   " + Presence(*spec, loaded.config(), env) +
           "\n";
  }
  out += "\n" + Padded("ANALYZER", 16) + "WHAT IT DERIVES\n";
  for (const AnalyzerSpec* spec : AllAnalyzers())
    out += Padded(spec->name, 16) + std::string(spec->help) + "\n";
  return WriteText(out) ? 0 : 1;
}

int RunCollect(const CollectOptions& options) {
  CollectOptions resolved = options;
  // A snapshot with rates needs two readings; a long interval would delay the second one.
  Duration interval{};
  if (resolved.once && !ParseTimeValue(resolved.interval, interval) && interval > kLongestOnce)
    resolved.interval.clear();
  if (!FindCollector(options.target)) ResolvePage(resolved);
  return RunTarget(std::move(resolved));
}

}  // namespace gpulens
