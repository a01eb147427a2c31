// LLM engines, routers, gateways and caches: their pages, read by tables into the roles of the catalogue.

#include "base/log.h"
#include "base/result.h"
#include "catalog/inference/cache.h"
#include "catalog/inference/latency.h"
#include "catalog/inference/requests.h"
#include "catalog/inference/router.h"
#include "catalog/inference/scheduler.h"
#include "catalog/inference/transfer.h"
#include "catalog/join_rows.h"
#include "catalog/self_io.h"
#include "pipeline/plugin.h"
#include "scraping/engine/engine_drift.h"
#include "scraping/engine/engine_identity.h"
#include "scraping/engine/engine_page_series.h"
#include "scraping/page_series.h"
#include "scraping/page_target.h"
#include "scraping/target_options.h"

namespace gpulens {
namespace {

using engine_page::DriftWatch;
using engine_page::Engine;
using engine_page::EngineFacts;
using engine_page::EnginePageSeries;
using engine_page::KnownFamily;

constexpr std::string_view kAuto = "auto";

const Engine* EngineOf(const Config& config) {
  const std::string& name = config.Text("engine");
  return name == kAuto ? nullptr : engine_page::FindEngine(name);
}

EnginePageSeries::Options SeriesOptions(const Config& config, const SeriesRules& rules) {
  const auto& more = config.TextMap("attributes");
  return {.target = config.Text("name"),
          .engine = EngineOf(config),
          .model = config.Text("model"),
          .attributes = {more.begin(), more.end()},
          .rules = rules};
}

class EngineCollector final : public Collector, private PageUser {
 public:
  struct Parts {
    std::unique_ptr<PageTarget> target;
    HttpUrl url;
    SeriesRules rules;
  };

  EngineCollector(const Config& config, Parts parts, Env& env)
      : name_(config.Text("name")),
        model_is_set_(!config.Text("model").empty()),
        clock_(*env.clock),
        target_(std::move(parts.target)),
        series_(target_->page(), SeriesOptions(config, parts.rules)),
        identity_(parts.url, ParseHttpUrl(config.Text("api")), *env.http),
        entity_(TargetEntity(config, name_)) {
    target_->SetLosses(series_.losses());
    if (!config.Bool("pass_through")) return;
    raw_ = std::make_unique<PageSeries>(
        target_->page(), entity_, [this](const ExpositionFamily& family) { return Passes(family); },
        std::move(parts.rules));
  }

  bool fetches() const noexcept override { return true; }

  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    identity_.Ask(series_.families().main(), target_->access(), clock_.Now().boot_ns);
    target_->Fetch(deadline, std::move(done));
  }

  Status Collect(FrameWriter& out) override { return target_->Collect(*this, out); }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    const EngineFacts facts = identity_.facts();
    if (!model_is_set_) series_.SetModel(facts.model);
    const uint64_t before = series_.generation();
    Status status = series_.Write(complete, out);
    if (!series_.families().main()) return status;
    WriteVersion(facts.version, out);
    target_->SetUnknownFamilies(series_.families().unknown());
    if (raw_) raw_->Write(body, format, complete, out);
    target_->SetLosses(raw_ ? raw_->losses() : series_.losses());
    if (complete && (before != series_.generation() || !looked_)) Watch();
    return status;
  }

