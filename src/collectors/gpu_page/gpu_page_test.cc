// Targets of any exporter, told by the names on their pages.
#include <gmock/gmock.h>

#include "scraping/collector_testing.h"

namespace gpulens {
extern const CollectorSpec gpu_page_collector;

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
    Open(gpu_page_collector, ConfigOf(gpu_page_collector.options[0].children, values));
  }
  std::string body;
  ScriptedServer server{
      [this](int, int, const std::string&) { return ScriptedServer::Turn{Answer200(body)}; }};
};

TEST_F(GpuPageTest, AutoTellsTheExporterOnceThereIsAPage) {
  OpenPage({});
  body = "up 1\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 0"));
  body = "habanalabs_power_mW{UUID=\"u\",id=\"1\"} 226000\n";
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"1\",gpu_uuid=\"u\"} 226\n"));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"t\"} 1"));
}

TEST_F(GpuPageTest, PassesOnWhatNoTableReadsWhenAsked) {
  body = "gpu_power_usage{gpu_id=\"0\",gpu_uuid=\"u\"} 41\nsome_new_thing{gpu_id=\"0\"} 7\n";
  OpenPage({{"exporter", std::string("amd")}, {"pass_through", true}});
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"0\",gpu_uuid=\"u\"} 41\n"));
  EXPECT_THAT(page, HasSubstr("some_new_thing{gpu_id=\"0\",target=\"t\"} 7\n"));
  EXPECT_THAT(page, Not(HasSubstr("gpu_power_usage")));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_families_unknown{target=\"t\"} 1\n"));
}

TEST_F(GpuPageTest, WithoutBeingAskedItDoesNot) {
  body = "gpu_power_usage{gpu_id=\"0\"} 41\nsome_new_thing 7\n";
  OpenPage({{"attributes", std::map<std::string, std::string>{{"host.name", "far"}}}});
  std::string page = Run();
  EXPECT_THAT(page, Not(HasSubstr("some_new_thing")));
  EXPECT_THAT(page, HasSubstr("gpu_power_draw_watts{gpu_index=\"0\",host_name=\"far\"} 41\n"));
}

}  // namespace
}  // namespace gpulens
