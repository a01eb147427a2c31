// Passes on the pages of other exporters: any Prometheus endpoint, read by our own parser.

#include "base/result.h"
#include "catalog/self_io.h"
#include "pipeline/plugin.h"
#include "scraping/page_series.h"
#include "scraping/page_target.h"
#include "scraping/target_options.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

class ScrapeCollector final : public Collector, private PageUser {
 public:
  ScrapeCollector(const Config& config, std::unique_ptr<PageTarget> target, SeriesRules rules)
      : target_(std::move(target)),
        series_(target_->page(), TargetEntity(config, config.Text("name")), {}, std::move(rules)) {
    target_->SetLosses(series_.losses());
  }

  bool fetches() const noexcept override { return true; }
  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    target_->Fetch(deadline, std::move(done));
  }
  Status Collect(FrameWriter& out) override { return target_->Collect(*this, out); }

 private:
  Status Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) override {
    series_.Write(body, format, complete, out);
    target_->SetLosses(series_.losses());
    return Ok();
  }

  std::unique_ptr<PageTarget> target_;
  PageSeries series_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  ASSIGN_OR_RETURN(SeriesRules rules, SeriesRules::Make(config));
  ASSIGN_OR_RETURN(auto target, PageTarget::Make(config, {.name = config.Text("name")}, env));
  return std::unique_ptr<Collector>(
      std::make_unique<ScrapeCollector>(config, std::move(target), std::move(rules)));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  return ProbeTargets(
      config, "scrape",
      "collectors: {scrape: {targets: [{name: node, url: \"http://127.0.0.1:9100/metrics\"}]}}");
}

constexpr OptionSpec kOptions[] = {
    {.key = "targets",
     .type = OptionType::kGroups,
     .help = "The endpoints to read.",
     .children = scraping::kGovernedTargetOptions},
};

constexpr const MetricDesc* kMetrics[] = {
    &kSelfScrapeUp,   &kSelfScrapeDuration,     &kSelfScrapeSamples,
    &kSelfScrapeSize, &kSelfScrapeErrors,       &kSelfScrapeParseErrors,
    &kSelfScrapeInfo, &kSelfScrapeSeriesFolded, &kSelfScrapeSeriesDropped,
};

}  // namespace

extern const CollectorSpec scrape_collector;
const CollectorSpec scrape_collector{.name = "scrape",
                                     .help = "Prometheus endpoints of other programs, passed on.",
                                     .period = seconds(15),
                                     .ttl = seconds(30),
                                     .options = kOptions,
                                     .metrics = kMetrics,
                                     .instances_option = "targets",
                                     .scraped = true,
                                     .create = &Create,
                                     .probe = &Probe,
                                     .check = &CheckTargets};

}  // namespace gpulens
