#include "cli/collect/collect_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/gpu.h"
#include "cli/collect/older_options.h"
#include "cli/common/output.h"
#include "config/value_parse.h"
#include "pipeline/delivery/delivery.h"
#include "scrape/engine/engine_row.h"

namespace gpulens {

namespace {

constexpr Duration kLongestOnce = std::chrono::seconds(2);
// For one snapshot of an analyzer that reads a page: how often, and how many times. The energy between two
// readings of the page lies between others of the GPUs.
constexpr std::string_view kOnceEngineInterval = "1s";
constexpr int kEngineReadings = 4;

int Complain(const std::string& sentence) { return FailCommand("collect", sentence, 2); }

std::string Unknown(std::string_view noun, const std::string& word,
                    const std::vector<std::string_view>& names) {
  return "no " + std::string(noun) + " \"" + word + "\"." + DidYouMean(word, names) +
         " There are: " + Joined(names, " ");
}

// The collector to run, or the analyzer to run over all collectors of GPUs.
struct Target {
  const CollectorSpec* collector = nullptr;
  const AnalyzerSpec* analyzer = nullptr;

  std::string_view name() const { return collector ? collector->name : analyzer->name; }
  std::span<const OptionSpec> options() const { return collector ? collector->options : analyzer->options; }
  // The options of one target; empty for one without targets.
  std::span<const OptionSpec> element() const {
    return collector && collector->per_target ? collector->options : std::span<const OptionSpec>{};
  }
  // Its path in the configuration.
  std::string section() const { return (collector ? "collectors." : "analyzers.") + std::string(name()); }
};

bool ReadsGpus(const CollectorSpec& spec) {
  return std::ranges::find(spec.metrics, &kGpuUtilization) != spec.metrics.end();
}

// The options a person may give with -o: those of the collector (or of one of its targets) and of the sink.
// Where both have an option, the first of this name is the collector's and the second the sink's;
// "webhook.url" is always the sink's.
struct SplitOptions {
  std::vector<FlagValue> flags;
  std::string target_yaml;  // one element of the list of instances
};

Result<SplitOptions> SplitByOwner(const CollectOptions& options, const Target& target, const SinkSpec& sink) {
  SplitOptions out;
  const std::span<const OptionSpec> element = target.element();
  std::set<std::string> taken;  // by the target
  OlderResource resource;
  std::map<std::string, std::map<std::string, std::string>> grouped;  // {transport: {username: …}}
  std::string yaml = "{";
  auto add = [&yaml](std::string_view key, std::string_view value) {
    yaml.append(yaml.back() == '{' ? "" : ", ").append(key).append(": ");
    AppendJsonString(yaml, value);
  };
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
      add(key, value);
    } else if (of_target) {
      out.flags.push_back({"-o " + key, target.section() + "." + key, value});
    } else {
      return Status{Code::kInvalidArgument, "neither " + std::string(target.name()) + " nor " +
                                                std::string(sink.name) + " has an option \"" + key +
                                                "\". List them: gpulens config schema"};
    }
  }
  for (const auto& [group, values] : grouped) {
    yaml += (yaml.back() == '{' ? "" : ", ") + group + ": {";
    for (const auto& [key, value] : values) add(key, value);
    yaml += "}";
  }
  resource.AddTo(out.flags);
  if (yaml == "{") return out;
  if (yaml.find("name: ") == std::string::npos) yaml += ", name: collect";
  // A target has an interval of its own, which would win over the collector's.
  if (!options.interval.empty() && FindOption(element, "interval") &&
      yaml.find("interval: ") == std::string::npos)
    add("interval", options.interval);
  out.target_yaml = yaml + "}";
  return out;
}

LoadOutcome LoadForCollect(const Schema& schema, const std::string& file, const SplitOptions& split) {
  if (split.target_yaml.empty()) return LoadConfig(schema, FindConfigFile(file), split.flags);
  // A target of the command line replaces those of a file.
  ConfigSources sources;
  sources.file_name = "command line";
  sources.file_text = "targets: [" + split.target_yaml + "]\n";
  sources.flags = split.flags;
  return Load(schema, sources);
}

