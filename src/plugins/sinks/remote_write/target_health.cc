#include "plugins/sinks/remote_write/target_health.h"

#include "catalog/prometheus_name.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

struct HealthName {
  const MetricDesc* native;
  std::string_view name, unit, help;
};

constexpr HealthName kHealthNames[] = {
    {&kSelfScrapeUp, "up", "", "1 when the last scrape of the target succeeded."},
    {&kSelfScrapeDuration, "scrape_duration_seconds", "seconds", "How long the last scrape took."},
    {&kSelfScrapeSamples, "scrape_samples_scraped", "", "Samples on the last page."},
};

}  // namespace

void NameTargetHealth(const SeriesInfo& series, std::vector<NamedSeries>& out) {
  for (const HealthName& health : kHealthNames) {
    if (health.native != series.desc) continue;
    NamedSeries& named = out.emplace_back();
    named.name = health.name;
    named.unit = health.unit;
    named.help = health.help;
    named.kind = Kind::kGauge;
    const AttributeSet configured = series.entity ? series.entity->facts : AttributeSet();
    for (auto [key, value] : series.attributes.OverlaidOn(configured)) {
      std::string label, text;
      AppendPrometheusLabel(label, key);
      AppendValue(text, value);
      named.labels.emplace_back(std::move(label), std::move(text));
    }
  }
}

}  // namespace gpulens
