// Targets of engines over HTTP, and queries of their API.

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>

#include "scrape/collector_testing.h"
#include "scrape/engine/engine_row.h"
#include "scrape/gpu/exporters.h"

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

constexpr const char* kNotFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
constexpr const char* kRunning =
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 3\n";

class EnginePageTest : public scraping_testing::CollectorTest {
 protected:
  void OpenPage(Values values, const std::string& path = "/metrics") {
    values.emplace("name", "t");
    values.emplace("url", server.Url(path));
    values.emplace("kind", std::string("engine"));
    Open(targets_collector, ConfigOf(targets_collector.options, values));
  }
  void Serve(const std::string& path, const std::string& body) {
    std::lock_guard lock(mutex);
    pages[path] = body;
  }
  ScriptedServer::Turn Play(const std::string& request) {
    std::lock_guard lock(mutex);
    size_t from = request.find(' ') + 1;
    auto at = pages.find(request.substr(from, request.find(' ', from) - from));
    if (at == pages.end()) return {kNotFound};
    return {Answer200(at->second)};
  }
  // Runs until the page has it: answers of the API arrive later.
  std::string RunUntil(const std::string& text) {
    std::string page;
    for (int i = 0; i < 200; ++i) {
      page = Run(std::chrono::minutes(11));
      if (page.find(text) != std::string::npos) break;
    }
    return page;
  }

  std::mutex mutex;  // guards what follows
  std::map<std::string, std::string> pages;
  ScriptedServer server{[this](int, int, const std::string& request) { return Play(request); }};
};

TEST_F(EnginePageTest, PageWithoutEngineFamilies) {
  Serve("/metrics", kRunning);
  OpenPage({{"attributes", std::map<std::string, std::string>{{"cluster", "c"}}}});
  std::string page = Run();
  EXPECT_THAT(page,
              AllOf(HasSubstr("inference_requests_running{cluster=\"c\",inference_engine=\"vllm\",inference_"
                              "layer=\"engine\",model_name=\"m\",target=\"t\"} 3\n"),
                    HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n"),
                    HasSubstr("gpulens_scrape_families_unknown{target=\"t\"} 0\n"), Not(HasSubstr("vllm:"))));
}

TEST_F(EnginePageTest, PassThroughExportsRawFamilies) {
  Serve("/metrics",
        std::string(kRunning) +
            "# TYPE python_info gauge\npython_info 1\n# TYPE vllm:quite_new gauge\nvllm:quite_new 1\n");
  OpenPage({{"pass_through", true}});
  EXPECT_THAT(Run(), AllOf(HasSubstr("vllm:num_requests_running{model_name=\"m\",target=\"t\"} 3\n"),
                           HasSubstr("vllm:quite_new{target=\"t\"} 1\n"), Not(HasSubstr("python_info")),
                           HasSubstr("gpulens_scrape_families_unknown{target=\"t\"} 1\n")));
}

TEST_F(EnginePageTest, QueriesVersionAndModel) {
  Serve("/metrics", "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n");
  Serve("/version", "{\"version\": \"0.11.0\"}");
  Serve("/v1/models", "{\"data\": [{\"id\": \"org/model\"}]}");
  OpenPage({});
  std::string page = RunUntil("model_name=\"org/model\"");
  EXPECT_THAT(
      page, HasSubstr("inference_requests_running{inference_engine=\"vllm\",inference_layer=\"engine\",model_"
                      "name=\"org/model\",target=\"t\"} 3\n"));
  EXPECT_THAT(
      page,
      HasSubstr("inference_engine_version_info{inference_engine=\"vllm\",inference_engine_version=\"0.11.0"
                "\",target=\"t\"} 1\n"));
  Serve("/version", "{\"version\": \"0.12.0\"}");
  page = RunUntil("0.12.0");
  EXPECT_THAT(page, AllOf(HasSubstr("0.12.0"), Not(HasSubstr("0.11.0"))));
}

TEST_F(EnginePageTest, ConfiguredModelWins) {
  Serve("/metrics", "# TYPE tgi_queue_size gauge\ntgi_queue_size 2\n");
  Serve("/info", "{\"model_id\": \"theirs\", \"version\": \"3.0\"}");
  OpenPage({{"model", std::string("ours")}});
  EXPECT_THAT(RunUntil("3.0"),
              HasSubstr("inference_requests_waiting{inference_engine=\"tgi\",inference_layer=\"engine\","
                        "model_name=\"ours\",target=\"t\"} 2\n"));
}

TEST_F(EnginePageTest, FindsNimAtBothPaths) {
  const std::string page = "# TYPE num_requests_waiting gauge\nnum_requests_waiting 2\n";
  for (const char* place : {"/metrics", "/v1/metrics"}) {
    {
      std::lock_guard lock(mutex);
      pages = {{place, page}};
    }
    for (const char* configured : {"/metrics", "/v1/metrics"}) {
      OpenPage({{"kind", std::string("nim")}}, configured);
      for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(Run(), AllOf(HasSubstr("inference_requests_waiting{inference_engine=\"nim\""),
                                 HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n")))
            << place << " " << configured;
      }
    }
  }
}

TEST_F(EnginePageTest, FailsWithoutNim) {
  OpenPage({{"kind", std::string("nim")}});
  EXPECT_THAT(Run(), AllOf(HasSubstr("gpulens_scrape_up{target=\"t\"} 0\n"),
                           HasSubstr("gpulens_scrape_errors_total{reason=\"status\",target=\"t\"} 1\n")));
  Serve("/metrics", "# TYPE num_requests_waiting gauge\nnum_requests_waiting 2\n");
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n"));
}

TEST_F(EnginePageTest, OptionalTargetExportsNothingBeforeItAnswers) {
  OpenPage({{"optional", true}});
  EXPECT_THAT(Run(), Not(HasSubstr("gpulens_scrape")));
  EXPECT_EQ(instance->stats().last.code, Code::kUnavailable);
  Serve("/metrics", "# TYPE node_load1 gauge\nnode_load1 1\n");
  EXPECT_THAT(Run(), Not(HasSubstr("gpulens_scrape")));
  Serve("/metrics", kRunning);
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 1\n"));
  Serve("/metrics", "");
  EXPECT_THAT(Run(), HasSubstr("gpulens_scrape_up{target=\"t\"} 0\n"))
      << "it has answered: its absence is a fault";
}

TEST_F(EnginePageTest, OtherPageIsNotUp) {
  Serve("/metrics", "# TYPE node_load1 gauge\nnode_load1 1\n");
  OpenPage({});
  EXPECT_THAT(Run(),
              AllOf(HasSubstr("gpulens_scrape_up{target=\"t\"} 0\n"),
                    HasSubstr("gpulens_scrape_errors_total{reason=\"content_type\",target=\"t\"} 1\n")));
}

// The configuration offers all engines of the tables.
TEST(TargetsSpec, KindsAreThoseOfTheTables) {
  std::vector<std::string_view> names = {"auto", "prometheus", "engine", "gpu"};
  for (const gpu_page::Exporter* exporter : gpu_page::AllExporters()) names.push_back(exporter->name);
  for (const engine_page::Engine& engine : engine_page::AllEngines()) names.push_back(engine.name);
  for (const OptionSpec& option : targets_collector.options) {
    if (option.key != "kind") continue;
    EXPECT_THAT(std::vector<std::string_view>(option.allowed.begin(), option.allowed.end()),
                ::testing::ElementsAreArray(names));
  }
}

}  // namespace
}  // namespace gpulens
