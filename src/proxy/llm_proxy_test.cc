#include "proxy/llm_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/sanitizers.h"
#include "base/testing/temp_folder.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"
#include "proxy/admission/keys.h"
#include "store/charges/charge_file.h"

namespace gpulens::proxy {
namespace {

using gpulens::testing::Answer;
using gpulens::testing::Eventually;
using gpulens::testing::Fetch;
using gpulens::testing::ScriptedServer;
using gpulens::testing::TempFolder;
using gpulens::testing::TestClient;
using ::testing::HasSubstr;

constexpr int64_t kPico = 10 * 2'000'000 + 5 * 8'000'000;  // 10 tokens in, 5 out

// Usage, and the id that the client put into the text.
std::string AnswerTo(const std::string& request) {
  const size_t at = request.find("write ");
  const std::string what = request.substr(at + 6, request.find('"', at) - at - 6);
  const std::string body = R"({"id":"c","model":"m","choices":[{"index":0,"message":{"content":")" + what +
                           R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,)"
                           R"("total_tokens":15}})";
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: up-" + what +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class LlmProxyTest : public ::testing::Test {
 protected:
  LlmProxyTest() {
    VirtualKey settings;
    settings.id = "ada";
    settings.tenant = "acme";
    NewKey made = *MakeKey(settings);
    key_ = made.key;
    const std::string path = folder_.Write("keys.tsv", std::string(kKeyColumns) + "\n" + made.line + "\n");
    CHECK(::chmod(path.c_str(), 0600) == 0);
    folder_.Write("prices.tsv", "provider\tmodel\tinput\toutput\topenai\n");
    folder_.Write("prices.tsv", "provider\tmodel\tinput\toutput\nopenai\tm\t2000000\t8000000\n");
  }

  ProxyOptions Options(const Endpoint& upstream) const {
    ProxyOptions options;
    options.listen = {*ParseListenAddress("127.0.0.1:0")};
    options.journal.folder = folder_.path() + "/journal";
    options.stores = {{"file", folder_.path() + "/charges.db"}};
    options.keys_file = folder_.path() + "/keys.tsv";
    options.price_files = {folder_.path() + "/prices.tsv"};
    ProviderConfig provider;
    provider.name = "one";
    provider.prices = "openai";
    provider.credential = "secret";
    provider.upstream.url = *ParseHttpUrl("http://" + upstream.ToString());
    options.config.providers = {provider};
    options.config.routes = {{{"*"}, {0}}};
    return options;
  }
  std::string Request(const std::string& what) const {
    const std::string body =
        R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"write )" + what + "\"}]}";
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer " + key_ +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::vector<ChargeRecord> Rows() const {
    ChargeFile::Options options;
    options.path = folder_.path() + "/charges.db";
    options.read_only = true;
    options.create = false;
    auto store = ChargeFile::Open(options);
    CHECK(store.ok());
    std::vector<ChargeRecord> all;
    for (ChargePlace after;;) {
      auto page = (*store)->List(after, 1000);
      CHECK(page.ok());
      if (page->empty()) return all;
      after = {page->back().settled_unix_ns, page->back().id};
      all.insert(all.end(), page->begin(), page->end());
    }
  }

  const TempFolder folder_;
  std::string key_;
};

TEST_F(LlmProxyTest, ServesOnSeveralLoopsAndKeepsWhatBudgetsHaveSpent) {
  ScriptedServer upstream(ScriptedServer::Play(
      [](int, int, const std::string& request) { return ScriptedServer::Turn{AnswerTo(request)}; }));
  ProxyOptions options = Options(upstream.endpoint());
  options.loops = 2;
  BudgetSpec budget;
  budget.name = "acme";
  budget.tenants = {"acme"};
  budget.mode = BudgetMode::kHard;
  budget.limit_pico = 1'000'000'000'000;
  options.budgets = {budget};
  for (int start = 1; start <= 2; ++start) {
    auto proxy = LlmProxy::Start(options);
    ASSERT_TRUE(proxy.ok()) << proxy.error().detail;
    EXPECT_EQ((*proxy)->admission().budgets().View("acme", RealClock().Now())->spent_pico,
              (start - 1) * 20 * kPico);
    std::vector<std::thread> clients;
    std::atomic<int> good{0};
    for (int client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        TestClient connection((*proxy)->addresses().front());
        for (int i = 0; i < 5; ++i) {
          connection.Send(Request(std::to_string(100 * start + 10 * client + i)));
          good += connection.Read().status == 200;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(good, 20);
    (*proxy)->Stop(std::chrono::seconds(5));
    EXPECT_EQ(Rows().size(), static_cast<size_t>(20 * start));
  }
}

TEST_F(LlmProxyTest, AReloadChangesKeysAndRoutesAndABadOneNothing) {
  ScriptedServer upstream(ScriptedServer::Play(
      [](int, int, const std::string& request) { return ScriptedServer::Turn{AnswerTo(request)}; }));
  ProxyOptions options = Options(upstream.endpoint());
  auto proxy = LlmProxy::Start(options);
  ASSERT_TRUE(proxy.ok()) << proxy.error().detail;
  TestClient client((*proxy)->addresses().front());
  client.Send(Request("one"));
  EXPECT_EQ(client.Read().status, 200);
  ProxyOptions bad = options;
  bad.price_files = {folder_.Write("bad.tsv", "provider\tmodel\tprice\n")};
  EXPECT_EQ((*proxy)->Reload(bad).code, Code::kInvalidArgument);
  client.Send(Request("two"));
  EXPECT_EQ(client.Read().status, 200);
  options.config.routes.front().models = {"other-*"};
  ASSERT_TRUE((*proxy)->Reload(options).ok());
  client.Send(Request("three"));
  EXPECT_EQ(client.Read().status, 404);
}

TEST_F(LlmProxyTest, RefusesToStartOnKeysThatOthersMayReadAndASecondTime) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{}; }));
  ProxyOptions options = Options(upstream.endpoint());
  {
    auto proxy = LlmProxy::Start(options);
    ASSERT_TRUE(proxy.ok());
    auto second = LlmProxy::Start(options);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Code::kUnavailable) << second.error().detail;
  }
  CHECK(::chmod(options.keys_file.c_str(), 0644) == 0);
  auto open = LlmProxy::Start(options);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().detail, HasSubstr("keys.tsv"));
}

