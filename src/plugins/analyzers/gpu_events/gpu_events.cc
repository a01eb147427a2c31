// Takes the events that were reported since the last tick, joins what is told twice, says which GPU they are
// about and what they mean, counts them, keeps them with the readings before, and hands them to the sinks.

#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/analyzers/gpu_events/event_counters.h"
#include "plugins/analyzers/gpu_events/event_facts.h"
#include "plugins/analyzers/gpu_events/event_follow.h"
#include "plugins/analyzers/gpu_events/event_join.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"
#include "plugins/analyzers/gpu_events/reading_ring.h"
#include "plugins/analyzers/gpu_events/recent_xids.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

constexpr int64_t kBeforeNs = 30'000'000'000;
// How the collector of the kernel log calls itself.
constexpr std::string_view kKernelLog = "kernel_log";
// Of the last XIDs, after a restart.
constexpr size_t kLookedBack = 1000;

// The number behind `"key":` in a flat JSON object that we wrote ourselves.
std::optional<int64_t> NumberIn(std::string_view object, std::string_view key) {
  std::string mark = "\"" + std::string(key) + "\":";
  size_t at = object.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view digits = object.substr(at + mark.size());
  return ParseInt<int64_t>(digits.substr(0, digits.find_first_not_of("0123456789")));
}

std::string WordIn(std::string_view object, std::string_view key) {
  std::string mark = "\"" + std::string(key) + "\":\"";
  size_t at = object.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view word = object.substr(at + mark.size());
  return std::string(word.substr(0, word.find('"')));
}

// What the store knows from before this process.
struct Before {
  std::map<std::string, EventCounters::LastXid, std::less<>> last;
  std::vector<RecentXids::Past> past;  // of this boot
};

// Empty when there is no store. `now`: of this process, to tell times of this boot from those before.
Before ReadBefore(const std::string& path, Instant now) {
  Before before;
  if (::access(path.c_str(), R_OK) != 0) return before;
  auto store = IncidentStore::Open({.path = path, .read_only = true});
  if (!store) return before;
  using Kind = RecentXids::Past::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {{kEventGpuXid.name, Kind::kXid},
                                                          {kEventGpuReset.name, Kind::kReset},
                                                          {kEventGpuXidClear.name, Kind::kClear}};
  for (auto [name, kind] : kKinds) {
    auto rows =
        (*store)->Find({.gpu_index = {}, .gpu_uuid = {}, .name = std::string(name), .limit = kLookedBack});
    if (!rows) continue;
    for (const Incident& row : *rows) {
      auto code = NumberIn(row.attributes, "gpu.xid.code");
      if (kind == Kind::kXid && code && !row.gpu_uuid.empty() && row.unix_ns > 0)
        before.last[row.gpu_uuid] = {row.unix_ns, *code};
      int64_t at_ns = now.boot_ns - (now.unix_ns - row.unix_ns);
      bool of_a_gpu = !row.gpu_uuid.empty() || kind == Kind::kClear;
      bool told = kind != Kind::kXid || row.severity > EventSeverity::kInfo;
      if (at_ns > 0 && at_ns <= now.boot_ns && of_a_gpu && told)
        before.past.push_back({kind, row.gpu_uuid, at_ns, WordIn(row.attributes, "gpu.xid.action")});
    }
  }
  return before;
}

bool FromKernelLog(std::string_view source) noexcept {
  return source == "kmsg" || source == "journald" || source == "file";
}

// What happens at every start is no incident: it goes to the sinks, and no store is opened for it.
bool IsRoutine(const Event& event) {
  if (event.name == kEventGpulensDriver.name) return event.attributes.Text("gpulens.change") == "started";
  return event.name == kEventGpuFound.name && event.attributes.Text("gpu.found.reason") == "start";
}

