// Pages of other programs, one instance for each element of the configuration's list `targets`: GPU exporters
// under native GPU names, LLM engines under inference.*, any other page under its own names.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "catalog/inference.h"
#include "catalog/row.h"
#include "catalog/self.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "scrape/engine/engine_families.h"
#include "scrape/engine/engine_identity.h"
#include "scrape/engine/engine_page_series.h"
#include "scrape/engine/engine_row.h"
#include "scrape/gpu/exporters.h"
#include "scrape/gpu/gpu_page_series.h"
#include "scrape/gpu/tables.h"
#include "scrape/page_series.h"
#include "scrape/page_target.h"
#include "scrape/series_rules.h"

namespace gpulens {
namespace {

using engine_page::DriftWatch;
using engine_page::Engine;
using engine_page::EngineFacts;
using engine_page::EnginePageSeries;
using engine_page::KnownFamily;
using gpu_page::Exporter;
using gpu_page::GpuPageSeries;

enum class PageKind : uint8_t { kPlain, kGpu, kEngine };

constexpr std::string_view kTargets = "targets";
constexpr std::string_view kAuto = "auto", kPrometheus = "prometheus", kEngine = "engine", kGpu = "gpu";
constexpr std::string_view kKinds[] = {
    kAuto, kPrometheus, kEngine, kGpu, "dcgm", "amd", "habana", "xpum",
#include "scrape/engine/engine_names.inc"
};
constexpr OptionSpec kOptions[] = {
    {.key = "url",
     .type = OptionType::kUrl,
     .help = "URL of the page; without a path, /metrics is added.",
     .required = true},
    TextOption("name", {}, "The target attribute of its series; default: host and port of the URL."),
    TextOption(
        "kind", kAuto,
        "What the page is. auto: detect it by the metric names. prometheus: export it under its own "
        "names. engine, gpu: any LLM engine or GPU exporter. Else one of them by name; set nim for NIM "
        "version 2, whose page looks like vLLM's.",
        kKinds),
    TimeOption("interval", "15s", "Between scrapes.", 0.1),
    TimeOption("ttl", {}, "How long values of an unreachable target are exported; default: two intervals."),
    GroupOption(kTransportKey, "How to connect: timeout, authentication, TLS.", kTransportOptions),
    BoolOption("optional", false,
               "Export nothing, and report no error, until the target answers for the first time."),
    BoolOption("pass_through", false,
               "Of an LLM engine or GPU exporter: export further families under their own names."),
    {.key = "attributes",
     .type = OptionType::kTextMap,
     .help = "More attributes of its series.",
     .map_of = MapOf::kAttributes},
    BoolOption("honor_timestamps", true, "Use the timestamps on the page; otherwise the time of the scrape."),
    BoolOption("isolate", false,
               "Read the page in a process of its own, which has no files, no network and no secrets: "
               "docs/targets.md."),
    SizeOption("max_body", "64MiB", "The largest page in bytes, compressed or not.", 1024, 1 << 30),
    IntOption("max_samples", "100000", "Samples of one page; the scrape of a larger page fails.", 1,
              10'000'000),
    GroupOption("series", "How many series the page may become: docs/cardinality.md.", kSeriesOptions),
    TextOption(
        "model", {},
        "Of an LLM engine: model.name where the page has none; default: the served model, when there is "
        "one."),
    IntOption("pid", "0",
              "Of an LLM engine on this machine: the process that serves the page, to which analyzers.cost "
              "gives the GPU processes below it; 0: unknown. Discovery sets it.",
              0, 16'777'216),  // simulated ones are above those of Linux
    UrlOption(
        "api", {},
        "Of an LLM engine: URL of its API, queried for version and model; default: host and port of the "
        "page, port 8000 for Triton."),
};
using Options = OptionsOf<kOptions>;

// Turns the pages of one target into values. Used inside its instance's run: not thread-safe.
class TargetPage {
 public:
  virtual ~TargetPage() = default;
  // Called on the I/O loop before each request for the page; may send requests of its own.
  virtual void BeforeFetch() {}
  // Writes a parsed page. kDataLoss: the page is not of this kind; values that were set are published
  // nevertheless.
  virtual Status Write(const Scrape::Page& page, FrameWriter& out) = 0;
  // Of the last Write, and of its construction.
  const PageReport& report() const noexcept { return report_; }

