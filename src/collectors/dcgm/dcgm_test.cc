// The collector as the agent drives it: a default that nobody asked for, damaged pages, an exporter that
// comes and goes.
#include <gmock/gmock.h>

#include <atomic>

#include "scraping/collector_testing.h"

namespace gpulens {
extern const CollectorSpec dcgm_collector;

namespace {

using scraping_testing::ConfigOf;
using testing::Answer200;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;

constexpr auto kPower = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\"} 100\n";
constexpr auto kPowerHere = "gpu_power_draw_watts{gpu_index=\"0\",gpu_uuid=\"GPU-a\"} 100";

class DcgmTest : public scraping_testing::CollectorTest {
 protected:
  // As if nobody had set the URL.
  Config Unasked(const std::string& url) {
    Config config = ConfigOf(dcgm_collector.options, {});
    config.Set("url", url, {});
    return config;
  }
  Config Asked(const std::string& url) { return ConfigOf(dcgm_collector.options, {{"url", url}}); }
};

TEST_F(DcgmTest, WhatNobodyAskedForIsSilentAndAskedLessAndLessOften) {
  std::atomic<bool> there = false;
  ScriptedServer server([&](int, int, const std::string&) {
    return there ? ScriptedServer::Turn{Answer200(kPower)}
                 : ScriptedServer::Turn{"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"};
  });
  Open(dcgm_collector, Unasked(server.Url("/metrics")));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Run(), Not(HasSubstr("gpulens_scrape")));
  EXPECT_EQ(instance->stats().last.code, Code::kUnavailable);
  EXPECT_LT(server.requests().size(), 8u) << "of 20 runs";
  there = true;
  std::string page = Run(std::chrono::minutes(6));
  EXPECT_THAT(page, HasSubstr(kPowerHere));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"dcgm\"} 1"));
  // From now on its absence is a fault.
  there = false;
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"dcgm\"} 0"));
}

TEST_F(DcgmTest, AnAskedForTargetThatIsNotThereIsDown) {
  Open(dcgm_collector, Asked("http://127.0.0.1:1/metrics"));
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"dcgm\"} 0"));
}

TEST_F(DcgmTest, DamagedPages) {
  std::string body;
  ScriptedServer server([&](int, int, const std::string&) {
    return ScriptedServer::Turn{
        Answer200(body, "Content-Type: application/openmetrics-text; version=1.0.0\r\n")};
  });
  Open(dcgm_collector, Asked(server.Url("")));
  body = std::string(kPower) + "# EOF\n";
  EXPECT_THAT(Run(), HasSubstr(kPowerHere));
  // Cut: the last value is still shown, with its age.
  body = "# TYPE x gauge\n";
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr(std::string(kPowerHere) + " "));
  EXPECT_THAT(page, HasSubstr("gpulens_scrape_up{target=\"dcgm\"} 0"));
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss);
  // Garbled lines between good ones are counted.
  body = std::string("DCGM_FI_DEV_POWER_USAGE{gpu=\n\x01\x02\n") + kPower + "# EOF\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_parse_errors_total{target=\"dcgm\"} 2"));
  // Somebody else's page.
  body = "node_load1 1\n# EOF\n";
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_errors_total{reason=\"content_type\",target=\"dcgm\"} 1"));
}

}  // namespace
}  // namespace gpulens