// Every answer that a client has whole is one row, whenever the proxy is killed; every other request that
// reached the upstream is one row, too.
TEST_F(LlmProxyTest, KilledAtAnyTimeItChargesEachAnswerOnce) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer ends a child that starts a thread";
  std::atomic<int> served{0};
  ScriptedServer upstream(ScriptedServer::Play([&](int, int, const std::string& request) {
    ++served;
    return ScriptedServer::Turn{AnswerTo(request)};
  }));
  ProxyOptions options = Options(upstream.endpoint());
  options.journal.segment_bytes = 64 << 10;
  std::set<std::string> answered;
  std::mutex mutex;
  constexpr int kKills = 12, kClients = 8;
  int number = 0;
  for (int kill = 0; kill <= kKills; ++kill) {
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto proxy = LlmProxy::Start(options);
      const uint16_t port = proxy.ok() ? (*proxy)->addresses().front().port : 0;
      if (::write(report[1], &port, sizeof port) != sizeof port) ::_exit(1);
      for (;;) ::pause();
    }
    uint16_t port = 0;
    ASSERT_EQ(::read(report[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    ::close(report[0]);
    ::close(report[1]);
    ASSERT_NE(port, 0) << "it starts again after every kill";
    const Endpoint at = *ParseListenAddress("127.0.0.1:" + std::to_string(port));
    std::vector<std::thread> clients;
    std::atomic<bool> stop{false};
    std::atomic<int> good{0};
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, first = number + client * 1'000'000] {
        TestClient connection(at);
        for (int i = first; !stop; ++i) {
          const std::string what = std::to_string(i);
          if (!connection.Send(Request(what))) return;
          const Answer answer = connection.Read();
          if (answer.status == 0) return;
          if (answer.status != 200) continue;
          ++good;
          std::lock_guard lock(mutex);
          answered.insert("up-" + what);
        }
      });
    }
    number += kClients * 1'000'000;
    EXPECT_TRUE(Eventually([&] { return good >= 10 + 7 * kill; }));
    if (kill == kKills) stop = true;
    else ::kill(pid, SIGKILL);
    for (std::thread& client : clients) client.join();
    if (kill == kKills) ::kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  }
  {  // what is left is folded
    auto proxy = LlmProxy::Start(options);
    ASSERT_TRUE(proxy.ok()) << proxy.error().detail;
    (*proxy)->Stop(std::chrono::seconds(10));
  }
  std::set<RequestId> ids;
  std::set<std::string> charged;
  size_t unsettled = 0;
  for (const ChargeRecord& row : Rows()) {
    EXPECT_TRUE(ids.insert(row.id).second);
    if (row.outcome == ChargeOutcome::kUnsettled) {
      ++unsettled;
      EXPECT_EQ(row.charged_pico, 0);
      EXPECT_GT(row.reserved_pico, 0);
      continue;
    }
    if (row.outcome != ChargeOutcome::kComplete) continue;
    EXPECT_EQ(row.charged_pico, kPico);
    EXPECT_TRUE(charged.insert(row.upstream_request_id).second) << row.upstream_request_id;
  }
  for (const std::string& one : answered)
    EXPECT_TRUE(charged.contains(one)) << one << " was answered for nothing";
  EXPECT_GE(ids.size(), static_cast<size_t>(served.load()));
  RecordProperty("answered", static_cast<int>(answered.size()));
  RecordProperty("unsettled", static_cast<int>(unsettled));
  std::printf("answered %zu, rows %zu, unsettled %zu, served by the upstream %d\n", answered.size(),
              ids.size(), unsettled, served.load());
}

}  // namespace
}  // namespace gpulens::proxy