 protected:
  PageReport report_;
};

// Arguments of a TargetPage, which they outlive.
struct PageSetup {
  const Config& config;  // one element of `targets`, with a name
  const PageTarget& target;
  const EntityRef& entity;  // of series that belong to the target itself
  const SeriesRules& rules;
  Env& env;
};

std::vector<std::pair<std::string, std::string>> AttributesOf(const Options& options) {
  const auto& attributes = options.TextMap("attributes");
  return {attributes.begin(), attributes.end()};
}

// Returns whether the family is one that client libraries add to any page.
bool IsOfRuntime(std::string_view family) {
  constexpr std::string_view kPrefixes[] = {"go_", "process_", "promhttp_", "python_", "scrape_"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return family.starts_with(prefix); });
}

class PlainPage final : public TargetPage {
 public:
  explicit PlainPage(const PageSetup& setup) : series_(setup.target.page(), setup.entity, {}, setup.rules) {
    report_.drops = series_.drops();
  }

  Status Write(const Scrape::Page& page, FrameWriter& out) override {
    series_.Write(page.complete, out);
    report_.drops = series_.drops();
    return Ok();
  }

 private:
  PageSeries series_;
};

class GpuPage final : public TargetPage {
 public:
  GpuPage(const PageSetup& setup, const gpu_page::Exporter* exporter)
      : series_(setup.target.page(), exporter, AttributesOf(setup.config)) {
    if (!Options(setup.config).Bool("pass_through")) return;
    others_ = std::make_unique<PageSeries>(
        setup.target.page(), setup.entity,
        [this](const ExpositionFamily& family) { return !series_.Reads(family); }, setup.rules);
    report_.drops = others_->drops();
  }

  Status Write(const Scrape::Page& page, FrameWriter& out) override {
    Status status = series_.Write(page.complete, out);
    if (!series_.exporter()) return status;
    report_.unknown_families = series_.unknown_families();
    if (!others_) return status;
    others_->Write(page.complete, out);
    report_.drops = others_->drops();
    return status;
  }

 private:
  GpuPageSeries series_;
  std::unique_ptr<PageSeries> others_;  // null: families that no table reads are not exported
};

class EnginePage final : public TargetPage {
 public:
  EnginePage(const PageSetup& setup, const Options& options, const Engine* engine)
      : name_(options.Text("name")),
        model_is_set_(!options.Text("model").empty()),
        clock_(*setup.env.clock),
        target_(setup.target),
        series_(target_.page(), {.target = name_,
                                 .engine = engine,
                                 .model = options.Text("model"),
                                 .attributes = AttributesOf(setup.config),
                                 .pid = options.Int("pid"),
                                 .rules = setup.rules}),
        identity_(*TargetUrl(setup.config), ParseHttpUrl(options.Text("api")), *setup.env.http),
        entity_(setup.entity) {
    report_.drops = series_.drops();
    if (!Options(setup.config).Bool("pass_through")) return;
    raw_ = std::make_unique<PageSeries>(
        target_.page(), entity_, [this](const ExpositionFamily& family) { return Passes(family); },
        setup.rules);
  }

  void BeforeFetch() override {
    identity_.Query(series_.families().main(), target_.access(), clock_.Now().boot_ns);
  }

  Status Write(const Scrape::Page& page, FrameWriter& out) override {
    const EngineFacts facts = identity_.facts();
    if (!model_is_set_) series_.SetModel(facts.model);
    const uint64_t before = series_.generation();
    Status status = series_.Write(page.complete, out);
    if (!series_.families().main()) return status;
    WriteVersion(facts.version, out);
    report_.unknown_families = series_.families().unknown();
    if (raw_) raw_->Write(page.complete, out);
    report_.drops = raw_ ? raw_->drops() : series_.drops();
    if (page.complete && (before != series_.generation() || !watched_)) LogDrift();
    return status;
  }

 private:
  // Ignored families are not exported: the host collector reads them better.
  bool Passes(const ExpositionFamily& family) const {
    const auto families = target_.page().families();
    const size_t index = static_cast<size_t>(&family - families.data());
    const auto known = series_.families().families();
    return index < known.size() && known[index].kind != KnownFamily::kIgnored;
  }

  void WriteVersion(const std::string& version, FrameWriter& out) {
    if (version.empty()) return;
    if (version != version_) {
      out.table().Retire(version_series_);
      version_ = version;
      version_series_ = out.table().Declare(kInferenceEngineVersion, entity_,
                                            {{"inference.engine", series_.families().main()->name},
                                             {"inference.engine.version", std::string_view(version_)}});
    }
    out.Set(version_series_, 1);
  }

