// Pages of other programs, one instance for each element of the configuration's list `targets`: GPU exporters
// under native GPU names, LLM engines under inference.*, any other page under its own names.

#include <algorithm>
#include <functional>

#include "base/result.h"
#include "catalog/inference.h"
#include "catalog/row.h"
#include "catalog/self.h"
#include "plugins/collectors/targets/target_page.h"
#include "plugins/remote_access.h"
#include "scrape/gpu/amd_exporter.h"
#include "scrape/gpu/dcgm.h"
#include "scrape/gpu/dcgm_errors.h"
#include "scrape/gpu/dcgm_links.h"
#include "scrape/gpu/dcgm_profiling.h"
#include "scrape/gpu/habana.h"
#include "scrape/gpu/page_metrics.h"
#include "scrape/gpu/xpum.h"
#include "scrape/series_options.h"

namespace gpulens {
namespace {

using engine_page::Engine;
using gpu_page::Exporter;
using targets::PageKind;
using targets::TargetPage;

constexpr std::string_view kAuto = "auto", kPrometheus = "prometheus", kEngine = "engine", kGpu = "gpu";

// What the option `kind` selects.
struct Kind {
  bool is_auto = false;
  PageKind page = PageKind::kPlain;
  const Exporter* exporter = nullptr;  // null: any
  const Engine* engine = nullptr;      // null: any
};

Kind KindOf(const Config& config) {
  const std::string& name = config.Text("kind");
  if (name == kAuto) return {.is_auto = true};
  if (name == kPrometheus) return {};
  if (const Exporter* exporter = gpu_page::FindExporter(name); exporter || name == kGpu)
    return {.page = PageKind::kGpu, .exporter = exporter};
  return {.page = PageKind::kEngine, .engine = engine_page::FindEngine(name)};
}

class TargetCollector final : public Collector, private PageUser {
 public:
  TargetCollector(Config config, std::unique_ptr<PageTarget> target, SeriesRules rules, Env& env)
      : config_(std::move(config)),
        env_(env),
        kind_(KindOf(config_)),
        optional_(config_.Bool("optional")),
        rules_(std::move(rules)),
        target_(std::move(target)),
        entity_(TargetEntity(config_, config_.Text("name"))) {
    // Its series of losses come before the first page, whose series may be limited.
    Use(kind_.page);
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    page_->BeforeFetch();
    target_->Fetch(deadline, std::move(done));
  }

  Status Collect(FrameWriter& out) override {
    Status status = target_->Collect(*this, out);
    if (optional_ && !target_->answered()) return {Code::kUnavailable, "no answer yet: " + status.detail};
    return status;
  }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    if (kind_.is_auto && complete) Select(out);
    return page_->Write(body, format, complete, out);
  }

  // Looks at the names on a page whose families changed. A page that was recognised stays what it is until
  // the names say that it is something else that is recognised: an engine that restarts shows few families at
  // first.
  void Select(FrameWriter& out) {
    const ScrapedPage& page = target_->page();
    if (selected_ && page.generation() == generation_) return;
    generation_ = page.generation();
    size_t families = 0;
    for (const ExpositionFamily& family : page.families()) {
      if (family.alive) families += std::hash<std::string_view>()(family.name);
    }
    if (selected_ && families == families_) return;
    selected_ = true;
    families_ = families;
    const PageKind now = targets::Recognise(page);
    if (now == PageKind::kPlain || now == kind_.page) return;
    page_.reset();
    // All but the self-metrics of the scrapes.
    out.table().RetireIf([](const SeriesInfo& info) { return !info.desc->name.starts_with("gpulens."); });
    Use(now);
  }

  void Use(PageKind kind) {
    kind_.page = kind;
    const targets::PageParts parts{config_, *target_, entity_, rules_, env_};
    if (kind == PageKind::kGpu) page_ = targets::MakeGpuPage(parts, kind_.exporter);
    else if (kind == PageKind::kEngine) page_ = targets::MakeEnginePage(parts, kind_.engine);
    else page_ = targets::MakePlainPage(parts);
  }

