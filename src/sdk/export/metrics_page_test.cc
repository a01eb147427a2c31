#include "sdk/export/metrics_page.h"

#include <gmock/gmock.h>
#include <gpulens/instruments.h>
#include <gtest/gtest.h>

#include "wire/exposition/exposition_testing.h"

namespace gpulens::sdk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Page(const Registry& registry, ExpositionFormat format, const AttributeSet& resource = {}) {
  std::vector<Sample> samples = registry.Snapshot();
  for (Sample& sample : samples) sample.start_unix_ns = 1'700'000'000'000'000'000;
  std::string out = "what was there before";
  WriteMetricsPage(samples, resource, format, ManualClock().Now(), out);
  return out;
}

TEST(MetricsPage, NamesSeriesAsTheAgentDoes) {
  Registry registry;
  const Counter requests("http.server.requests", {.unit = "{request}", .description = "A \\ and\nmore."},
                         registry);
  requests.Bind({{"http.route", "/c\"hat"}, {"http_route", "second"}}).Add(5);
  DoubleCounter("energy", {.unit = "J"}, registry).Add(1.5);
  Gauge("queue.usage", {.unit = "1"}, registry).Set(0.25);
  UpDownCounter("open", {}, registry).Add(-3);
  EXPECT_EQ(Page(registry, ExpositionFormat::kText004),
            "# TYPE energy_joules_total counter\n"
            "energy_joules_total 1.5\n"
            "# HELP http_server_requests_total A \\\\ and\\nmore.\n"
            "# TYPE http_server_requests_total counter\n"
            "http_server_requests_total{http_route=\"/c\\\"hat\",exported_http_route=\"second\"} 5\n"
            "# TYPE open gauge\n"
            "open -3\n"
            "# TYPE queue_usage_ratio gauge\n"
            "queue_usage_ratio 0.25\n");
}

TEST(MetricsPage, OpenMetricsHasCreatedTimesAndAnEnd) {
  Registry registry;
  Counter("c", {}, registry).Add(2);
  const std::string page =
      Page(registry, ExpositionFormat::kOpenMetrics100, AttributeSet({{"service.name", "chat"}}));
  EXPECT_EQ(page,
            "# TYPE c counter\n"
            "c_total 2\n"
            "c_created 1700000000.000\n"
            "# HELP target What this page is of.\n"
            "# TYPE target info\n"
            "target_info{service_name=\"chat\"} 1\n"
            "# EOF\n");
}

TEST(MetricsPage, WritesBothFormsOfHistograms) {
  Registry registry;
  const double bounds[] = {0.5, 1};
  const Histogram listed("e", {.unit = "s", .bounds = bounds}, registry), free("x", {}, registry);
  for (double value : {0.5, 0.7, 3.0}) listed.Record(value);
  for (double value : {0.0, 1.0, 1.5, 2.0, 9.0}) free.Record(value);
  const std::string page = Page(registry, ExpositionFormat::kText004);
  EXPECT_THAT(page, HasSubstr("# TYPE e_seconds histogram\n"
                              "e_seconds_bucket{le=\"0.5\"} 1\n"
                              "e_seconds_bucket{le=\"1\"} 2\n"
                              "e_seconds_bucket{le=\"+Inf\"} 3\n"
                              "e_seconds_sum 4.2\n"
                              "e_seconds_count 3\n"));
  EXPECT_THAT(page, HasSubstr("x_bucket{le=\"1\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("x_bucket{le=\"2\"} 4\n"));
  EXPECT_THAT(page, HasSubstr("x_bucket{le=\"+Inf\"} 5\nx_sum 13.5\nx_count 5\n"));
}

TEST(MetricsPage, CountsDroppedSeries) {
  Registry registry;
  Counter("my.own", {.description = "Dots."}, registry).Add(1);
  Counter("my-own", {.description = "Dashes."}, registry).Add(2);
  const Counter other("my_own", {}, registry);
  other.Bind({{"x", "y"}}).Add(3);
  std::string page = Page(registry, ExpositionFormat::kText004);
  EXPECT_THAT(page, HasSubstr("\nmy_own_total{x=\"y\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("\ngpulens_page_series_dropped{reason=\"duplicate\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("\ngpulens_page_series_dropped{reason=\"name_clash\"} 0\n"));
  page = Page(registry, ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(page, HasSubstr("\ngpulens_page_series_dropped{reason=\"duplicate\"} 2\n")) << "_created, too";
  Registry plain;
  Counter("my.own", {}, plain).Add(1);
  EXPECT_THAT(Page(plain, ExpositionFormat::kText004), Not(HasSubstr("gpulens_page")));
}

TEST(MetricsPage, IsReadByTheParser) {
  Registry registry;
  Counter("a.b-c/d", {.unit = "By/s"}, registry).Bind({{"k", "\xF0\x9F\x98\x80 \"\\\n"}}).Add(1);
  Histogram("h", {.unit = "ms"}, registry).Record(12);
  for (ExpositionFormat format :
       {ExpositionFormat::kText004, ExpositionFormat::kText100, ExpositionFormat::kOpenMetrics100}) {
    const std::string page = Page(registry, format, AttributeSet({{"service.name", "s"}}));
    const exposition_testing::FreshParse read(page, format, {});
    EXPECT_EQ(read.report.bad_lines, 0u) << page;
    EXPECT_GT(read.lines.size(), 5u);
  }
}

TEST(MetricsPage, EmptyRegistryGivesAnEmptyPage) {
  Registry registry;
  EXPECT_EQ(Page(registry, ExpositionFormat::kText004), "");
  EXPECT_EQ(Page(registry, ExpositionFormat::kOpenMetrics100), "# EOF\n");
}

}  // namespace
}  // namespace gpulens::sdk
