#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "base/threads.h"
#include "net/testing/scripted_server.h"
#include "plugins/collectors/k8s_cluster/k8s_cluster.h"
#include "scrape/collector_testing.h"

namespace gpulens {

extern const CollectorSpec k8s_cluster_collector;

namespace {

using gpulens::testing::Answer200;
using gpulens::testing::ScriptedServer;
using kubelet::Pod;
using ::testing::HasSubstr;
using ::testing::Not;

class K8sClusterTest : public scraping_testing::CollectorTest {
 protected:
  void SetUp() override {
    CollectorTest::SetUp();
    env.workers = &workers;
  }
  void Open(ScriptedServer& server, const std::string& scope) {
    std::ofstream(folder.path() + "/kubeconfig")
        << R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],"clusters":[{"name":"k","cluster":{"server":")"
        << server.Url("") << R"("}}],"users":[{"name":"u","user":{"token":"t"}}]})";
    CollectorTest::Open(
        k8s_cluster_collector,
        scraping_testing::ConfigOf(
            k8s_cluster_collector.options,
            {{"kubeconfig", folder.path() + "/kubeconfig"}, {"scope", scope}, {"node_name", "n1"}}));
  }

  gpulens::testing::TempFolder folder;
  Workers workers{1};
};

std::string PodJson(const std::string& name, const std::string& phase, const std::string& more = "") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ml","uid":"u-)" + name +
         R"(","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"n1"},"status":{"phase":")" +
         phase + "\"" + more + "}}";
}
std::string List(const std::string& pods, const std::string& next = "") {
  return R"({"metadata":{"resourceVersion":"1","continue":")" + next + R"("},"items":[)" + pods + "]}";
}
constexpr const char* kScheduled =
    R"(,"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T00:00:07Z"}],
  "containerStatuses":[{"name":"c","restartCount":2,"ready":true}])";

TEST_F(K8sClusterTest, FollowsTheLifeOfAPod) {
  std::atomic<int> turn = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    switch (turn++) {
      case 0: return ScriptedServer::Turn{.answer = Answer200(List(PodJson("p", "Pending")))};
      case 1: return ScriptedServer::Turn{.answer = Answer200(List(PodJson("p", "Running", kScheduled)))};
      default: return ScriptedServer::Turn{.answer = Answer200(List(""))};
    }
  });
  Open(server, "node");
  std::string who = R"(k8s_namespace_name="ml",k8s_node_name="n1",k8s_pod_name="p")";
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("k8s_pod_status_phase=\"pending\",k8s_pod_uid=\"u-p\"} 1"));
  EXPECT_THAT(page, HasSubstr("k8s_pod_status_phase=\"running\",k8s_pod_uid=\"u-p\"} 0"));
  EXPECT_THAT(page, Not(HasSubstr("scheduling_delay")));
  page = Run();
  EXPECT_THAT(page, HasSubstr("k8s_pod_status_phase=\"running\",k8s_pod_uid=\"u-p\"} 1"));
  EXPECT_THAT(page, HasSubstr("k8s_pod_scheduling_delay_seconds{" + who + ",k8s_pod_uid=\"u-p\"} 7"));
  EXPECT_THAT(page, HasSubstr("k8s_container_restart_count"));
  EXPECT_THAT(page,
              HasSubstr("k8s_container_ready{k8s_container_name=\"c\"," + who + ",k8s_pod_uid=\"u-p\"} 1"));
  EXPECT_THAT(Run(), Not(HasSubstr("k8s_pod_status_phase{")));
  EXPECT_THAT(server.requests()[0],
              HasSubstr("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0 "));
  EXPECT_THAT(server.requests()[0], HasSubstr("Authorization: Bearer t\r\n"));
}

TEST_F(K8sClusterTest, ReadsAClusterInParts) {
  ScriptedServer server([&](int, int, const std::string& request) {
    bool second = request.find("&continue=abc ") != std::string::npos;
    return ScriptedServer::Turn{
        .answer = Answer200(second ? List(PodJson("b", "Failed")) : List(PodJson("a", "Running"), "abc"))};
  });
  Open(server, "cluster");
  std::string page = Run();
  EXPECT_THAT(page, HasSubstr("k8s_pod_name=\"a\""));
  EXPECT_THAT(page, HasSubstr("k8s_pod_name=\"b\""));
  EXPECT_THAT(server.requests()[0], HasSubstr("GET /api/v1/pods?limit=500 "));
}

TEST_F(K8sClusterTest, ReportsFailures) {
  std::atomic<int> turn = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    switch (turn++) {
      case 0: return ScriptedServer::Turn{.answer = Answer200("[]")};
      case 1: return ScriptedServer::Turn{.answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"};
      default: return ScriptedServer::Turn{.answer = Answer200(List("", "a b\\r\\nHost: x"))};
    }
  });
  Open(server, "cluster");
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss);
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kPermissionDenied);
  Run();
  EXPECT_EQ(instance->stats().last.code, Code::kDataLoss) << "a place that would change the request";
}

TEST(PodStateSeries, SteadyWriteDoesNotAllocate) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted here";
  ManualClock clock;
  SeriesTable table;
  FrameWriter writer(table, std::chrono::seconds(180));
  PodStateSeries series;
  std::vector<Pod> pods(3);
  for (size_t i = 0; i < pods.size(); ++i) {
    pods[i].name = "p" + std::to_string(i);
    pods[i].uid = "0e1d2c3b-4a59-6877-8695-a4b3c2d1e0f" + std::to_string(i);
    pods[i].phase = "Running";
    pods[i].created_unix_ns = 1;
    pods[i].scheduled_unix_ns = 2;
    pods[i].containers = {{.name = "main", .id = {}, .restarts = 1, .ready = true}};
  }
  auto write = [&] {
    clock.Advance(std::chrono::seconds(60));
    writer.Begin(clock.Now());
    series.Write(pods, writer);
    (void)writer.Finish();
  };
  for (int i = 0; i < 8; ++i) write();
  uint64_t before = ThreadAllocations();
  write();
  EXPECT_EQ(ThreadAllocations(), before);
  EXPECT_EQ(table.size(), 3u * 8);
}

}  // namespace
}  // namespace gpulens