class GpuEvents final : public Analyzer {
 public:
  GpuEvents(const Config& config, Env& env)
      : queue_(env.events), clock_(*env.clock), demo_(env.demo), recent_(config.Time("xid_window")) {
    if (env.state_dir.empty() || !config.Bool("store")) return;
    IncidentStore::Options options;
    options.path = env.state_dir + "/" + std::string(kIncidentFile);
    options.max_bytes = config.Size("store_size");
    Before before = ReadBefore(options.path, clock_.Now());
    counters_.Remember(std::move(before.last));
    recent_.Remember(std::move(before.past));
    writer_ = std::make_unique<IncidentWriter>(std::move(options), clock_);
  }

  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    if (!queue_) return Ok();
    table_.Update(snapshot);
    ring_.Record(snapshot, table_);
    for (Event& event : queue_->Take()) Take(std::move(event), snapshot.closed_at);
    join_.TakeReady(snapshot.closed_at, ready_);
    for (Event& event : ready_) ReportOrFold(std::move(event), snapshot.closed_at);
    ready_.clear();
    fold_.TakeReady(snapshot.closed_at, ready_);
    for (Event& event : ready_) HandOver(std::move(event));
    ready_.clear();
    recent_.Write(table_, queue_->Watched(), snapshot.closed_at, out);
    counters_.Write(table_, {queue_->Watched(), queue_->Watched(kKernelLog)}, snapshot.closed_at, out);
    WriteSelf(out);
    return Ok();
  }

 private:
  void Take(Event event, Instant now) {
    if (event.at.boot_ns == 0) event.at = now;
    std::string source = event.attributes.Text("event.source");
    size_t gpu = table_.Find(event);
    // What a real kernel says is not about a simulated GPU, whatever the addresses. A file is a test's.
    if (gpu != GpuEventTable::kNone && table_[gpu].simulated && (source == "kmsg" || source == "journald"))
      gpu = GpuEventTable::kNone;
    if (gpu != GpuEventTable::kNone && !event.entity) event.entity = table_[gpu].entity;
    std::string device = DeviceOf(event, gpu);
    bool xid = event.name == kEventGpuXid.name;
    if (!xid && event.name != kEventGpuLost.name) return TakeAlone(std::move(event), gpu, device, false);
    EventJoin::Key key;
    key.what = std::string(event.name) + (xid ? " " + event.attributes.Text("gpu.xid.code") : "");
    key.device = device;
    bool wait = !FromKernelLog(source) && queue_->Watched(kKernelLog);
    Event counted = event;
    if (join_.Add(std::move(key), std::move(event), wait, now) == EventJoin::Fate::kNew) {
      counters_.Count(counted, gpu);
      if (auto follows = EventFollow::Of(counted)) TakeAlone(*std::move(follows), gpu, device, true);
    } else {
      ++joined_;
    }
  }

  static std::string DeviceOf(const Event& event, size_t gpu) {
    if (gpu != GpuEventTable::kNone) return "gpu " + std::to_string(gpu);
    return event.entity ? event.entity->attributes.Text("gpu.uuid") : event.attributes.Text(kEventPciBusId);
  }

  // What waits for no other source. `derived`: it follows from another event.
  void TakeAlone(Event event, size_t gpu, std::string_view device, bool derived) {
    if (follow_.Reported(event, device, derived)) {
      ++joined_;
      return;
    }
    counters_.Count(event, gpu);
    ready_.push_back(std::move(event));
  }

  // Whoever shows the events of `agent --demo` must see that they did not happen, also those of no GPU. What
  // the kernel of this machine reports has happened.
  void MarkSimulated(Event& event) const {
    if (demo_ && !FromKernelLog(event.attributes.Text("event.source")))
      event.attributes = event.attributes.OverlaidOn(AttributeSet({{"simulated", true}}));
  }

  // Hands over the event, or holds it to be told with others like it.
  void ReportOrFold(Event event, Instant now) {
    AddFacts(event);
    MarkSimulated(event);
    Settle(event);
    // What a driver or the kernel repeats may be a flood; what we have seen ourselves happens once.
    const bool repeated =
        event.name == kEventGpuXid.name || FromKernelLog(event.attributes.Text("event.source"));
    if (repeated && fold_.Hold(event, now)) queue_->Suppressed(1);
    else HandOver(std::move(event));
  }

  void HandOver(Event event) {
    if (std::string text = LogText(event); !text.empty()) {
      bool bad = event.severity >= EventSeverity::kError;
      std::string subject = event.attributes.Text("gpu.xid.code") + " " +
                            (event.entity ? event.entity->attributes.Text("gpu.index") : "");
      Log(bad ? LogLevel::kError : LogLevel::kWarn, "events", event.name, text, subject);
    }
    if (writer_ && !IsRoutine(event)) {
      Incident incident = MakeIncident(event);
      size_t gpu = table_.FindEntity(event.entity.get());
      if (gpu != GpuEventTable::kNone) {
        int64_t at = event.at.boot_ns;
        incident.readings = ReadingsJson(ring_.Between(gpu, at - kBeforeNs, at));
      }
      writer_->Add(std::move(incident));
    }
    queue_->Publish(std::move(event));
  }

  // Keeps account of the XIDs that nobody has dealt with.
  void Settle(Event& event) {
    if (event.name == kEventGpuXidClear.name) return ClearXids(event);
    size_t gpu = table_.FindEntity(event.entity.get());
    int64_t at_ns = event.at.boot_ns;
    if (event.name == kEventGpuReset.name) recent_.ClearByReset(gpu, at_ns);
    if (event.name == kEventGpuXid.name && event.severity > EventSeverity::kInfo)
      recent_.Add(gpu, at_ns, event.attributes.Text("gpu.xid.action"));
  }

  // Without a GPU, those of every GPU.
  void ClearXids(Event& event) {
    std::string wanted = event.attributes.Text("gpu.xid.clear.gpu");
    if (wanted.empty()) return recent_.Clear(GpuEventTable::kNone, event.at.boot_ns);
    for (size_t i = 0; i < table_.size(); ++i) {
      if (table_[i].uuid != wanted && table_[i].entity->attributes.Text("gpu.index") != wanted) continue;
      event.entity = table_[i].entity;
      recent_.Clear(i, event.at.boot_ns);
    }
    if (!event.entity) Log(LogLevel::kWarn, "events", "xid_clear", "there is no GPU " + wanted);
  }

  void WriteSelf(FrameWriter& out) {
    SeriesTable& table = out.table();
    if (!dropped_[0]) {
      constexpr std::string_view kReasons[] = {"overload", "rate_limit", "duplicate"};
      for (size_t i = 0; i < 3; ++i)
        dropped_[i] = table.Declare(kSelfEventsDropped, {}, {{"reason", kReasons[i]}});
    }
    out.Set(dropped_[0], queue_->dropped());
    out.Set(dropped_[1], queue_->suppressed());
    out.Set(dropped_[2], joined_);
    if (!writer_) return;
    if (!writes_[0]) {
      constexpr std::string_view kResults[] = {"ok", "error", "dropped"};
      EntityRef store = MakeRef<Entity>("store", AttributeSet({{"store", std::string_view("incidents")}}));
      for (size_t i = 0; i < 3; ++i)
        writes_[i] = table.Declare(kSelfStoreWrites, store, {{"result", kResults[i]}});
      size_ = table.Declare(kSelfStoreSize, store);
    }
    IncidentWriter::Stats stats = writer_->stats();
    out.Set(writes_[0], stats.ok);
    out.Set(writes_[1], stats.errors);
    out.Set(writes_[2], stats.dropped);
    if (stats.bytes != 0) out.Set(size_, stats.bytes);
  }

  EventQueue* const queue_;
  const Clock& clock_;
  const bool demo_;
  GpuEventTable table_;
  ReadingRing ring_;
  EventJoin join_;
  EventFollow follow_;
  EventFold fold_;
  EventCounters counters_;
  RecentXids recent_;
  std::unique_ptr<IncidentWriter> writer_;
  std::vector<Event> ready_;
  uint64_t joined_ = 0;
  Series dropped_[3], writes_[3], size_;
};

Result<std::unique_ptr<Analyzer>> Create(const Config& config, Env& env) {
  return std::unique_ptr<Analyzer>(std::make_unique<GpuEvents>(config, env));
}

constexpr OptionSpec kOptions[] = {
    {.key = "store",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Keep events with the readings before them in state_dir, for `gpulens events`."},
    {.key = "store_size",
     .type = OptionType::kSize,
     .fallback = "64MiB",
     .help = "Size of that file; the oldest events are deleted first.",
     .min = 1 << 20},
    {.key = "xid_window",
     .type = OptionType::kTime,
     .fallback = "24h",
     .help = "How long an XID counts in gpu.xid.recent, and so for health and checks, unless the GPU is "
             "reset, the machine boots, or `gpulens events clear` clears it.",
     .min = 60,
     .max = 30 * 86400},
};

constexpr const MetricDesc* kMetrics[] = {
    &kGpuXidErrors, &kGpuXidRecent, &kGpuXidCodeErrors,  &kGpuXidLastErrorTimestamp, &kGpuXidLastErrorCode,
    &kGpuRasErrors, &kSelfEvents,   &kSelfEventsDropped, &kSelfStoreWrites,          &kSelfStoreSize,
};

}  // namespace

extern const AnalyzerSpec gpu_events_analyzer;
const AnalyzerSpec gpu_events_analyzer{.name = "gpu_events",
                                       .help = "Joins, explains, counts and keeps what happened to GPUs.",
                                       .options = kOptions,
                                       .metrics = kMetrics,
                                       .create = &Create};

}  // namespace gpulens
