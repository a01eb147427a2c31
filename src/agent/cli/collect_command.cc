#include "agent/cli/collect_command.h"

#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "base/result.h"
#include "base/text.h"
#include "base/workers.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

// A source that needs a moment (a driver process, an HTTP page) gets this long to have its first values.
constexpr Duration kPatience = seconds(10);

int Complain(const std::string& sentence) {
  ::dprintf(STDERR_FILENO, "gpulens collect: %s\n", sentence.c_str());
  return 2;
}

template <class Specs>
std::string Unknown(std::string_view noun, const std::string& word, Specs specs) {
  std::vector<std::string_view> names;
  std::string list;
  for (const auto* spec : specs) {
    names.push_back(spec->name);
    list += (list.empty() ? "" : " ") + std::string(spec->name);
  }
  std::string text = "no " + std::string(noun) + " \"" + word + "\". ";
  std::string_view nearest = NearestWord(word, names);
  if (!nearest.empty()) text += "Did you mean " + std::string(nearest) + "? ";
  return text + "There are: " + list;
}

const OptionSpec* FindOption(std::span<const OptionSpec> options, std::string_view key) {
  for (const OptionSpec& option : options) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

// The options a person may give with -o: those of the collector (or of one of its targets) and of the sink.
struct Spread {
  std::vector<FlagValue> flags;
  std::string target_yaml;  // one element of the list of instances
};

Result<Spread> SpreadOptions(const CollectOptions& options, const CollectorSpec& collector,
                             const SinkSpec& sink) {
  Spread out;
  std::span<const OptionSpec> element;
  if (const OptionSpec* list = FindOption(collector.options, collector.instances_option))
    element = list->children;
  for (const auto& [key, value] : options.options) {
    bool common = key == "timeout" || key == "ttl";
    if (FindOption(element, key)) {
      out.target_yaml += out.target_yaml.empty() ? "{" : ", ";
      out.target_yaml += key + ": ";
      AppendJsonString(out.target_yaml, value);
    } else if (common || FindOption(collector.options, key)) {
      out.flags.push_back({"-o " + key, "collectors." + std::string(collector.name) + "." + key, value});
    } else if (FindOption(sink.options, key)) {
      out.flags.push_back({"-o " + key, "sinks." + std::string(sink.name) + "." + key, value});
    } else {
      return Status{Code::kInvalidArgument, "neither " + std::string(collector.name) + " nor " +
                                                std::string(sink.name) + " has an option \"" + key +
                                                "\". All of them: gpulens config schema"};
    }
  }
  if (!out.target_yaml.empty()) {
    if (out.target_yaml.find("name: ") == std::string::npos) out.target_yaml += ", name: collect";
    out.target_yaml += "}";
  }
  return out;
}

LoadOutcome LoadForCollect(const Schema& schema, const CollectorSpec& collector, const std::string& file,
                           const Spread& spread) {
  if (spread.target_yaml.empty()) return LoadConfig(schema, FindConfigFile(file), spread.flags);
  // Given on the command line, the target stands in place of those of a file.
  Sources sources;
  sources.file_name = "command line";
  sources.file_text = "collectors: {" + std::string(collector.name) + ": {" +
                      std::string(collector.instances_option) + ": [" + spread.target_yaml + "]}}\n";
  sources.flags = spread.flags;
  return Load(schema, sources);
}

// Runs the pipeline and keeps the newest snapshot of this collector alone.
class Session {
 public:
  Session(const CollectOptions& options, const CollectorSpec& spec, const Config& config)
      : options_(options), budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))) {
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.demo = options.demo;
    plan_.instances = MakeInstances(spec, config);
    plan_.interval = config.Time("interval");
  }

  Env& env() { return env_; }
  int Run(Sink& sink);

 private:
  void Took(const Ref<const Snapshot>& snapshot);
  Ref<const Snapshot> OnlyOurs(const Snapshot& snapshot) const;
  Status WhyNothing() const;

  const CollectOptions& options_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  SnapshotHub hub_;
  SeriesBudget budget_;
  Env env_;
  PipelinePlan plan_;
  std::unique_ptr<Pipeline> pipeline_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Ref<const Snapshot> newest_;
  int good_ticks_ = 0;
  bool stop_ = false;
};

