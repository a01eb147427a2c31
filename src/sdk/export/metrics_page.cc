#include "sdk/export/metrics_page.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <utility>

#include <gpulens/export.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "catalog/exported_name.h"
#include "catalog/self.h"
#include "core/frame_writer.h"
#include "instruments/instrument_registry.h"
#include "instruments/workers.h"
#include "net/blocking/blocking_server.h"
#include "sdk/export/exporter_seat.h"
#include "sdk/export/otlp_plan.h"
#include "wire/exposition/text_page.h"
#include "wire/otlp/exponential_bounds.h"

namespace gpulens::sdk {
namespace {

constexpr MetricDesc kTarget{.name = "target", .help = "What this page is of.", .kind = Kind::kInfo};

Kind KindOf(InstrumentKind kind) noexcept {
  switch (kind) {
    case InstrumentKind::kCounter: return Kind::kCounter;
    case InstrumentKind::kUpDownCounter: return Kind::kUpDownCounter;
    case InstrumentKind::kGauge: return Kind::kGauge;
    case InstrumentKind::kHistogram: break;
  }
  return Kind::kHistogram;
}

void AppendSeriesName(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  NamedSeries& named = out.emplace_back();
  AppendPrometheusName(named.name, *series.desc);
  named.help = series.desc->help;
  named.kind = series.desc->kind;
  for (auto [key, value] : series.attributes) {
    std::string label, text;
    AppendPrometheusLabel(label, key);
    AppendValue(text, value);
    named.labels.emplace_back(std::move(label), std::move(text));
  }
}

// Samples as one frame.
class PageFrame {
 public:
  explicit PageFrame(Instant now) { writer_.Begin(now); }

  void Add(const Sample& sample) {
    MetricDesc row;
    row.name = sample.name;
    row.unit = sample.unit;
    row.help = sample.description;
    row.kind = KindOf(sample.kind);
    if (sample.integer) row.number = Number::kInt;
    const MetricDesc* desc = table_.Own(row);
    if (!desc) return;
    std::vector<AttributeSet::Attribute> attributes;
    for (const auto& [key, value] : sample.attributes) attributes.push_back({key, std::string_view(value)});
    const AttributeSet set{std::span<const AttributeSet::Attribute>(attributes)};
    SeriesTable::Form form{.start_unix_ns = sample.kind == InstrumentKind::kGauge ? 0 : sample.start_unix_ns};
    if (sample.kind == InstrumentKind::kHistogram) return AddBuckets(*desc, set, sample, std::move(form));
    const Series series = table_.Declare(*desc, {}, set, form);
    if (sample.integer) writer_.SetInt(series, static_cast<int64_t>(sample.value));
    else writer_.Set(series, sample.value);
  }

  void AddResource(const AttributeSet& resource) { writer_.Set(table_.Declare(kTarget, {}, resource), 1.0); }

  // Adds the counts of dropped series, with the names of the agent's page.
  void AddDropped(const TextPage::Losses& lost) {
    const std::pair<std::string_view, uint64_t> reasons[] = {{"type_conflict", lost.type_conflicts},
                                                             {"duplicate", lost.duplicates},
                                                             {"name_clash", lost.name_clashes}};
    for (const auto& [reason, count] : reasons) {
      const Series series = table_.Declare(kSelfPageSeriesDropped, {}, {{"reason", reason}});
      writer_.SetInt(series, static_cast<int64_t>(count));
    }
  }

  Ref<Snapshot> Take() {
    Ref<Snapshot> snapshot = MakeRef<Snapshot>();
    SnapshotEntry& entry = snapshot->frames.emplace_back();
    entry.frame = writer_.Finish();
    entry.source = entry.frame->source;
    snapshot->closed_at = entry.frame->read_at;
    return snapshot;
  }

