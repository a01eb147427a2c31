#include "sources/kubelet/api/pod_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens::kubelet {
namespace {

using gpulens::testing::Answer200;
using gpulens::testing::ScriptedServer;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Turn = ScriptedServer::Turn;

std::string PodJson(const std::string& name, const std::string& uid, const std::string& phase = "Running",
                    const std::string& version = "5") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ml","uid":")" + uid +
         R"(","resourceVersion":")" + version + R"("},"spec":{"nodeName":"n1"},"status":{"phase":")" + phase +
         R"("}})";
}
std::string ListJson(const std::string& pods, const std::string& version = "10") {
  return R"({"kind":"PodList","metadata":{"resourceVersion":")" + version + R"("},"items":[)" + pods + "]}";
}
std::string Chunk(const std::string& text) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + text + "\r\n";
}
constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

class PodWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { loop.Start(); }
  void TearDown() override {
    loop.Call([&] { watch.reset(); });
  }
  void Open(ScriptedServer& server) {
    ApiServer api;
    api.url = *ParseHttpUrl(server.Url(""));
    api.token = "secret";
    access = std::make_unique<ApiAccess>(api);
    ASSERT_TRUE(access->Refresh().ok());
    watch = std::make_unique<PodWatch>(client, "n1");
  }
  // One round of the three steps.
  void Round() {
    clock.Advance(seconds(1));
    loop.Call([&] { watch->Begin(*access, clock.Now()); });
    watch->Parse(clock.Now());
    loop.Call([&] { watch->End(*access, clock.Now()); });
  }
  // Rounds until it is so; real connections take their time.
  ::testing::AssertionResult Until(const std::function<bool()>& so) {
    auto end = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      Round();
      if (so()) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "not within 20 s: " << watch->status().detail;
  }
  const PodWatch::Store& store() const { return watch->store(); }

  ManualClock clock;
  IoLoop loop;
  HttpClient client{loop};
  std::unique_ptr<ApiAccess> access;
  std::unique_ptr<PodWatch> watch;
};

TEST_F(PodWatchTest, ListsThenFollows) {
  ScriptedServer server([](int, int, const std::string& request) {
    if (request.find("watch=1") == std::string::npos)
      return Turn{.answer = Answer200(ListJson(PodJson("a", "u1")))};
    std::string lines = R"({"type":"ADDED","object":)" + PodJson("b", "u2", "Pending", "11") + "}\n" +
                        R"({"type":"MODIFIED","object":)" + PodJson("a", "u1", "Failed", "12") + "}\n" +
                        R"({"type":"DELETED","object":)" + PodJson("b", "u2", "Running", "13") + "}\n" +
                        R"({"type":"ADDED","object":)" + PodJson("c", "u3", "Running", "14") + "}\n";
    // Never ends: the lines come while it goes on.
    return Turn{.answer = std::string(kStreamHead) + Chunk(lines.substr(0, 77)) + Chunk(lines.substr(77))};
  });
  Open(server);
  EXPECT_FALSE(store().synced);
  ASSERT_TRUE(Until([&] { return store().pods.contains("u3"); }));
  EXPECT_EQ(store().pods.size(), 2u);
  EXPECT_EQ(store().pods.at("u1").phase, "Failed");
  EXPECT_EQ(watch->lists(), 1u);
  auto requests = server.requests();
  EXPECT_THAT(requests[0], HasSubstr("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0 "));
  EXPECT_THAT(requests[0], HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("&resourceVersion=10 "));
}

TEST_F(PodWatchTest, GoesOnWhereAWatchEnded) {
  std::atomic<int> watches = 0;
  ScriptedServer server([&](int, int, const std::string& request) {
    if (request.find("watch=1") == std::string::npos) return Turn{.answer = Answer200(ListJson(""))};
    int number = watches++;
    if (number == 0) {
      return Turn{.answer = Answer200(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"77"}}})"
                                      "\n")};
    }
    return Turn{.answer = std::string(kStreamHead) +
                          Chunk(R"({"type":"ADDED","object":)" + PodJson("a", "u1") + "}\n")};
  });
  Open(server);
  ASSERT_TRUE(Until([&] { return store().pods.size() == 1; }));
  EXPECT_EQ(watch->lists(), 1u);
  EXPECT_THAT(server.requests()[2], HasSubstr("&resourceVersion=77 "));
}

TEST_F(PodWatchTest, ListsAgainWhenTheVersionHasExpired) {
  std::atomic<int> watches = 0, lists = 0;
  ScriptedServer server([&](int, int, const std::string& request) {
    if (request.find("watch=1") == std::string::npos) {
      return Turn{.answer = Answer200(ListJson(PodJson("a", "u" + std::to_string(++lists))))};
    }
    int number = watches++;
    if (number == 0) {
      return Turn{.answer = Answer200(R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})"
                                      "\n")};
    }
    if (number == 1) return Turn{.answer = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"};
    return Turn{.answer = std::string(kStreamHead)};
  });
  Open(server);
  ASSERT_TRUE(Until([&] { return watch->lists() == 3; }));
  EXPECT_TRUE(watch->status().ok());
  EXPECT_TRUE(store().pods.contains("u3"));
  EXPECT_EQ(store().pods.size(), 1u) << "the list replaces what was known";
}

