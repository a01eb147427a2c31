// Pods of a scripted API server as targets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "base/testing/temp_folder.h"
#include "base/threads.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"
#include "plugins/plugin.h"

namespace gpulens {
extern const DiscoverySpec kubernetes_discovery;

namespace {

using gpulens::testing::Answer200;
using gpulens::testing::ScriptedServer;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string PodJson(const std::string& name, const std::string& ip, const std::string& ready = "True",
                    const std::string& more = "") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ml","uid":")" + name +
         R"(","labels":{"app":"chat","pod-template-hash":"abc"},"ownerReferences":[{"kind":"ReplicaSet","name":"chat-abc","controller":true}])" +
         more + R"(},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":")" + ip +
         R"(","conditions":[{"type":"Ready","status":")" + ready + R"("}]}})";
}

class KubernetesDiscoveryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    env_.io = &loop_;
    env_.http = &http_;
    env_.workers = &workers_;
    env_.clock = &clock_;
  }
  void TearDown() override {
    loop_.Call([&] { discovery_ = nullptr; });
    workers_.Stop();
    loop_.Stop();
  }
  void Open(const std::string& url, std::vector<std::string> namespaces) {
    std::ofstream(folder_.path() + "/kubeconfig")
        << "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
           "clusters: [{name: k, cluster: {server: '"
        << url << "'}}]\nusers: [{name: u, user: {token: t}}]\n";
    Config config;
    config.Set("selector", std::string("app=chat"), {});
    config.Set("namespaces", std::move(namespaces), {});
    config.Set("port", int64_t{8000}, {});
    config.Set("path", std::string("/metrics"), {});
    config.Set("kind", std::string("engine"), {});
    config.Set("target_interval", Duration(seconds(5)), {});
    config.Set("pod_labels", std::vector<std::string>{"a*"}, {});
    config.Set("kubeconfig", folder_.path() + "/kubeconfig", {});
    config.Set("refresh", Duration(seconds(5)), {});
    discovery_ = *kubernetes_discovery.create(config, env_);
  }
  Status Fetch() {
    std::mutex mutex;
    std::condition_variable wake;
    std::optional<Status> ended;
    loop_.Call([&] {
      discovery_->Fetch(clock_.Now() + seconds(10), [&](Status status) {
        std::lock_guard lock(mutex);
        ended = std::move(status);
        wake.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return ended.has_value(); });
    return *ended;
  }

  testing::TempFolder folder_;
  ManualClock clock_;
  IoLoop loop_;
  HttpClient http_{loop_};
  Workers workers_{2, 16};
  Env env_;
  std::unique_ptr<Discovery> discovery_;
};

TEST_F(KubernetesDiscoveryTest, ReadyPodsOfAllNamespacesAreTargets) {
  const std::string pods =
      PodJson("chat-abc-1", "10.0.0.5") + "," + PodJson("chat-abc-2", "10.0.0.6", "False") + "," +
      PodJson("chat-abc-3", "10.0.0.7", "True", R"(,"deletionTimestamp":"2026-01-01T00:00:00Z")") + "," +
      PodJson("chat-abc-4", "") + "," + PodJson("chat-abc-5", "2001:db8::7");
  std::mutex mutex;
  std::string heads;
  ScriptedServer server([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    std::lock_guard lock(mutex);
    heads += head;
    peer.Write(Answer200(R"({"kind":"PodList","metadata":{},"items":[)" +
                         (head.find("/ml/") != std::string::npos ? pods : std::string()) + "]}"));
  });
  Open(server.Url(""), {"other", "ml"});
  const Status status = Fetch();
  ASSERT_TRUE(status.ok()) << status.detail;
  const std::vector<FoundTarget> targets = discovery_->Targets();
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].name, "chat-abc-1");
  EXPECT_EQ(targets[0].url, "http://10.0.0.5:8000/metrics");
  EXPECT_EQ(targets[1].url, "http://[2001:db8::7]:8000/metrics");
  EXPECT_EQ(targets[0].options,
            (std::map<std::string, std::string>{{"kind", "engine"}, {"interval", "5000ms"}}));
  EXPECT_EQ(targets[0].attributes, (std::map<std::string, std::string>{{"k8s.namespace.name", "ml"},
                                                                       {"k8s.pod.name", "chat-abc-1"},
                                                                       {"k8s.node.name", "n1"},
                                                                       {"k8s.deployment.name", "chat"},
                                                                       {"k8s.pod.label.app", "chat"}}));
  EXPECT_THAT(heads,
              HasSubstr("GET /api/v1/namespaces/other/pods?resourceVersion=0&labelSelector=app%3Dchat"));
  EXPECT_THAT(heads, HasSubstr("Authorization: Bearer t"));
}

TEST_F(KubernetesDiscoveryTest, AFailureKeepsThePods) {
  std::atomic<int> lists{0};
  ScriptedServer server([&](ScriptedServer::Peer& peer, int) {
    peer.Head();
    const int number = lists++;
    if (number == 0) peer.Write(Answer200(R"({"metadata":{},"items":[)" + PodJson("a", "10.0.0.5") + "]}"));
    if (number == 1) peer.Write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    if (number == 2) peer.Write(Answer200("no JSON"));
  });
  Open(server.Url(""), {"ml"});
  EXPECT_TRUE(Fetch().ok());
  for (const char* why : {"403 Forbidden", "pods", "pods of /api/v1/namespaces/ml/pods"}) {
    const Status status = Fetch();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.detail, HasSubstr(why));
    EXPECT_EQ(discovery_->Targets().size(), 1u);
  }
}

TEST_F(KubernetesDiscoveryTest, RefusesPathsAsNamespaces) {
  Config config;
  config.Set("namespaces", std::vector<std::string>{"ml", "../secrets"}, {});
  config.Set("path", std::string("metrics"), {});
  ConfigFaults faults;
  kubernetes_discovery.check(config, faults);
  ASSERT_EQ(faults.faults().size(), 2u);
  EXPECT_THAT(faults.faults()[0].problem, HasSubstr("../secrets"));
}

}  // namespace
}  // namespace gpulens
