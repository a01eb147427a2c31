// Analyzer of events: joins reports of the same event, finds the GPU, adds what codes mean, counts, stores
// events with the readings before them, and publishes them to sinks.

#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/analyzers/gpu_events/event_steps.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

constexpr int64_t kBeforeNs = 30'000'000'000;
// The collector's source of events.
constexpr std::string_view kKernelLog = "kernel_log";
// XIDs that are read from the store at start.
constexpr size_t kPastEvents = 1000;

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

// Events before this process, from the store.
struct StoredEvents {
  std::map<std::string, EventCounters::LastXid, std::less<>> last;
  std::vector<RecentXids::Past> past;  // of this boot
};

// Empty without a store. `now` separates times of this boot from earlier ones.
StoredEvents ReadStore(const std::string& path, Instant now) {
  StoredEvents before;
  if (::access(path.c_str(), R_OK) != 0) return before;
  auto store = IncidentStore::Open({.path = path, .read_only = true});
  if (!store) return before;
  using Kind = RecentXids::Past::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {{kEventGpuXid.name, Kind::kXid},
                                                          {kEventGpuReset.name, Kind::kReset},
                                                          {kEventGpuXidClear.name, Kind::kClear}};
  for (auto [name, kind] : kKinds) {
    auto rows =
        (*store)->Find({.gpu_index = {}, .gpu_uuid = {}, .name = std::string(name), .limit = kPastEvents});
    if (!rows) continue;
    for (const Incident& row : *rows) {
      auto code = NumberIn(row.attributes, "gpu.xid.code");
      if (kind == Kind::kXid && code && !row.gpu_uuid.empty() && row.unix_ns > 0)
        before.last[row.gpu_uuid] = {row.unix_ns, *code};
      int64_t at_ns = now.boot_ns - (now.unix_ns - row.unix_ns);
      bool of_a_gpu = !row.gpu_uuid.empty() || kind == Kind::kClear;
      bool counts = kind != Kind::kXid || row.severity > EventSeverity::kInfo;
      if (at_ns > 0 && at_ns <= now.boot_ns && of_a_gpu && counts)
        before.past.push_back({kind, row.gpu_uuid, at_ns, WordIn(row.attributes, "gpu.xid.action")});
    }
  }
  return before;
}

bool FromKernelLog(std::string_view source) noexcept {
  return source == "kmsg" || source == "journald" || source == "file";
}

// Events of every start are not incidents: they are not stored.
bool IsRoutine(const Event& event) {
  if (event.name == kEventGpulensDriver.name) return event.attributes.Text("gpulens.change") == "started";
  return event.name == kEventGpuFound.name && event.attributes.Text("gpu.found.reason") == "start";
}

constexpr OptionSpec kOptions[] = {
    BoolOption("store", true,
               "Keep events with the readings before them in state_dir, for `gpulens events`."),
    SizeOption("store_size", "64MiB", "Size of that file; the oldest events are deleted first.", 1 << 20),
    TimeOption("xid_window", "24h",
               "How long an XID counts in gpu.xid.recent, and so for health and checks, unless the GPU is "
               "reset, the machine boots, or `gpulens events clear` clears it.",
               60, 30 * 86400),
};
using Options = OptionsOf<kOptions>;

class GpuEvents final : public Analyzer {
 public:
  GpuEvents(const Options& options, Env& env)
      : queue_(env.events), clock_(*env.clock), demo_(env.demo), recent_(options.Time("xid_window")) {
    if (env.state_dir.empty() || !options.Bool("store")) return;
    IncidentStore::Options store;
    store.path = env.state_dir + "/" + std::string(kIncidentFile);
    store.max_bytes = options.Size("store_size");
    StoredEvents before = ReadStore(store.path, clock_.Now());
    counters_.Remember(std::move(before.last));
    recent_.Remember(std::move(before.past));
    writer_ = std::make_unique<IncidentWriter>(std::move(store), clock_);
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
    for (Event& event : ready_) Publish(std::move(event));
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
    // The real kernel's events are not about simulated GPUs, whatever the address. Files are from tests.
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
    if (join_.Add(std::move(key), std::move(event), wait, now) == EventJoin::Outcome::kNew) {
      counters_.Count(counted, gpu);
      if (auto derived = EventFollow::DerivedFrom(counted)) TakeAlone(*std::move(derived), gpu, device, true);
    } else {
      ++joined_;
    }
  }

  static std::string DeviceOf(const Event& event, size_t gpu) {
    if (gpu != GpuEventTable::kNone) return "gpu " + std::to_string(gpu);
    return event.entity ? event.entity->attributes.Text("gpu.uuid") : event.attributes.Text(kEventPciBusId);
  }

  // For events that wait for no other source.
  void TakeAlone(Event event, size_t gpu, std::string_view device, bool derived) {
    if (follow_.Repeats(event, device, derived)) {
      ++joined_;
      return;
    }
    counters_.Count(event, gpu);
    ready_.push_back(std::move(event));
  }

  // Events of `agent --demo` are marked, also those of no GPU; those of this machine's kernel are real.
  void MarkSimulated(Event& event) const {
    if (demo_ && !FromKernelLog(event.attributes.Text("event.source")))
      event.attributes = event.attributes.OverlaidOn(AttributeSet({{"simulated", true}}));
  }

  // Publishes the event, or holds it with equal ones.
  void ReportOrFold(Event event, Instant now) {
    AddFacts(event);
    MarkSimulated(event);
    UpdateRecent(event);
    // Drivers and kernels may flood; events of the agent itself happen once.
    const bool repeated =
        event.name == kEventGpuXid.name || FromKernelLog(event.attributes.Text("event.source"));
    if (repeated && fold_.Hold(event, now)) queue_->Suppressed(1);
    else Publish(std::move(event));
  }

  void Publish(Event event) {
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

  // Updates the XIDs that still matter.
  void UpdateRecent(Event& event) {
    if (event.name == kEventGpuXidClear.name) return ClearXids(event);
    size_t gpu = table_.FindEntity(event.entity.get());
    int64_t at_ns = event.at.boot_ns;
    if (event.name == kEventGpuReset.name) recent_.ClearByReset(gpu, at_ns);
    if (event.name == kEventGpuXid.name && event.severity > EventSeverity::kInfo)
      recent_.Add(gpu, at_ns, event.attributes.Text("gpu.xid.action"));
  }

  // Without a GPU, those of every GPU.
  void ClearXids(Event& event) {
    std::string gpu = event.attributes.Text("gpu.xid.clear.gpu");
    if (gpu.empty()) return recent_.Clear(GpuEventTable::kNone, event.at.boot_ns);
    for (size_t i = 0; i < table_.size(); ++i) {
      if (table_[i].uuid != gpu && table_[i].entity->attributes.Text("gpu.index") != gpu) continue;
      event.entity = table_[i].entity;
      recent_.Clear(i, event.at.boot_ns);
    }
    if (!event.entity) Log(LogLevel::kWarn, "events", "xid_clear", "there is no GPU " + gpu);
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