TEST_F(PodWatchTest, BacksOffAndForgetsAfterAMinute) {
  std::atomic<int> requests = 0;
  std::atomic<bool> allowed = true;
  ScriptedServer server([&](int, int, const std::string& request) {
    ++requests;
    if (!allowed) return Turn{.answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"};
    if (request.find("watch=1") != std::string::npos) return Turn{.answer = Answer200("{no json}\n")};
    return Turn{.answer = Answer200(ListJson(PodJson("a", "u1")))};
  });
  Open(server);
  ASSERT_TRUE(Until([&] { return store().synced && !watch->status().ok(); })) << "a bad line of the watch";
  EXPECT_EQ(watch->status().code, Code::kDataLoss);
  EXPECT_TRUE(store().pods.contains("u1")) << "what was known stays";
  allowed = false;
  ASSERT_TRUE(Until([&] { return watch->status().code == Code::kPermissionDenied; }));
  ASSERT_TRUE(Until([&] { return !store().synced; })) << "a minute of rounds";
  EXPECT_TRUE(store().pods.empty());
  int before = requests;
  for (int i = 0; i < 60; ++i) Round();
  EXPECT_LE(requests - before, 3) << "60 s of rounds, with back-off";
}

TEST(ApiServer, IsFoundInAPod) {
  gpulens::testing::TempFolder folder;
  EXPECT_EQ(InClusterServer("", "443", folder.path()).error().code, Code::kUnavailable);
  EXPECT_EQ(InClusterServer("10.0.0.1", "443", folder.path()).error().code, Code::kUnavailable);
  std::ofstream(folder.path() + "/token") << "tok\n";
  auto server = InClusterServer("10.0.0.1", "6443", folder.path());
  ASSERT_TRUE(server.ok()) << server.error().detail;
  EXPECT_EQ(server->url.ToString(), "https://10.0.0.1:6443");
  EXPECT_EQ(InClusterServer("fd00::1", "", folder.path())->url.host, "fd00::1");
}

TEST(ApiServer, ReadsTokensAgainWhenTheyChange) {
  gpulens::testing::TempFolder folder;
  ApiServer server;
  server.url = *ParseHttpUrl("http://127.0.0.1:1");
  server.token_file = folder.path() + "/token";
  ApiAccess access(server);
  EXPECT_EQ(access.Refresh().code, Code::kUnavailable);
  std::ofstream(server.token_file) << "one\n";
  ASSERT_TRUE(access.Refresh().ok());
  EXPECT_THAT(access.headers(), HasSubstr("Bearer one\r\n"));
  std::ofstream(server.token_file) << "two";
  ASSERT_TRUE(access.Refresh().ok());
  EXPECT_THAT(access.headers(), HasSubstr("Bearer two\r\n"));
  std::ofstream(server.token_file) << "with\nanother line";
  EXPECT_EQ(access.Refresh().code, Code::kInvalidArgument) << "no smuggled fields";
}

TEST(Kubeconfig, TakesTheCurrentContext) {
  auto text = ReadFile(std::string("src/sources/kubelet/api/testdata/kubeconfig_corpus/good"));
  ASSERT_TRUE(text.ok());
  auto server = ParseKubeconfig(*text, "/home/.kube");
  ASSERT_TRUE(server.ok()) << server.error().detail;
  EXPECT_EQ(server->url.host, "k");
  EXPECT_EQ(server->token, "t");
  EXPECT_EQ(server->tls.ca.text, "abc");
  std::string files =
      R"({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://h/path/", "certificate-authority": "ca.pem",
      "insecure-skip-tls-verify": true}}],
    "users": [{"name": "u", "user": {"client-certificate": "c.pem", "client-key": "/k.pem"}}]})";
  server = ParseKubeconfig(files, "/home/.kube");
  ASSERT_TRUE(server.ok()) << server.error().detail;
  EXPECT_EQ(server->url.target, "/path");
  EXPECT_EQ(server->tls.ca.file, "/home/.kube/ca.pem");
  EXPECT_EQ(server->tls.certificate.file, "/home/.kube/c.pem");
  EXPECT_EQ(server->tls.key.file, "/k.pem");
  EXPECT_TRUE(server->tls.insecure_skip_verify);
}

TEST(Kubeconfig, RefusesBadInput) {
  size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("src/sources/kubelet/api/testdata/bad")) {
    auto text = ReadFile(entry.path().string());
    ASSERT_TRUE(text.ok());
    ++seen;
    EXPECT_FALSE(ParseKubeconfig(*text, "/").ok()) << entry.path();
  }
  EXPECT_GE(seen, 9u);
  EXPECT_EQ(ParseKubeconfig(std::string(2 << 20, ' '), "/").error().code, Code::kExhausted);
}

}  // namespace
}  // namespace gpulens::kubelet
