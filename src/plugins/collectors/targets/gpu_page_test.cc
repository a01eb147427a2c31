// Targets of GPU exporters, detected by the names on their pages.
#include <gmock/gmock.h>

#include "scrape/collector_testing.h"

namespace gpulens {
extern const CollectorSpec targets_collector;

namespace {

using scraping_testing::ConfigOf;
using scraping_testing::Values;
using testing::Answer200;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;

class GpuPageTest : public scraping_testing::CollectorTest {
 protected:
  void OpenPage(Values values) {
    values.emplace("name", "t");
    values.emplace("url", server.Url("/metrics"));
    values.emplace("kind", std::string("gpu"));
    Open(targets_collector, ConfigOf(targets_collector.options, values));
  }
  std::string body, fields;
  ScriptedServer server{
      [this](int, int, const std::string&) { return ScriptedServer::Turn{Answer200(body, fields)}; }};
};

TEST_F(GpuPageTest, AutoDetectsTheExporter) {
  OpenPage({});
  body = "up 1\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 0"));
  body = "habanalabs_power_mW{UUID=\"u\",id=\"1\"} 226000\n";
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"1\",gpu_uuid=\"u\"} 226\n"));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"t\"} 1"));
}

TEST_F(GpuPageTest, PassThroughExportsUnreadFamilies) {
  body = "gpu_power_usage{gpu_id=\"0\",gpu_uuid=\"u\"} 41\nsome_new_thing{gpu_id=\"0\"} 7\n";
  OpenPage({{"kind", std::string("amd")}, {"pass_through", true}});
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"0\",gpu_uuid=\"u\"} 41\n"));
  EXPECT_THAT(page, HasSubstr("some_new_thing{gpu_id=\"0\",target=\"t\"} 7\n"));
  EXPECT_THAT(page, Not(HasSubstr("gpu_power_usage")));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_families_unknown{target=\"t\"} 1\n"));
}

TEST_F(GpuPageTest, NoPassThroughByDefault) {
  body = "gpu_power_usage{gpu_id=\"0\"} 41\nsome_new_thing 7\n";
  OpenPage({{"attributes", std::map<std::string, std::string>{{"host.name", "far"}}}});
  std::string page = Run();
  EXPECT_THAT(page, Not(HasSubstr("some_new_thing")));
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"0\",host_name=\"far\"} 41\n"));
}

constexpr auto kPower = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\"} 100\n";
constexpr auto kPowerHere = "gpu_power_draw_watts{gpu_index=\"0\",gpu_uuid=\"GPU-a\"} 100";

TEST_F(GpuPageTest, SilentTargetIsDown) {
  OpenPage({{"url", std::string("http://127.0.0.1:1/metrics")}});
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 0"));
}

TEST_F(GpuPageTest, DamagedPages) {
  fields = "Content-Type: application/openmetrics-text; version=1.0.0\r\n";
  OpenPage({{"kind", std::string("dcgm")}});
  body = std::string(kPower) + "# EOF\n";
  EXPECT_THAT(Run(), HasSubstr(kPowerHere));
  // Cut: the last value is still shown, with its age.
  body = "# TYPE x gauge\n";
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr(std::string(kPowerHere) + " "));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"t\"} 0"));
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss);
  // Garbled lines between good ones are counted.
  body = std::string("DCGM_FI_DEV_POWER_USAGE{gpu=\n\x01\x02\n") + kPower + "# EOF\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_parse_errors_total{target=\"t\"} 2"));
  // Another program's page.
  body = "node_load1 1\n# EOF\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_errors_total{reason=\"content_type\",target=\"t\"} 1"));
}

}  // namespace
}  // namespace gpulens