  const Config config_;
  Env& env_;
  Kind kind_;
  const bool optional_;
  const SeriesRules rules_;
  std::unique_ptr<PageTarget> target_;
  const EntityRef entity_;
  std::unique_ptr<TargetPage> page_;
  bool selected_ = false;
  uint64_t generation_ = 0;
  size_t families_ = 0;  // of the page that was looked at: a sum of the hashes of its names
};

// NIM has its page at one of two paths, by version.
std::string OtherPath(const Kind& kind, const HttpUrl& url) {
  if (!kind.engine || kind.engine->name != "nim") return {};
  return url.target == "/v1/metrics" ? "/metrics" : "/v1/metrics";
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  Config named = config;
  named.Set("name", TargetName(config), config.origin("name"));
  ASSIGN_OR_RETURN(HttpUrl url, TargetUrl(named));
  ASSIGN_OR_RETURN(SeriesRules rules, SeriesRules::Make(named));
  PageTarget::Options options{.name = named.Text("name"), .optional = named.Bool("optional")};
  options.other_path = OtherPath(KindOf(named), url);
  ASSIGN_OR_RETURN(auto target, PageTarget::Make(named, std::move(options), env));
  return std::unique_ptr<Collector>(
      std::make_unique<TargetCollector>(std::move(named), std::move(target), std::move(rules), env));
}

void Check(const Config& config, ConfigFaults& faults) {
  CheckTarget(config, faults);
  const Kind kind = KindOf(config);
  if (kind.is_auto || kind.page == PageKind::kEngine) return;
  for (std::string_view key : {"model", "api"}) {
    if (!config.Text(key).empty())
      faults.Refuse(config, key,
                    std::string(key) + " is for LLM engines, and kind is " + config.Text("kind"));
  }
}

std::vector<Finding> Probe(const Config& config, Env&) {
  std::vector<Finding> findings;
  for (const Config& target : config.Groups("targets")) {
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

// In the order of src/scrape/engine/tables/engines.tsv; a test compares them.
constexpr std::string_view kKinds[] = {kAuto,
                                       kPrometheus,
                                       kEngine,
                                       kGpu,
                                       "dcgm",
                                       "amd",
                                       "habana",
                                       "xpum",
                                       "vllm",
                                       "sglang",
                                       "tgi",
                                       "triton",
                                       "triton-tensorrtllm",
                                       "trtllm-serve",
                                       "nim",
                                       "llama.cpp",
                                       "ray-serve",
                                       "dynamo-frontend",
                                       "dynamo-worker",
                                       "dynamo-router",
                                       "dynamo-kvbm",
                                       "lmcache",
                                       "mooncake",
                                       "epp",
                                       "aibrix",
                                       "litellm",
                                       "envoy-ai-gateway",
                                       "tei",
                                       "lmdeploy",
                                       "kserve",
                                       "vllm-production-stack",
                                       "vllm-router",
                                       "sglang-router",
                                       "xinference",
                                       "ollama",
                                       "semantic-router"};

constexpr OptionSpec kOptions[] = {
    {.key = "url",
     .type = OptionType::kUrl,
     .help = "URL of the page; without a path, /metrics is added.",
     .required = true},
    {.key = "name", .help = "The target attribute of its series; default: host and port of the URL."},
    {.key = "kind",
     .fallback = kAuto,
     .help = "What the page is. auto: detect it by the metric names. prometheus: export it under its own "
             "names. engine, gpu: any LLM engine or GPU exporter. Else one of them by name; set nim for NIM "
             "version 2, whose page looks like vLLM's.",
     .allowed = kKinds},
    {.key = "interval", .type = OptionType::kTime, .fallback = "15s", .help = "Between scrapes.", .min = 0.1},
    {.key = "ttl",
     .type = OptionType::kTime,
     .help = "How long values of an unreachable target are exported; default: two intervals."},
    {.key = kTransportKey,
     .type = OptionType::kGroup,
     .help = "How to connect: timeout, authentication, TLS.",
     .children = kTransportOptions},
    {.key = "optional",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Export nothing, and report no error, until the target answers for the first time."},
    {.key = "pass_through",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Of an LLM engine or GPU exporter: export further families under their own names."},
    {.key = "attributes",
     .type = OptionType::kTextMap,
     .help = "More attributes of its series.",
     .map_of = MapOf::kAttributes},
    {.key = "honor_timestamps",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Use the timestamps on the page; otherwise the time of the scrape."},
    {.key = "max_body",
     .type = OptionType::kSize,
     .fallback = "64MiB",
     .help = "The largest page in bytes, compressed or not.",
     .min = 1024,
     .max = 1 << 30},
    {.key = "max_samples",
     .type = OptionType::kInt,
     .fallback = "100000",
     .help = "Samples of one page; the scrape of a larger page fails.",
     .min = 1,
     .max = 10'000'000},
    {.key = "series",
     .type = OptionType::kGroup,
     .help = "How many series the page may become: docs/cardinality.md.",
     .children = scraping::kSeriesOptions},
    {.key = "model",
     .help = "Of an LLM engine: model.name where the page has none; default: the served model, when there is "
             "one."},
    {.key = "api",
     .type = OptionType::kUrl,
     .help = "Of an LLM engine: URL of its API, queried for version and model; default: host and port of the "
             "page, port 8000 for Triton."},
};

constexpr std::span<const gpu_page::PageRow> kTables[] = {
    gpu_page::kDcgmDevice, gpu_page::kDcgmErrors, gpu_page::kDcgmLinks,    gpu_page::kDcgmProfiling,
    gpu_page::kAmdDevice,  gpu_page::kAmdEcc,     gpu_page::kHabanaDevice, gpu_page::kXpumDevice};
constexpr auto kGpuPageRows = gpu_page::MetricsOf<kTables>();
constexpr auto kMetrics = JoinRows(kGpuPageRows, kInferenceRows, kSelfScrapeRows);

}  // namespace

extern const CollectorSpec targets_collector;
const CollectorSpec targets_collector{
    .name = "targets",
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
