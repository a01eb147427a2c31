#include "sdk/export/metrics_page.h"

#include <limits>
#include <mutex>
#include <utility>

#include <gpulens/export.h>

#include "base/result.h"
#include "catalog/exported_name.h"
#include "catalog/self.h"
#include "core/frame_writer.h"
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

class PageJob final : public ExportJob {
 public:
  explicit PageJob(Registry& registry) : registry_(registry), resource_(ProcessResource()) {}

  Status Open(const Endpoint& at) {
    ASSIGN_OR_RETURN(server_,
                     BlockingServer::Open(at, [this](const HttpRequest& request) { return Page(request); }));
    return Ok();
  }

  void Run() override { server_->Serve(); }
  void Finish(Duration) override { Cut(); }
  void Cut() override {
    server_->Stop();
    std::lock_guard lock(mutex_);
    cut_ = true;
  }
  Status status() const override { return Ok(); }
  Status Flush(Duration) override { return Ok(); }
  std::string address() const override { return "http://" + server_->address().ToString() + "/metrics"; }
  void LeaveBehind() noexcept override { server_->LeaveBehind(); }

 private:
  HttpResponse Page(const HttpRequest& request) {
    if (request.path() != "/metrics") return HttpResponse::Text(404, "The page is /metrics.");
    const Negotiated wanted = Negotiate(request.JoinedHeader("Accept"));
    std::vector<Sample> samples;
    {
      std::lock_guard lock(mutex_);
      if (cut_) return HttpResponse::Text(503, "The program ends.");
      samples = registry_.Snapshot();
    }
    std::string page;
    WriteMetricsPage(samples, resource_, wanted.form, RealClock().Now(), page);
    HttpResponse response;
    response.content_type = wanted.content_type;
    response.AddHeader("Vary", "Accept");
    response.body = std::move(page);
    return response;
  }

  Registry& registry_;
  const AttributeSet resource_;
  std::unique_ptr<BlockingServer> server_;
  std::mutex mutex_;  // guards what follows
  bool cut_ = false;
};

}  // namespace

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
  auto job = std::make_shared<PageJob>(registry);
  RETURN_IF_ERROR(job->Open(at));
  // Returned once: in a child the port remains the parent's.
  return Exporter(ExporterSeat::Take([job = std::move(job)]() mutable -> std::shared_ptr<ExportJob> {
    return std::exchange(job, nullptr);
  }));
}

std::string ToPrometheus(const Registry& registry) {
  std::string page;
  WriteMetricsPage(registry.Snapshot(), {}, ExpositionFormat::kText004, RealClock().Now(), page);
  return page;
}

}  // namespace gpulens