  // Raw families are shown as they are, but those that a host source tells better.
  bool Passes(const ExpositionFamily& family) const {
    const auto families = target_->page().families();
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

  void Watch() {
    looked_ = true;
    for (const DriftWatch::Finding& finding : drift_.Look(target_->page(), series_.families())) {
      // An engine that began anew shows its families as they are first used.
      if (finding.kind == DriftWatch::Finding::kGone || finding.kind == DriftWatch::Finding::kBack) {
        identity_.Again();
        Log(LogLevel::kDebug, "engines", "drift", target_->url() + ": " + finding.sentence, name_);
        continue;
      }
      std::string text = target_->url() + ": " + finding.sentence;
      if (!finding.row.empty()) text += "; a row for it: " + finding.row;
      Log(LogLevel::kInfo, "engines", "drift." + finding.family, text, name_);
    }
  }

  const std::string name_;
  const bool model_is_set_;
  const Clock& clock_;
  std::unique_ptr<PageTarget> target_;
  EnginePageSeries series_;
  engine_page::EngineIdentity identity_;
  const EntityRef entity_;
  std::unique_ptr<PageSeries> raw_;
  DriftWatch drift_;
  bool looked_ = false;
  std::string version_;
  Series version_series_;
};

// NIM moved its page; both places are looked at whichever one is configured.
std::string OtherPath(const Config& config, const HttpUrl& url) {
  if (config.Text("engine") != "nim") return {};
  return url.target == "/v1/metrics" ? "/metrics" : "/v1/metrics";
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  ASSIGN_OR_RETURN(HttpUrl url, TargetUrl(config));
  ASSIGN_OR_RETURN(SeriesRules rules, SeriesRules::Make(config));
  PageTarget::Options options{.name = config.Text("name"), .on_trial = config.Bool("discovered")};
  options.other_path = OtherPath(config, url);
  ASSIGN_OR_RETURN(auto target, PageTarget::Make(config, std::move(options), env));
  return std::unique_ptr<Collector>(std::make_unique<EngineCollector>(
      config, EngineCollector::Parts{std::move(target), url, std::move(rules)}, env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  return ProbeTargets(
      config, "engines",
      "collectors: {engines: {targets: [{name: vllm, url: \"http://127.0.0.1:8000/metrics\"}]}}");
}

constexpr std::string_view kEngineNames[] = {kAuto,
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

constexpr auto kTargetOptions = JoinOptions(
    scraping::kGovernedTargetOptions,
    std::to_array<OptionSpec>({
        {.key = "engine",
         .fallback = kAuto,
         .help = "The engine; auto detects it by the metric names. Set nim for NIM version 2, whose page "
                 "looks like vLLM's.",
         .allowed = kEngineNames},
        {.key = "model",
         .help = "model.name where the page has none; default: the served model, when there is one."},
        {.key = "api",
         .type = OptionType::kUrl,
         .help = "URL of its API, queried for version and model; default: host and port of the page, port "
                 "8000 for Triton."},
        {.key = "pass_through",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "Export its own families under their own names, too."},
        {.key = "discovered",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "Set for discovered targets: nothing is exported until the first answer."},
    }));

constexpr OptionSpec kOptions[] = {
    {.key = "autodetect",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Find and read the engines on this machine; see discovery.engine_processes."},
    {.key = "targets", .type = OptionType::kGroups, .help = "The pages to read.", .children = kTargetOptions},
};

constexpr const MetricDesc* kOwnRows[] = {
    &kSelfScrapeUp,
    &kSelfScrapeDuration,
    &kSelfScrapeSamples,
    &kSelfScrapeSize,
    &kSelfScrapeErrors,
    &kSelfScrapeParseErrors,
    &kSelfScrapeFamiliesUnknown,
    &kSelfScrapeSeriesFolded,
    &kSelfScrapeSeriesDropped,
    &kSelfScrapeInfo,
};
constexpr auto kMetrics =
    JoinRows(kInferenceRequestsRows, kInferenceLatencyRows, kInferenceCacheRows, kInferenceTransferRows,
             kInferenceSchedulerRows, kInferenceRouterRows, kOwnRows);

}  // namespace

extern const CollectorSpec engines_collector;
const CollectorSpec engines_collector{
    .name = "engines",
    .help = "LLM engines, routers, gateways and caches, under one vocabulary.",
    .period = std::chrono::seconds(15),
    .ttl = std::chrono::seconds(30),
    .options = kOptions,
    .metrics = kMetrics,
    .instances_option = "targets",
    .scraped = true,
    .create = &Create,
    .probe = &Probe,
    .check = &CheckTargets};

}  // namespace gpulens