  void LogDrift() {
    watched_ = true;
    for (const DriftWatch::Finding& finding : drift_.Check(target_.page(), series_.families())) {
      // A restarted engine exports its families as they are first used.
      if (finding.kind == DriftWatch::Finding::kGone || finding.kind == DriftWatch::Finding::kBack) {
        identity_.Refresh();
        Log(LogLevel::kDebug, "targets", "drift", target_.url() + ": " + finding.sentence, name_);
        continue;
      }
      std::string text = target_.url() + ": " + finding.sentence;
      if (!finding.row.empty()) text += "; a row for it: " + finding.row;
      Log(LogLevel::kInfo, "targets", "drift." + finding.family, text, name_);
    }
  }

  const std::string name_;
  const bool model_is_set_;
  const Clock& clock_;
  const PageTarget& target_;
  EnginePageSeries series_;
  engine_page::EngineIdentity identity_;
  const EntityRef entity_;
  std::unique_ptr<PageSeries> raw_;  // null: families under their own names are not exported
  DriftWatch drift_;
  bool watched_ = false;
  std::string version_;
  Series version_series_;
};

// Detects the kind of a page by its metric names: kGpu when a GPU exporter's tables read at least three
// families and half of all (without those of the language runtime), kEngine when a family has the prefix of
// an LLM engine, router, gateway or cache, else kPlain.
PageKind Detect(const ParsedPage& page) {
  constexpr size_t kFewest = 3;
  size_t families = 0;
  for (const ExpositionFamily& family : page.families())
    families += family.alive && !IsOfRuntime(family.name);
  const size_t of_gpus = gpu_page::DetectExporter(page).families;
  if (of_gpus >= kFewest && of_gpus * 2 >= families) return PageKind::kGpu;
  engine_page::PageFamilies known(nullptr);
  known.Update(page);
  return known.main() ? PageKind::kEngine : PageKind::kPlain;
}

// The kind of page that the option `kind` selects.
struct TargetKind {
  bool is_auto = false;
  PageKind page = PageKind::kPlain;
  const Exporter* exporter = nullptr;  // null: any
  const Engine* engine = nullptr;      // null: any
};

TargetKind KindOf(const Options& options) {
  const std::string& name = options.Text("kind");
  if (name == kAuto) return {.is_auto = true};
  if (name == kPrometheus) return {};
  if (const Exporter* exporter = gpu_page::FindExporter(name); exporter || name == kGpu)
    return {.page = PageKind::kGpu, .exporter = exporter};
  return {.page = PageKind::kEngine, .engine = engine_page::FindEngine(name)};
}

class TargetCollector final : public Collector {
 public:
  TargetCollector(Config config, std::unique_ptr<PageTarget> target, SeriesRules rules, Env& env)
      : config_(std::move(config)),
        env_(env),
        kind_(KindOf(config_)),
        optional_(Options(config_).Bool("optional")),
        rules_(std::move(rules)),
        target_(std::move(target)),
        entity_(TargetEntity(config_, Options(config_).Text("name"))),
        record_(Options(config_).Text("name"), target_->url(), entity_->attributes) {
    if (target_->process()) record_.Isolated(*target_->process());
    Use(kind_.page);
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    page_->BeforeFetch();
    target_->Fetch(deadline, std::move(done));
  }

  Status Collect(FrameWriter& out) override {
    // Its series come before those of the page, which are many and may be limited.
    if (answered_ || !optional_) record_.Prepare(out.table());
    Scrape scrape = target_->Read();
    if (scrape.page) WritePage(scrape, out);
    answered_ = answered_ || scrape.failure == 0;
    if (answered_ || !optional_) record_.Write(scrape.failure, target_->took(), out);
    else record_.Failed(scrape.failure);
    target_->Release();
    if (!scrape.status) scrape.status.detail = target_->url() + ": " + scrape.status.detail;
    if (!answered_ && optional_) return {Code::kUnavailable, "no answer yet: " + scrape.status.detail};
    return scrape.status;
  }

 private:
  void WritePage(Scrape& scrape, FrameWriter& out) {
    out.ReadAt(target_->finished());
    if (kind_.is_auto && scrape.page->complete) Select(out);
    Status written = page_->Write(*scrape.page, out);
    record_.Report(page_->report());
    record_.Page(target_->page().report(), scrape.page->bytes);
    if (scrape.failure == 0 && !written)
      scrape.Fail(static_cast<size_t>(ScrapeFailure::kContentType), std::move(written));
  }

