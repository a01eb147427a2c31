#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "base/threads.h"
#include "net/testing/scripted_server.h"
#include "plugins/collectors/kubelet_stats/kubelet_stats.h"
#include "scrape/collector_testing.h"

namespace gpulens {

extern const CollectorSpec kubelet_stats_collector;

namespace {

using gpulens::testing::Answer200;
using gpulens::testing::ScriptedServer;
using kubelet::StatsSummary;
using ::testing::HasSubstr;
using ::testing::Not;

class KubeletStatsTest : public scraping_testing::CollectorTest {
 protected:
  void SetUp() override {
    CollectorTest::SetUp();
    env.workers = &workers;
  }
  void Open(ScriptedServer& server, scraping_testing::Values more = {}) {
    more.insert({"url", server.Url("")});
    more.insert({"timeout", Duration(std::chrono::seconds(10))});
    CollectorTest::Open(kubelet_stats_collector,
                        scraping_testing::ConfigOf(kubelet_stats_collector.options, more));
  }

  Workers workers{1};
};

std::string Summary(int64_t cpu_ns, const std::string& started = "2023-11-14T00:00:00Z") {
  std::string cpu =
      R"("cpu":{"usageCoreNanoSeconds":)" + std::to_string(cpu_ns) + R"(,"usageNanoCores":250000000})";
  return R"({"node":{"nodeName":"n1",)" + cpu +
         R"(},"pods":[{"podRef":{"name":"p","namespace":"ml","uid":"u1"},)" + cpu +
         R"(,"network":{"rxBytes":5,"txBytes":6},"containers":[{"name":"c","startTime":")" + started +
         R"(",)" + cpu + R"(,"memory":{"workingSetBytes":2048}}]}]})";
}
std::string Kills(int count, const std::string& cgroup = "/x") {
  return "container_oom_events_total{container=\"c\",id=\"" + cgroup + "\",namespace=\"ml\",pod=\"p\"} " +
         std::to_string(count) + "\n";
}
constexpr const char* kWho =
    R"(k8s_container_name="c",k8s_namespace_name="ml",k8s_node_name="n1",k8s_pod_name="p",k8s_pod_uid="u1")";

TEST_F(KubeletStatsTest, ExportsUsageAndKills) {
  std::atomic<int> kills = 2;
  ScriptedServer server([&](int, int, const std::string& request) {
    bool page = request.find("GET /metrics/cadvisor ") == 0;
    return ScriptedServer::Turn{.answer = Answer200(page ? Kills(kills) : Summary(3'000'000'000))};
  });
  Open(server);
  std::string page = Run();
  std::string who = kWho;
  EXPECT_THAT(page, HasSubstr("container_cpu_time_seconds_total{" + who + "} 3"));
  EXPECT_THAT(page, HasSubstr("container_cpu_usage{" + who + "} 0.25"));
  EXPECT_THAT(page, HasSubstr("container_memory_working_set_bytes{" + who + "} 2048"));
  EXPECT_THAT(page, Not(HasSubstr("container_memory_rss")));
  EXPECT_THAT(page, HasSubstr("k8s_node_cpu_time_seconds_total{k8s_node_name=\"n1\"} 3"));
  EXPECT_THAT(page, HasSubstr("k8s_container_oom_kills_total{" + who + "} 0"));
  kills = 4;
  EXPECT_THAT(Run(), HasSubstr("k8s_container_oom_kills_total{" + who + "} 2"));
}

TEST_F(KubeletStatsTest, ExportsLessWithoutCadvisor) {
  ScriptedServer server([&](int, int, const std::string& request) {
    bool page = request.find("GET /metrics/cadvisor ") == 0;
    return ScriptedServer::Turn{.answer = page ? "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
                                               : Answer200(Summary(1))};
  });
  Open(server);
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("container_cpu_time_seconds_total"));
  EXPECT_THAT(page, Not(HasSubstr("oom_kills")));
}

TEST_F(KubeletStatsTest, ReportsFailures) {
  std::atomic<int> turn = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    switch (turn++) {
      case 0: return ScriptedServer::Turn{.answer = Answer200("no json")};
      case 1: return ScriptedServer::Turn{.answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"};
      default: return ScriptedServer::Turn{.answer = Answer200("{}"), .close = true};
    }
  });
  Open(server, {{"oom_kills", false}});
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss);
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kPermissionDenied);
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss) << "an object without pods";
}