SessionOptions MakeSession(const CollectOptions& options, const Target& target, const Config& config) {
  SessionOptions session;
  session.once = options.once;
  session.strict = options.strict;
  session.demo = options.demo;
  session.analyzer = target.analyzer;
  if (target.collector) session.collectors = {target.collector};
  // This analyzer derives rates and quantiles from the page of an engine.
  if (target.collector && target.collector->per_target)
    session.extra_analyzer = FindAnalyzer(kEnginesAnalyzer);
  // The record of a GPU includes its events.
  if (target.collector && options.gpus_only) session.extra_analyzer = FindAnalyzer("gpu_events");
  for (const CollectorSpec* spec : AllCollectors()) {
    if (!target.analyzer || !ReadsGpus(*spec)) continue;
    if (IsOn(*spec, config)) session.collectors.push_back(spec);
  }
  if (!options.engine_url.empty()) {
    session.collectors.push_back(FindCollector(kTargetsCollector));
    session.readings = kEngineReadings;
  }
  return session;
}

// Replaces the targets of the configuration by one page of vLLM. Reports errors like Load.
LoadOutcome LoadEngine(const Schema& schema, const CollectOptions& options) {
  std::string yaml = "targets: [{name: vllm, kind: vllm, url: ";
  AppendJsonString(yaml, options.engine_url);
  const std::string interval = options.once ? std::string(kOnceEngineInterval) : options.interval;
  if (!interval.empty()) {
    yaml += ", interval: ";
    AppendJsonString(yaml, interval);
  }
  ConfigSources sources;
  sources.file_name = "command line";
  sources.file_text = yaml + "}]\n";
  return Load(schema, sources);
}

// The values that the command line sets over the configuration.
void AddFlags(const CollectOptions& options, const Target& target, std::vector<FlagValue>& flags) {
  // The demo has NVIDIA GPUs; `collect amd` simulates AMD's instead.
  const bool library =
      std::ranges::any_of(options.options, [](const auto& option) { return option.first == "library"; });
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
  if (options.queries_cloud) flags.push_back({"gpulens collect", "enrichers.cloud.enabled", "true"});
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
  if (target.analyzer && target.name() == kCostAnalyzer) {
    options.engine_url = options.endpoint;
    return {};
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
  Result<SplitOptions> split = SplitByOwner(options, target, *sink);
  if (!split) return Complain(split.error().detail);
  AddFlags(options, target, split->flags);
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = LoadForCollect(*schema, options.config_file, *split);
  if (sink_name == "file" && loaded.config.Group("sinks").Group("file").Text("path").empty()) {
    split->flags.push_back({"--sink", "sinks.file.path", std::string(kMetricsFile)});
    loaded = LoadForCollect(*schema, options.config_file, *split);
  }
  std::string report = loaded.Errors();
  if (!options.engine_url.empty() && loaded.ok()) {
    LoadOutcome engine = LoadEngine(*schema, options);
    report += engine.Errors();
    if (!engine.ok()) loaded = std::move(engine);
    else loaded.config.Set("targets", engine.config.Groups("targets"), engine.config.origin("targets"));
  }
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  if (!loaded.ok()) return 2;

  if (options.demo) ::dprintf(STDERR_FILENO, "SIMULATED GPUs: no GPU is read.\n");
  CollectSession session(MakeSession(options, target, loaded.config), loaded.config);
  auto made = MakeStandaloneSink(*sink, SinkConfig(loaded.config, sink->name), session.env());
  if (!made) return Complain(made.error().detail);
  return session.Run(**made);
}

// What the probe of a collector found, as a word and a reason.
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

// "  analyzers   a b c", in lines of 78 columns.
void AppendNames(std::string& out, std::string_view noun, const std::vector<std::string_view>& names) {
  constexpr size_t kIndent = 14;
  out += Padded("  " + std::string(noun), kIndent);
  AppendWrapped(out, Joined(names, " "), kIndent, kIndent, 78);
}

struct NamedGroup {
  std::string_view title;
  std::vector<std::string_view> names;
};

std::vector<NamedGroup> TargetGroups() {
  std::vector<NamedGroup> groups{{"collectors", {}}, {"analyzers", {}}, {"pages", EngineNames()}};
  for (const CollectorSpec* spec : AllCollectors()) groups[0].names.push_back(spec->name);
  for (const AnalyzerSpec* spec : AllAnalyzers()) groups[1].names.push_back(spec->name);
  groups[2].names.insert(groups[2].names.begin(), "dcgm");
  return groups;
}

// Interval of a single reading: two seconds suffice for rates.
constexpr std::string_view kOnceInterval = "2s";

// Pages of programs that are not LLM engines.
struct KnownPage {
  std::string_view name, kind, url;
};
constexpr KnownPage kPages[] = {{"dcgm", "dcgm", "http://localhost:9400/metrics"},
                                {"engines", "engine", {}},
                                {"scrape", "prometheus", {}},
                                {"gpu_page", "gpu", {}}};

const KnownPage* FindPage(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kPages, name, &KnownPage::name);
  return found == std::end(kPages) ? nullptr : found;
}