  // Detects the kind of a page whose families changed. A detected kind stays until another one is detected:
  // an engine that restarts shows few families at first.
  void Select(FrameWriter& out) {
    const ParsedPage& page = target_->page();
    if (selected_ && page.generation() == generation_) return;
    generation_ = page.generation();
    size_t families = 0;
    for (const ExpositionFamily& family : page.families()) {
      if (family.alive) families += std::hash<std::string_view>()(family.name);
    }
    if (selected_ && families == families_) return;
    selected_ = true;
    families_ = families;
    const PageKind now = Detect(page);
    if (now == PageKind::kPlain || now == kind_.page) return;
    page_.reset();
    // All but the self-metrics of the scrapes.
    out.table().RetireIf([](const SeriesInfo& info) { return !info.desc->name.starts_with("gpulens."); });
    Use(now);
  }

  void Use(PageKind kind) {
    kind_.page = kind;
    const PageSetup setup{config_, *target_, entity_, rules_, env_};
    if (kind == PageKind::kGpu) page_ = std::make_unique<GpuPage>(setup, kind_.exporter);
    else if (kind == PageKind::kEngine) page_ = std::make_unique<EnginePage>(setup, config_, kind_.engine);
    else page_ = std::make_unique<PlainPage>(setup);
    record_.Report(page_->report());
  }

  const Config config_;
  Env& env_;
  TargetKind kind_;
  const bool optional_;
  const SeriesRules rules_;
  std::unique_ptr<PageTarget> target_;
  const EntityRef entity_;
  ScrapeRecord record_;
  std::unique_ptr<TargetPage> page_;
  bool answered_ = false;
  bool selected_ = false;
  uint64_t generation_ = 0;
  size_t families_ = 0;  // of the last detection: the sum of the hashes of its names
};

// NIM has its page at one of two paths, by version.
std::string OtherPath(const TargetKind& kind, const HttpUrl& url) {
  if (!kind.engine || kind.engine->name != "nim") return {};
  return url.target == "/v1/metrics" ? "/metrics" : "/v1/metrics";
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  Config named = config;
  named.Set("name", TargetName(config), Options(config).origin("name"));
  ASSIGN_OR_RETURN(HttpUrl url, TargetUrl(named));
  ASSIGN_OR_RETURN(SeriesRules rules, SeriesRules::Make(named));
  PageTarget::Options options{.name = Options(named).Text("name"),
                              .other_path = OtherPath(KindOf(named), url)};
  ASSIGN_OR_RETURN(auto target, PageTarget::Make(named, std::move(options), env));
  return std::unique_ptr<Collector>(
      std::make_unique<TargetCollector>(std::move(named), std::move(target), std::move(rules), env));
}

void Check(const Config& config, ConfigFaults& faults) {
  CheckTarget(config, faults);
  const TargetKind kind = KindOf(config);
  if (kind.is_auto || kind.page == PageKind::kEngine) return;
  const Options options(config);
  for (Options::TextKey option : {Options::TextKey("model"), Options::TextKey("api")}) {
    if (!options.Text(option).empty())
      options.Refuse(option, faults,
                     std::string(option.key) + " is for LLM engines, and kind is " + options.Text("kind"));
  }
}

std::vector<Finding> Probe(const Config& root, Env&) {
  std::vector<Finding> findings;
  for (const Config& target : root.Groups(kTargets)) {
    const auto url = TargetUrl(target);
    const std::string subject = "targets/" + TargetName(target);
    if (url) findings.push_back({Finding::kFound, subject, "configured: " + url->Shown(), "", ""});
    else findings.push_back({Finding::kBroken, subject, "", url.error().detail, ""});
  }
  if (findings.empty()) {
    findings.push_back({Finding::kNotHere, "targets", "", "no target is configured",
                        "targets: [{url: \"http://127.0.0.1:9100/metrics\"}]"});
  }
  return findings;
}

constexpr auto kGpuPageRows = MetricsOf<gpu_page::kDcgmTable, gpu_page::kAmdTable, gpu_page::kHabanaTable,
                                        gpu_page::kXpumTable, gpu_page::kCommonMetrics>();
constexpr std::array kReaderRows{&kSelfDriverStarts};
constexpr auto kMetrics = JoinRows(kGpuPageRows, kInferenceRows, kSelfScrapeRows, kReaderRows);

}  // namespace

extern const CollectorSpec targets_collector;
const CollectorSpec targets_collector{
    .name = kTargets,
    .help = "Pages of other programs: GPU exporters, LLM engines, any Prometheus endpoint.",
    .period = std::chrono::seconds(15),
    .ttl = std::chrono::seconds(30),
    .options = kOptions,
    .metrics = kMetrics,
    .per_target = true,
    .scraped = true,
    .create = &Create,
    .probe = &Probe,
    .check = &Check};

}  // namespace gpulens
