#include "plugins/sinks/remote_write/target_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/self.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<NamedSeries> MakeNames(const MetricDesc& desc) {
  SeriesInfo series;
  series.desc = &desc;
  series.entity =
      MakeRef<Entity>("target", AttributeSet({{"target", "node"}}), EntityRef{},
                      AttributeSet({{"job", "node"}, {"instance", "n1:9100"}, {"team.name", "a"}}));
  series.attributes = series.entity->attributes;
  std::vector<NamedSeries> out;
  NameTargetHealth(series, out);
  return out;
}

TEST(TargetHealth, UpHasTheLabelsOfItsTarget) {
  const auto up = MakeNames(kSelfScrapeUp);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].name, "up");
  EXPECT_EQ(up[0].kind, Kind::kGauge);
  EXPECT_THAT(up[0].labels, ElementsAre(Pair("instance", "n1:9100"), Pair("job", "node"),
                                        Pair("target", "node"), Pair("team_name", "a")));
}

TEST(TargetHealth, DurationAndSamplesHavePrometheusNames) {
  EXPECT_EQ(MakeNames(kSelfScrapeDuration).at(0).name, "scrape_duration_seconds");
  EXPECT_EQ(MakeNames(kSelfScrapeSamples).at(0).name, "scrape_samples_scraped");
}

TEST(TargetHealth, NothingElseIsSpelled) {
  EXPECT_THAT(MakeNames(kSelfScrapeErrors), IsEmpty());
  EXPECT_THAT(MakeNames(kSelfSinkUp), IsEmpty());
}

TEST(TargetHealth, ASeriesWithoutAnEntityHasItsOwnLabels) {
  SeriesInfo series;
  series.desc = &kSelfScrapeUp;
  series.attributes = AttributeSet({{"target", "x"}});
  std::vector<NamedSeries> out;
  NameTargetHealth(series, out);
  EXPECT_THAT(out.at(0).labels, ElementsAre(Pair("target", "x")));
}

}  // namespace
}  // namespace gpulens