bool Sets(const CollectOptions& options, std::string_view key) {
  return std::ranges::find(options.options, key, &std::pair<std::string, std::string>::first) !=
         options.options.end();
}

using std::chrono::seconds;

// Time for the first values of a source such as a reader process or an HTTP page, and the longest deadline of
// a first reading.
constexpr Duration kTimeout = seconds(10), kLongestTimeout = seconds(60);
// Longest interval of ticks, so that values are written soon after they were read.
constexpr Duration kLongestTick = seconds(1);
// Longest wait for the second reading that the rates of one snapshot need.
constexpr Duration kSecondReading = seconds(2);

bool HasValue(const Snapshot& snapshot) {
  for (const SnapshotEntry& entry : snapshot.frames) {
    for (Quality quality : entry.frame->quality) {
      if (quality != Quality::kAbsent) return true;
    }
  }
  return false;
}

}  // namespace

std::string TargetNames() {
  std::string out = "\nCOLLECTOR is one of these; gpulens collect --list shows which are available:\n";
  for (const NamedGroup& group : TargetGroups()) AppendNames(out, group.title, group.names);
  return out;
}

std::vector<std::string> TargetWords() {
  std::vector<std::string> words;
  for (const NamedGroup& group : TargetGroups())
    words.insert(words.end(), group.names.begin(), group.names.end());
  return words;
}

int ListCollectors(const std::string& config_file, bool demo) {
  const CommandConfig loaded = LoadCommandConfig(config_file);
  if (!loaded.ok()) return 2;
  Env env;
  env.demo = demo;
  std::string out = Padded("COLLECTOR", 16, 1) + "WHAT IT READS\n";
  for (const CollectorSpec* spec : AllCollectors()) {
    out += Padded(spec->name, 16, 1) + std::string(spec->help) + "   " +
           Presence(*spec, loaded.config(), env) + "\n";
  }
  out += "\n" + Padded("ANALYZER", 16, 1) + "WHAT IT DERIVES\n";
  for (const AnalyzerSpec* spec : AllAnalyzers())
    out += Padded(spec->name, 16, 1) + std::string(spec->help) + "\n";
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

bool IsEngine(std::string_view name) noexcept { return engine_page::FindEngine(name) != nullptr; }

bool IsPage(std::string_view name) noexcept { return IsEngine(name) || FindPage(name); }

std::vector<std::string_view> EngineNames() {
  std::vector<std::string_view> names;
  for (const engine_page::Engine& engine : engine_page::AllEngines()) names.push_back(engine.name);
  return names;
}

std::string PageUrl(std::string_view name) {
  if (const KnownPage* page = FindPage(name)) return std::string(page->url);
  const engine_page::Engine* engine = engine_page::FindEngine(name);
  if (!engine) return {};
  return "http://localhost:" + std::to_string(engine->port) + std::string(engine->path);
}

void ResolvePage(CollectOptions& options) {
  if (!IsPage(options.target)) return;
  const std::string name = std::exchange(options.target, std::string(kTargetsCollector));
  if (options.once && options.interval.empty()) options.interval = kOnceInterval;
  const bool has_url = !options.endpoint.empty() || Sets(options, "url");
  if (!has_url && !options.config_file.empty()) return;
  auto otherwise = [&](std::string_view key, std::string value) {
    if (!Sets(options, key) && !value.empty()) options.options.emplace_back(key, std::move(value));
  };
  const KnownPage* page = FindPage(name);
  otherwise("name", name);
  otherwise("kind", page ? std::string(page->kind) : name);
  if (options.endpoint.empty()) otherwise("url", PageUrl(name));
}

CollectSession::CollectSession(SessionOptions options, const Config& config)
    : options_(std::move(options)), budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))) {
  env_.io = &io_;
  env_.http = &client_;
  env_.workers = &workers_;
  env_.latest = &hub_;
  env_.events = &queue_;
  job_pages_.Configure(JobPagesOptions(config));
  env_.job_pages = &job_pages_;
  env_.demo = options_.demo;
  plan_.interval = std::min<Duration>(config.Time("interval"), kLongestTick);
  plan_.resource = MakeResource(config, {.demo = options_.demo, .host_name = HostName()});
  for (const CollectorSpec* spec : options_.collectors) {
    for (Instance::Setup& setup : MakeInstances(*spec, config)) {
      interval_ = interval_ == Duration{} ? setup.period : std::min(interval_, setup.period);
      first_reading_ = std::max(first_reading_, setup.deadline);
      plan_.instances.push_back(std::move(setup));
    }
  }
  first_reading_ = std::clamp<Duration>(first_reading_, kTimeout, kLongestTimeout);
  plan_.enrichers = MakeEnrichers(config);
  for (const AnalyzerSpec* spec : {options_.analyzer, options_.extra_analyzer}) {
    if (spec) plan_.analyzers.push_back({spec, config.Group("analyzers").Group(spec->name)});
  }
}

Ref<const Snapshot> CollectSession::OnlyOurs(const Snapshot& snapshot) const {
  Ref<Snapshot> ours = MakeRef<Snapshot>();
  ours->closed_at = snapshot.closed_at;
  ours->tick = snapshot.tick;
  ours->resource = snapshot.resource;
  for (const SnapshotEntry& entry : snapshot.frames) {
    if (options_.analyzer) {
      if (entry.source == options_.analyzer->name) ours->frames.push_back(entry);
      continue;
    }
    for (const Pipeline::InstanceView& view : pipeline_->instances()) {
      if (view.name == entry.source && view.stats.runs_ok > 0) ours->frames.push_back(entry);
    }
  }
  // Without a value there is nothing to add to.
  if (!options_.extra_analyzer || !HasValue(*ours)) return ours;
  for (const SnapshotEntry& entry : snapshot.frames) {
    if (entry.source == options_.extra_analyzer->name) ours->frames.push_back(entry);
  }
  return ours;
}

bool CollectSession::HasNewReading(const Snapshot& snapshot) {
  bool fresh = false;
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    for (const SnapshotEntry& entry : snapshot.frames) {
      if (entry.source != view.name) continue;
      uint64_t& run = runs_[view.name];
      fresh = fresh || run != entry.frame->run;
      run = entry.frame->run;
    }
  }
  return fresh;
}

bool CollectSession::AllAnswered() const {
  return std::ranges::all_of(pipeline_->instances(), &Pipeline::InstanceView::answered);
}

void CollectSession::OnSnapshot(const Ref<const Snapshot>& snapshot) {
  queue_.TakeReady();  // Events are not shown here.
  Ref<const Snapshot> ours = OnlyOurs(*snapshot);
  if (!HasValue(*ours)) return;
  // The first record waits for all collectors, but not for slow ones.
  if (!taken_ && env_.clock->Now() - started_ < kSecondReading && !AllAnswered()) return;
  // Collectors that read in different ticks still make one record per interval.
  if (!options_.once && taken_ && snapshot->closed_at - *taken_ < interval_ / 2) return;
  // A repeated frame is not the second reading that rates need.
  if (!HasNewReading(*snapshot)) return;
  taken_ = snapshot->closed_at;
  std::lock_guard lock(mutex_);
  newest_ = std::move(ours);
  ++good_ticks_;
  wake_.notify_all();
}

// Prefers the reason of a collector whose devices are here over that of an absent one.
Status CollectSession::WhyNothing() const {
  Status why{Code::kUnavailable, "nothing was read: no target is configured"};
  bool found = false;
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    const Status& last = view.stats.last;
    if (last.ok() && found) continue;
    if (found && last.code == Code::kUnavailable) {
      if (why.detail.find(last.detail) == std::string::npos) why.detail += "; " + last.detail;
      continue;
    }
    found = !last.ok();
    why = last;
    if (last.ok() && view.stats.runs_ok > 0)
      why = {Code::kUnavailable, view.name + " was read and has no value"};
    else if (last.ok()) why = {Code::kTimeout, "the first reading of " + view.name + " has not finished"};
    if (found && last.code != Code::kUnavailable) break;
  }
  return why;
}

bool CollectSession::Doubtful() const {
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    if (view.stats.samples.stale != 0) return true;
    for (uint64_t rejected : view.stats.samples.rejected) {
      if (rejected != 0) return true;
    }
  }
  return false;
}

// Writes snapshots to the sink until one or `enough`. `any`: at least one was written.
Status CollectSession::Feed(Sink& sink, const bool* enough, bool& any) {
  // Rates need two readings, so one run is two of them; of a slow collector one reading is enough.
  const int needed = options_.once && interval_ <= kSecondReading ? options_.readings : 1;
  for (int seen = 0; !(any && options_.once) && !(enough && *enough);) {
    std::unique_lock lock(mutex_);
    bool ready =
        wake_.wait_for(lock, kTimeout, [&] { return stop_ || good_ticks_ >= std::max(needed, seen + 1); });
    if (stop_) return Ok();
    if (!ready) {
      if (any && enough != nullptr) return Status{Code::kTimeout, "nothing new was read"};
      if (any) continue;
      if (good_ticks_ == 0) {
        lock.unlock();
        if (!AllAnswered() && env_.clock->Now() - started_ < first_reading_) continue;
        return WhyNothing();
      }
    }
    seen = good_ticks_;
    Ref<const Snapshot> snapshot = newest_;
    lock.unlock();
    Status written = sink.Write(*snapshot);
    any = true;
    if (!written) return written;
  }
  return Ok();
}

int CollectSession::Run(Sink& sink, const bool* enough) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  auto stop = [this] {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  };
  for (int signal : {SIGINT, SIGTERM}) static_cast<void>(io_.OnSignal(signal, stop));
  io_.Start();
  pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
  started_ = env_.clock->Now();
  Status status = pipeline_->Apply(std::move(plan_));
  pipeline_->OnTick([this](const Ref<const Snapshot>& snapshot) { OnSnapshot(snapshot); });
  pipeline_->Start();
  bool any = false;
  if (status) status = Feed(sink, enough, any);
  if (any) {
    // A receiver that is down for a moment still gets the one reading.
    Status flushed = sink.Flush(env_.clock->Now() + seconds(options_.once ? 10 : 1));
    if (status) status = std::move(flushed);
  }
  bool doubtful = Doubtful();
  pipeline_->Stop(env_.clock->Now() + seconds(1));
  io_.Stop();
  if (!status) {
    ::dprintf(STDERR_FILENO, "gpulens %.*s: %s\n", static_cast<int>(options_.command.size()),
              options_.command.data(), status.detail.c_str());
  }
  return !status || !any || (options_.strict && doubtful) ? 1 : 0;
}

}  // namespace gpulens