Ref<const Snapshot> Session::OnlyOurs(const Snapshot& snapshot) const {
  Ref<Snapshot> ours = MakeRef<Snapshot>();
  ours->closed_at = snapshot.closed_at;
  ours->tick = snapshot.tick;
  ours->resource = snapshot.resource;
  for (const SnapshotEntry& entry : snapshot.frames) {
    for (const Pipeline::InstanceView& view : pipeline_->instances()) {
      if (view.name == entry.source && view.stats.runs_ok > 0) ours->frames.push_back(entry);
    }
  }
  return ours;
}

bool HasValue(const Snapshot& snapshot) {
  for (const SnapshotEntry& entry : snapshot.frames) {
    for (Quality quality : entry.frame->quality) {
      if (quality != Quality::kAbsent) return true;
    }
  }
  return false;
}

void Session::Took(const Ref<const Snapshot>& snapshot) {
  Ref<const Snapshot> ours = OnlyOurs(*snapshot);
  if (!HasValue(*ours)) return;
  std::lock_guard lock(mutex_);
  newest_ = std::move(ours);
  ++good_ticks_;
  wake_.notify_all();
}

Status Session::WhyNothing() const {
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    if (!view.stats.last.ok()) return view.stats.last;
  }
  return {Code::kUnavailable, "nothing was read"};
}

int Session::Run(Sink& sink) {
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
  Status status = pipeline_->Apply(std::move(plan_));
  pipeline_->OnTick([this](const Ref<const Snapshot>& snapshot) { Took(snapshot); });
  pipeline_->Start();
  // Rates need two readings, so one run is two of them.
  const int needed = options_.once ? 2 : 1;
  bool any = false;
  for (int seen = 0; status && !(any && options_.once);) {
    std::unique_lock lock(mutex_);
    bool ready =
        wake_.wait_for(lock, kPatience, [&] { return stop_ || good_ticks_ >= std::max(needed, seen + 1); });
    if (stop_) break;
    if (!ready && !any) {
      lock.unlock();
      status = WhyNothing();
      break;
    }
    if (!ready) continue;
    seen = good_ticks_;
    Ref<const Snapshot> snapshot = newest_;
    lock.unlock();
    status = sink.Write(*snapshot);
    any = true;
  }
  if (any) static_cast<void>(sink.Flush(env_.clock->Now() + seconds(1)));
  bool doubtful = false;
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    doubtful = doubtful || view.stats.samples.stale != 0;
    for (uint64_t rejected : view.stats.samples.rejected) doubtful = doubtful || rejected != 0;
  }
  pipeline_->Stop(env_.clock->Now() + seconds(1));
  io_.Stop();
  if (!status) ::dprintf(STDERR_FILENO, "gpulens collect: %s\n", status.detail.c_str());
  return !status || !any || (options_.strict && doubtful) ? 1 : 0;
}

}  // namespace

int RunCollect(const CollectOptions& options) {
  const CollectorSpec* collector = FindCollector(options.collector);
  if (!collector) return Complain(Unknown("collector", options.collector, AllCollectors()));
  std::string sink_name = options.sink.empty() ? "stdout" : options.sink;
  const SinkSpec* sink = FindSink(sink_name);
  if (!sink) return Complain(Unknown("sink", sink_name, AllSinks()));
  Result<Spread> spread = SpreadOptions(options, *collector, *sink);
  if (!spread) return Complain(spread.error().detail);
  if (options.sink.empty()) {
    spread->flags.push_back({"--json", "sinks.stdout.format", options.json ? "json" : "table"});
  }
  if (sink_name == "stdout") spread->flags.push_back({"--sink", "sinks.stdout.end_when_closed", "true"});
  std::string section = "collectors." + std::string(collector->name);
  if (!options.interval.empty()) {
    spread->flags.push_back({"--interval", "interval", options.interval});
    spread->flags.push_back({"--interval", section + ".interval", options.interval});
  }
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = LoadForCollect(*schema, *collector, options.config_file, *spread);
  std::string report = loaded.Report();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  if (!loaded.ok()) return 2;

  if (options.demo) ::dprintf(STDERR_FILENO, "SIMULATED GPUs: no GPU is read.\n");
  Session session(options, *collector, loaded.config);
  auto made = sink->create(loaded.config.Group("sinks").Group(sink->name), session.env());
  if (!made) return Complain(made.error().detail);
  return session.Run(**made);
}

}  // namespace gpulens