 private:
  void AddBuckets(const MetricDesc& desc, const AttributeSet& attributes, const Sample& sample,
                  SeriesTable::Form form) {
    if (sample.exponential) {
      ToClassicBuckets(sample.scale, sample.offset, sample.counts, sample.zeros, buckets_);
    } else {
      buckets_.bounds = sample.bounds;
      buckets_.counts.clear();
      buckets_.count = 0;
      for (uint64_t count : sample.counts) buckets_.counts.push_back(buckets_.count += count);
      buckets_.counts.resize(buckets_.bounds.size());
    }
    auto shape = MakeRef<Shape>();
    shape->bounds = buckets_.bounds;
    shape->bounds.push_back(std::numeric_limits<double>::infinity());
    form.shape = shape;
    const std::span<Cell> cells = writer_.Cells(table_.Declare(desc, {}, attributes, form));
    if (cells.size() != shape->cells()) return;
    for (size_t i = 0; i < buckets_.counts.size(); ++i) cells[i].d = static_cast<double>(buckets_.counts[i]);
    cells[buckets_.counts.size()].d = static_cast<double>(buckets_.count);
    cells[shape->sum_cell()].d = sample.sum;
    cells[shape->count_cell()].d = static_cast<double>(buckets_.count);
  }

  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::hours(1), "sdk"};
  ClassicBuckets buckets_;
};

}  // namespace

void WriteMetricsPage(std::span<const Sample> samples, const AttributeSet& resource, PageForm form,
                      Instant now, std::string& out) {
  PageFrame frame(now);
  if (!resource.empty()) frame.AddResource(resource);
  for (const Sample& sample : samples) frame.Add(sample);
  const Ref<Snapshot> snapshot = frame.Take();
  TextPage page(form, SeriesNamer(&AppendSeriesName));
  page.Render(*snapshot, out);
  const TextPage::Losses lost = page.losses();
  if (lost.type_conflicts + lost.duplicates + lost.name_clashes == 0) return;
  // The number of dropped series is known only now.
  PageFrame counts(now);
  counts.AddDropped(lost);
  snapshot->frames.push_back(counts.Take()->frames.front());
  page.Render(*snapshot, out);
}

}  // namespace gpulens::sdk

namespace gpulens {
namespace {

using namespace sdk;

constexpr const char* kWorkersFolder = "GPULENS_WORKERS_DIR";

bool OfWorkers(const Registry& registry) {
  return &registry == &Registry::Process() && instruments::WorkersFolder::Instance().open();
}

// What a page of the registry has.
std::vector<Sample> SamplesOf(const Registry& registry) {
  if (!OfWorkers(registry)) return registry.Snapshot();
  Result<std::vector<Sample>> all = instruments::WorkersFolder::Instance().Read();
  if (!all) {
    Log(LogLevel::kWarn, "sdk", "workers_page", all.error().detail + ": the page has this process alone");
    return registry.Snapshot();
  }
  // Series that are computed when they are read are this process's.
  instruments::ReportSources(RegistryAccess::IdOf(registry), *all);
  return *std::move(all);
}

MetricsPage PageOf(const Registry& registry, const AttributeSet& resource, std::string_view accept) {
  const Negotiated wanted = Negotiate(accept);
  MetricsPage page{.content_type = std::string(wanted.content_type), .body = {}};
  WriteMetricsPage(SamplesOf(registry), resource, wanted.form, RealClock().Now(), page.body);
  return page;
}

// Serves the page, or waits until the process of the server that does has ended.
class PageJob final : public ExportJob {
 public:
  PageJob(Registry& registry, Endpoint at)
      : registry_(registry),
        at_(std::move(at)),
        resource_(OfWorkers(registry) ? AttributeSet() : ProcessResource()) {}

  Status Open() {
    Endpoint at = at_;
    if (OfWorkers(registry_)) {
      if (!TakeTurn()) return Ok();
      // A free port stays that of the first process.
      if (const auto before = ParseListenAddress(ReadFile(TurnPath()).value_or({})); before && at.port == 0)
        at = *before;
    }
    auto server = BlockingServer::Open(at, [this](const HttpRequest& request) { return Page(request); });
    std::lock_guard lock(mutex_);
    status_ = server.status();
    if (!server) {
      turn_.reset();
      return status_;
    }
    server_ = *std::move(server);
    const std::string shown = server_->address().ToString();
    if (turn_ && ::pwrite(turn_.get(), shown.data(), shown.size(), 0) >= 0) [[maybe_unused]]
      const int cut = ::ftruncate(turn_.get(), static_cast<off_t>(shown.size()));
    return status_;
  }