TEST_F(KubeletStatsTest, IsUnavailableOutsideKubernetes) {
  auto made =
      kubelet_stats_collector.create(scraping_testing::ConfigOf(kubelet_stats_collector.options, {}), env);
  EXPECT_EQ(made.status().code, Code::kUnavailable);
}

class UsageSeriesTest : public ::testing::Test {
 protected:
  StatsSummary Of(uint64_t cpu_ns, int64_t started_ns, const std::string& uid = "u1") {
    StatsSummary summary;
    summary.node = "n1";
    kubelet::PodStats pod{.name = "p",
                          .name_space = "ml",
                          .uid = uid,
                          .started_ns = 1,
                          .usage = {},
                          .received_bytes = {},
                          .sent_bytes = {},
                          .receive_errors = {},
                          .send_errors = {},
                          .containers = {}};
    pod.containers.push_back({.name = "c", .started_ns = started_ns, .usage = {}});
    pod.containers[0].usage.cpu_nanoseconds = cpu_ns;
    summary.pods.push_back(pod);
    return summary;
  }
  Ref<const Frame> Write(const StatsSummary& summary, const std::vector<kubelet::OomEvents>& events = {}) {
    clock.Advance(std::chrono::seconds(30));
    writer.Begin(clock.Now());
    series.Write(summary, writer);
    series.WriteKills(events, writer);
    return writer.Finish();
  }
  // The only value of a row; nothing when it has none.
  std::optional<double> Of(const Ref<const Frame>& frame, std::string_view name) {
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (!info.desc || info.desc->name != name || frame->quality[slot] == Quality::kAbsent) continue;
      Cell cell = frame->cells[info.first_cell];
      start = info.start_unix_ns;
      return info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nullopt;
  }

  ManualClock clock;
  SeriesTable table;
  FrameWriter writer{table, std::chrono::seconds(90)};
  UsageSeries series;
  int64_t start = 0;
};

TEST_F(UsageSeriesTest, RestartedContainerStartsANewCounter) {
  Write(Of(9'000'000'000, 100));
  auto frame = Write(Of(1'000'000'000, 200), {});
  EXPECT_EQ(Of(frame, "container.cpu.time"), 1);
  EXPECT_EQ(start, 200);
  EXPECT_EQ(table.size(), 1u);
}

TEST_F(UsageSeriesTest, KillsAddUpOverRestarts) {
  auto events = [](double count, const std::string& cgroup) {
    return std::vector<kubelet::OomEvents>{{"ml", "p", "c", cgroup, count}};
  };
  EXPECT_EQ(Of(Write(Of(1, 100), events(5, "/a")), "k8s.container.oom_kills"), 0);
  EXPECT_EQ(Of(Write(Of(1, 100), events(6, "/a")), "k8s.container.oom_kills"), 1);
  EXPECT_EQ(Of(Write(Of(1, 200), events(1, "/b")), "k8s.container.oom_kills"), 2)
      << "another life, killed once";
  EXPECT_EQ(Of(Write(Of(1, 200), events(1, "/b")), "k8s.container.oom_kills"), 2);
  EXPECT_EQ(Of(Write(Of(1, 100, "u2"), events(0, "/c")), "k8s.container.oom_kills"), 0)
      << "another pod of that name";
}

TEST_F(UsageSeriesTest, RemovesEndedContainersAtOnce) {
  Write(Of(1, 100));
  auto frame = Write(StatsSummary{});
  EXPECT_EQ(Of(frame, "container.cpu.time"), std::nullopt);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(UsageSeriesTest, SteadyWriteDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted here";
  StatsSummary summary = Of(5, 100);
  std::vector<kubelet::OomEvents> events{{"ml", "p", "c", "/a-long-name-of-a-cgroup-that-needs-memory", 1}};
  for (int i = 0; i < 8; ++i) Write(summary, events);
  uint64_t before = ThreadAllocations();
  Write(summary, events);
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens
