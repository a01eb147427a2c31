// Targets of kind auto: detection of a page's kind, and its changes.

#include <gmock/gmock.h>

#include "scrape/collector_testing.h"

namespace gpulens {
extern const CollectorSpec targets_collector;

namespace {

using scraping_testing::ConfigOf;
using scraping_testing::Values;
using ::testing::AllOf;
using testing::Answer200;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;

constexpr auto kEnginePage =
    "# TYPE python_info gauge\npython_info 1\n# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{model_name=\"m\"} 3\n";
constexpr auto kGpuPage =
    "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\"} 100\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\"} "
    "40\n"
    "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-a\"} 1980\ngo_goroutines 7\ngo_threads 9\nprocess_open_fds 5\n"
    "promhttp_metric_handler_requests_in_flight 1\n";
constexpr auto kPlainPage = "node_load1 1\nnode_load5 2\n";

class AutoPageTest : public scraping_testing::CollectorTest {
 protected:
  void OpenPage(Values values = {}) {
    values.emplace("name", "t");
    values.emplace("url", server.Url("/metrics"));
    values.emplace("kind", std::string("auto"));
    Open(targets_collector, ConfigOf(targets_collector.options, values));
  }
  std::string body;
  ScriptedServer server{[this](int, int, const std::string& request) {
    const bool page = request.find(" /metrics ") != std::string::npos;
    return ScriptedServer::Turn{page ? Answer200(body)
                                     : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"};
  }};
};

TEST_F(AutoPageTest, DetectsAnEngine) {
  body = kEnginePage;
  OpenPage();
  EXPECT_THAT(Run(), AllOf(HasSubstr("inference_requests_running{inference_engine=\"vllm\""),
                           Not(HasSubstr("vllm:")), Not(HasSubstr("python_info"))));
}

TEST_F(AutoPageTest, DetectsAGpuExporterDespiteRuntimeFamilies) {
  body = kGpuPage;
  OpenPage();
  EXPECT_THAT(Run(), AllOf(HasSubstr("gpu_power_draw_watts{gpu_index=\"0\",gpu_uuid=\"GPU-a\"} 100"),
                           Not(HasSubstr("DCGM_FI")), Not(HasSubstr("go_threads"))));
}

TEST_F(AutoPageTest, OtherPagesKeepTheirNames) {
  body = kPlainPage;
  OpenPage();
  EXPECT_THAT(Run(), AllOf(HasSubstr("node_load1{target=\"t\"} 1\n"),
                           HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n")));
}

TEST_F(AutoPageTest, OneGpuFamilyIsNotAnExporter) {
  body = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 40\nmy_app_jobs 4\n";
  OpenPage();
  EXPECT_THAT(
      Run(), AllOf(HasSubstr("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",target=\"t\"} 40\n"), HasSubstr("my_app_jobs")));
}

TEST_F(AutoPageTest, LateEngineFamiliesEndPlainSeries) {
  body = "python_info 1\n";
  OpenPage();
  EXPECT_THAT(Run(), HasSubstr("python_info{target=\"t\"} 1\n"));
  body = kEnginePage;
  const std::string page = Run();
  EXPECT_THAT(page, AllOf(HasSubstr("inference_requests_running"), Not(HasSubstr("python_info")),
                          HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n")));
  // A restarted engine shows few families at first: it stays an engine, and its series end.
  body = "python_info 1\n";
  EXPECT_THAT(Run(), AllOf(Not(HasSubstr("python_info")), Not(HasSubstr("inference_requests_running")),
                           HasSubstr("gpulens_scrape_up{target=\"t\"} 0\n")));
  body = kEnginePage;
  EXPECT_THAT(Run(), HasSubstr("inference_requests_running"));
}

TEST_F(AutoPageTest, DetectsAnotherProgramAtTheUrl) {
  body = kEnginePage;
  OpenPage();
  EXPECT_THAT(Run(), HasSubstr("inference_requests_running"));
  body = kGpuPage;
  EXPECT_THAT(Run(), AllOf(HasSubstr("gpu_power_draw_watts"), Not(HasSubstr("inference_"))));
  body = kEnginePage;
  EXPECT_THAT(Run(), AllOf(HasSubstr("inference_requests_running"), Not(HasSubstr("gpu_power_draw_watts"))));
}

TEST_F(AutoPageTest, DefaultNameIsHostAndPort) {
  body = kPlainPage;
  OpenPage({{"name", std::string()}});
  const std::string target = "127.0.0.1:" + std::to_string(server.endpoint().port);
  EXPECT_THAT(Run(), HasSubstr("node_load1{target=\"" + target + "\"} 1\n"));
}

TEST(TargetsCheckTest, OptionsOfEnginesAreRefusedForOtherKinds) {
  auto faults_of = [](const char* kind) {
    ConfigFaults faults;
    targets_collector.check(ConfigOf(targets_collector.options, {{"url", std::string("http://h/")},
                                                                 {"kind", std::string(kind)},
                                                                 {"model", std::string("m")}}),
                            faults);
    return faults.faults().size();
  };
  EXPECT_EQ(faults_of("prometheus"), 1u);
  EXPECT_EQ(faults_of("dcgm"), 1u);
  EXPECT_EQ(faults_of("vllm"), 0u);
  EXPECT_EQ(faults_of("auto"), 0u);
}

}  // namespace
}  // namespace gpulens