  void Run() override {
    std::unique_lock lock(mutex_);
    while (!server_ && !cut_) {
      wake_.wait_for(lock, kTurn);
      if (cut_) return;
      lock.unlock();
      (void)Open();
      lock.lock();
    }
    if (cut_) return;
    lock.unlock();
    server_->Serve();
  }
  void Finish(Duration) override { Cut(); }
  void Cut() override {
    std::lock_guard lock(mutex_);
    cut_ = true;
    if (server_) server_->Stop();
    wake_.notify_all();
  }
  Status status() const override {
    std::lock_guard lock(mutex_);
    return status_;
  }
  Status Flush(Duration) override { return Ok(); }
  std::string address() const override {
    std::lock_guard lock(mutex_);
    std::string at = server_ ? server_->address().ToString() : ReadFile(TurnPath()).value_or({});
    return "http://" + (at.empty() ? at_.ToString() : at) + "/metrics";
  }
  void LeaveBehind() noexcept override {
    if (server_) server_->LeaveBehind();
    turn_.reset();
  }

 private:
  // How often it looks whether the process that serves has ended.
  static constexpr Duration kTurn = std::chrono::milliseconds(100);

  std::string TurnPath() const {
    std::string name = "/page-" + at_.ToString();
    std::replace(name.begin() + 1, name.end(), '/', '_');
    return instruments::WorkersFolder::Instance().path() + name;
  }
  // The process that has the lock serves. The file has its address, for the others and the next one.
  bool TakeTurn() {
    UniqueFd fd(::open(TurnPath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
    turn_ = std::move(fd);
    return true;
  }

  HttpResponse Page(const HttpRequest& request) {
    if (request.path() != "/metrics") return HttpResponse::Text(404, "The page is /metrics.");
    HttpResponse response;
    {
      std::lock_guard lock(mutex_);
      if (cut_) return HttpResponse::Text(503, "The program ends.");
    }
    MetricsPage page = PageOf(registry_, resource_, request.JoinedHeader("Accept"));
    response.content_type = std::move(page.content_type);
    response.AddHeader("Vary", "Accept");
    response.body = std::move(page.body);
    return response;
  }

  Registry& registry_;
  const Endpoint at_;
  const AttributeSet resource_;
  UniqueFd turn_;
  std::unique_ptr<BlockingServer> server_;
  mutable std::mutex mutex_;  // guards what follows, and when server_ is set
  std::condition_variable wake_;
  Status status_;
  bool cut_ = false;
};

}  // namespace

Status ShareWithWorkers(const WorkersOptions& options) {
  const std::string folder = options.folder.empty() ? ProcessEnvironment(kWorkersFolder) : options.folder;
  return instruments::WorkersFolder::Instance().Open(folder, options.family);
}

Result<Exporter> Expose(const ExposeOptions& options, Registry& registry) {
  if (Disabled(&ProcessEnvironment))
    return Exporter(ExporterSeat::Empty({Code::kUnavailable, "OTEL_SDK_DISABLED switches it off"}));
  ASSIGN_OR_RETURN(const Endpoint at, ParseListenAddress(options.listen));
  if (!at.IsLoopback() && !options.insecure)
    return Status{
        Code::kInvalidArgument,
        options.listen +
            " serves other machines, and the page has neither TLS nor passwords: export to the agent, "
            "whose page has both, or set `insecure`"};
  const bool own = &registry == &Registry::Process();
  if (options.workers && !own)
    return Status{Code::kInvalidArgument, "workers share the counts of the process's registry alone"};
  if (own && (options.workers || !ProcessEnvironment(kWorkersFolder).empty()))
    RETURN_IF_ERROR(ShareWithWorkers());
  auto job = std::make_shared<PageJob>(registry, at);
  RETURN_IF_ERROR(job->Open());
  // Returned once: in a child the port remains the parent's, and a child whose parent has ended takes it.
  return Exporter(
      ExporterSeat::Take([job = std::move(job), at, &registry]() mutable -> std::shared_ptr<ExportJob> {
        if (job) return std::exchange(job, nullptr);
        return OfWorkers(registry) ? std::make_shared<PageJob>(registry, at) : nullptr;
      }));
}

std::string ToPrometheus(const Registry& registry) { return PageFor({}, registry).body; }

MetricsPage PageFor(std::string_view accept, const Registry& registry) {
  if (&registry == &Registry::Process() && !ProcessEnvironment(kWorkersFolder).empty()) {
    const Status shared = ShareWithWorkers();
    if (!shared)
      Log(LogLevel::kWarn, "sdk", "workers_page", shared.detail + ": the page has this process alone");
  }
  return PageOf(registry, {}, accept);
}

}  // namespace gpulens
