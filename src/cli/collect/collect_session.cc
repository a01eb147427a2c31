#include "cli/collect/collect_session.h"

#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <utility>

#include "agent/run/plan.h"
#include "scrape/engine/engine_row.h"

namespace gpulens {

namespace {

// One reading does not wait for the target's own interval; two seconds suffice for rates.
constexpr std::string_view kOnceInterval = "2s";

// Pages that are no LLM engine's.
struct Page {
  std::string_view name, kind, url;
};
constexpr Page kPages[] = {{"dcgm", "dcgm", "http://localhost:9400/metrics"},
                           {"engines", "engine", {}},
                           {"scrape", "prometheus", {}},
                           {"gpu_page", "gpu", {}}};

const Page* FindPage(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kPages, name, &Page::name);
  return found == std::end(kPages) ? nullptr : found;
}

bool Sets(const CollectOptions& options, std::string_view key) {
  return std::ranges::find(options.options, key, &std::pair<std::string, std::string>::first) !=
         options.options.end();
}

}  // namespace

bool IsEngine(std::string_view name) noexcept { return engine_page::FindEngine(name) != nullptr; }

bool IsPage(std::string_view name) noexcept { return IsEngine(name) || FindPage(name); }

std::vector<std::string_view> EngineNames() {
  std::vector<std::string_view> names;
  for (const engine_page::Engine& engine : engine_page::AllEngines()) names.push_back(engine.name);
  return names;
}

std::string PageUrl(std::string_view name) {
  if (const Page* page = FindPage(name)) return std::string(page->url);
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
  const Page* page = FindPage(name);
  otherwise("name", name);
  otherwise("kind", page ? std::string(page->kind) : name);
  if (options.endpoint.empty()) otherwise("url", PageUrl(name));
}

namespace {

using std::chrono::seconds;

// A source that needs a moment (a reader process, an HTTP page) gets this long to have its first values; one
// whose first reading is still under way gets its own deadline, but no longer than this.
constexpr Duration kTimeout = seconds(10), kLongestTimeout = seconds(60);
// Ticks are closed this often at least, so that a collector's values are written when they are there.
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

CollectSession::CollectSession(SessionOptions options, const Config& config)
    : options_(std::move(options)), budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))) {
  env_.io = &io_;
  env_.http = &client_;
  env_.workers = &workers_;
  env_.latest = &hub_;
  env_.events = &queue_;
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
  for (const AnalyzerSpec* spec : {options_.analyzer, options_.beside}) {
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
  // Alone it would be a record without readings.
  if (!options_.beside || !HasValue(*ours)) return ours;
  for (const SnapshotEntry& entry : snapshot.frames) {
    if (entry.source == options_.beside->name) ours->frames.push_back(entry);
  }
  return ours;
}

bool CollectSession::HasNewReading(const Snapshot& snapshot) {
  bool anew = false;
  for (const Pipeline::InstanceView& view : pipeline_->instances()) {
    for (const SnapshotEntry& entry : snapshot.frames) {
      if (entry.source != view.name) continue;
      uint64_t& run = runs_[view.name];
      anew = anew || run != entry.frame->run;
      run = entry.frame->run;
    }
  }
  return anew;
}

bool CollectSession::AllAnswered() const {
  return std::ranges::all_of(pipeline_->instances(), &Pipeline::InstanceView::answered);
}

void CollectSession::OnSnapshot(const Ref<const Snapshot>& snapshot) {
  queue_.TakeReady();  // Events are not shown here.
  Ref<const Snapshot> ours = OnlyOurs(*snapshot);
  if (!HasValue(*ours)) return;
  // The first record is of all collectors that are here, as far as they are not too slow for it.
  if (!taken_ && env_.clock->Now() - started_ < kSecondReading && !AllAnswered()) return;
  // Collectors that do not read in the same tick are one record each interval all the same.
  if (!options_.once && taken_ && snapshot->closed_at - *taken_ < interval_ / 2) return;
  // A frame that rides along is no second reading, without which one snapshot has no rates.
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

// Hands snapshots to the sink until it is enough. `any`: at least one was written.
Status CollectSession::Feed(Sink& sink, const bool* enough, bool& any) {
  // Rates need two readings, so one run is two of them; of a slow collector one reading is enough.
  const int needed = options_.once && interval_ <= kSecondReading ? 2 : 1;
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
    // A receiver that is away for a moment still gets the one reading.
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
