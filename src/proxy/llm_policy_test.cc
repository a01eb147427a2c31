#include "proxy/llm_policy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "base/testing/temp_folder.h"
#include "base/text.h"
#include "net/relay/relay_server.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"
#include "proxy/journal/charge_fold.h"
#include "store/charges/charge_file.h"

namespace gpulens::proxy {
namespace {

using gpulens::testing::Answer;
using gpulens::testing::Eventually;
using gpulens::testing::ScriptedServer;
using gpulens::testing::TempFolder;
using gpulens::testing::TestClient;

constexpr std::string_view kPrices =
    "provider\tmodel\tinput\tcached_input\toutput\tmax_input\tmax_output\n"
    "openai\tgpt-test\t2000000\t500000\t8000000\t100000\t4096\n"
    "anthropic\tclaude-test\t3000000\t300000\t15000000\t100000\t4096\n";

std::string Http(const std::string& body, const std::string& type = "application/json", int status = 200) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string kPlain =
    R"({"id":"c1","model":"gpt-test","choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":900}}})";
// 100 at 2, 900 at 0.5 and 50 at 8 USD a million.
constexpr int64_t kPlainPico = 1'050'000'000;

// Without and with what include_usage adds.
const std::string kStream =
    "data: "
    "{\"id\":\"c1\",\"model\":\"gpt-test\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n"
    "data: "
    "{\"id\":\"c1\",\"model\":\"gpt-test\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_"
    "reason\":\"stop\"}]}\n\n"
    "data: [DONE]\n\n";
const std::string kStreamWithUsage =
    "data: "
    "{\"id\":\"c1\",\"model\":\"gpt-test\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}],"
    "\"usage\":null}\n\n"
    "data: "
    "{\"id\":\"c1\",\"model\":\"gpt-test\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_"
    "reason\":\"stop\"}],\"usage\":null}\n\n"
    "data: "
    "{\"id\":\"c1\",\"model\":\"gpt-test\",\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_"
    "tokens\":50,"
    "\"total_tokens\":1050,\"prompt_tokens_details\":{\"cached_tokens\":900}}}\n\n"
    "data: [DONE]\n\n";

// A proxy on a loop of its own, before scripted providers.
class LlmPolicyTest : public ::testing::Test {
 protected:
  void Start(ProxyConfig config, const std::string& key_cells = "\t\t",
             const std::vector<BudgetSpec>& budgets = {}) {
    VirtualKey settings;
    settings.id = "ada";
    settings.tenant = "acme";
    Result<NewKey> made = MakeKey(settings);
    CHECK(made.ok());
    key_ = made->key;
    // The secret may have an underscore: everything behind the id is it.
    const std::string secret = key_.substr(std::string("gpl_ada_").size());
    const std::string text = "id\tsha256\ttenant\tbudgets\tstate\tdefault_max_tokens\nada\t" +
                             Hex(DigestOf(secret)) + "\tacme\t" + key_cells + "\n";
    Result<KeyTable> keys = KeyTable::Parse(text, "keys.tsv");
    CHECK(keys.ok());
    CHECK(admission_.Reload(*std::move(keys), budgets).ok());
    JournalOptions options;
    options.folder = folder_.path() + "/journal";
    options.stores = {"file"};
    Result<std::unique_ptr<Journal>> journal = Journal::Open(options);
    CHECK(journal.ok());
    journal_ = *std::move(journal);
    shared_ = std::make_unique<ProxyShared>(admission_, *journal_, idempotency_, metrics_,
                                            [this](ProxyState& state) {
                                              state.budgets = admission_.budgets().View(RealClock().Now());
                                              state.refusals = admission_.refusals();
                                              state.journal = journal_->stats();
                                            });
    auto rules = std::make_shared<ProxyRules>();
    rules_ = rules;
    rules->config = std::move(config);
    const std::vector<pricing::PriceFile> files = {{"prices.tsv", std::string(kPrices)}};
    Result<pricing::PriceTable> prices = pricing::PriceTable::Load(files);
    CHECK(prices.ok());
    rules->prices = *std::move(prices);
    loop_.Start();
    loop_.Call([&] { policy_ = std::make_unique<LlmPolicy>(loop_, *shared_, rules); });
    server_ = std::make_unique<RelayServer>(loop_, *policy_, RelayOptions{});
    auto at = server_->Listen(*ParseListenAddress("127.0.0.1:0"));
    CHECK(at.ok());
    at_ = *at;
  }

  void TearDown() override {
    EXPECT_EQ(admission_.budgets().held_pico(), 0);
    // In the order of LlmProxy: the policy wakes the journal, whose callbacks post to the loop.
    server_ = nullptr;
    loop_.Call([this] { policy_ = nullptr; });
    journal_ = nullptr;
    loop_.Stop();
  }

  static std::string Hex(const SecretDigest& digest) {
    std::string out;
    AppendHex(out, {reinterpret_cast<const char*>(digest.data()), digest.size()});
    return out;
  }

  static ProviderConfig Provider(const std::string& name, const ScriptedServer& server,
                                 LlmApi api = LlmApi::kOpenAi) {
    ProviderConfig provider;
    provider.name = name;
    provider.api = api;
    provider.prices = api == LlmApi::kAnthropic ? "anthropic" : "openai";
    provider.credential = "provider-secret";
    provider.region = "eu-1";
    provider.upstream.url = *ParseHttpUrl(server.Url(""));
    return provider;
  }
  static ProxyConfig Config(std::vector<ProviderConfig> providers) {
    ProxyConfig config;
    RouteConfig route;
    route.models = {"*"};
    for (size_t i = 0; i < providers.size(); ++i) route.providers.push_back(i);
    config.providers = std::move(providers);
    config.routes.push_back(route);
    return config;
  }

  std::string Request(const std::string& body, const std::string& path = "/v1/chat/completions",
                      const std::string& fields = {}) const {
    return "POST " + path + " HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer " + key_ + "\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  Answer Query(const std::string& body, const std::string& path = "/v1/chat/completions",
               const std::string& fields = {}) {
    TestClient client(at_);
    client.Send(Request(body, path, fields));
    return client.Read();
  }
  // All rows, once there are so many.
  std::vector<ChargeRecord> Rows(size_t count) {
    JournalReader reader(*journal_, 0);
    std::vector<ChargeRecord> rows;
    Eventually([&] {
      CHECK(reader.Read(100, rows).ok());
      return rows.size() >= count;
    });
    return rows;
  }
  std::string Page() { return gpulens::testing::Fetch(at_, "GET", "/metrics").body; }

  TempFolder folder_;
  IoLoop loop_;
  Admission admission_;
  IdempotencyIndex idempotency_{{}};
  ProxyMetrics metrics_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<ProxyShared> shared_;
  std::shared_ptr<const ProxyRules> rules_;
  std::unique_ptr<LlmPolicy> policy_;
  std::unique_ptr<RelayServer> server_;
  Endpoint at_;
  std::string key_;
};

const std::string kBody =
    R"({"model":"gpt-test","messages":[{"role":"user","content":"write hello"}],"max_tokens":100})";
const std::string kStreamBody =
    R"({"model":"gpt-test","messages":[{"role":"user","content":"write hello"}],"max_tokens":100,"stream":true})";

TEST_F(LlmPolicyTest, AWholeAnswerIsPassedOnAndChargedOnce) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  Start(Config({Provider("one", upstream)}));
  const Answer answer = Query(kBody);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, kPlain);
  EXPECT_EQ(answer.Header("Agent-Execution-Profile"), "managed");
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(RequestIdText(rows[0].id), answer.Header("x-gpulens-request-id"));
  EXPECT_EQ(rows[0].charged_pico, kPlainPico);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kUsage);
  EXPECT_EQ(rows[0].outcome, ChargeOutcome::kComplete);
  EXPECT_EQ(rows[0].key, "ada");
  EXPECT_EQ(rows[0].tenant, "acme");
  EXPECT_EQ(rows[0].provider, "one");
  EXPECT_EQ(rows[0].status, 200);
  EXPECT_FALSE(rows[0].ttft_ns) << "a whole answer has no time of its first token";
  // The provider sees its own key and not ours.
  const std::string seen = upstream.requests().at(0);
  EXPECT_NE(seen.find("Authorization: Bearer provider-secret\r\n"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("gpl_"), std::string::npos);
  EXPECT_NE(seen.find(kBody), std::string::npos);
  const std::string page = Page();
  EXPECT_NE(page.find("zumik_inference_charged_micros_total 1050\n"), std::string::npos) << page;
  EXPECT_NE(
      page.find("zumik_inference_requests_total{provider=\"one\",profile=\"managed\",region=\"eu-1\"} 1\n"),
      std::string::npos);
  EXPECT_NE(page.find("http_requests_total{method=\"POST\",status=\"200\"} 1\n"), std::string::npos);
}

TEST_F(LlmPolicyTest, AStreamHasTheBytesThatTheClientRequestedAndTheSameCharge) {
  std::atomic<int> injected{0};
  ScriptedServer upstream(ScriptedServer::Play([&](int, int, const std::string& request) {
    const bool requested = request.find("\"include_usage\":true") != std::string::npos;
    injected += requested;
    return ScriptedServer::Turn{.answer = Http(requested ? kStreamWithUsage : kStream, "text/event-stream"),
                                .step = 7,
                                .close = true};
  }));
  Start(Config({Provider("one", upstream)}));
  TestClient client(at_);
  client.Send(Request(kStreamBody, "/v1/chat/completions", "Connection: close\r\n"));
  const std::string all = client.ReadAll();
  // The bytes are those of a server that no program requests usage from.
  std::string payload;
  std::string_view rest = std::string_view(all).substr(all.find("\r\n\r\n") + 4);
  while (!rest.empty()) {
    const size_t end = rest.find("\r\n");
    const size_t size = ParseInt<size_t>(rest.substr(0, end), 16).value_or(0);
    if (size == 0) break;
    payload += rest.substr(end + 2, size);
    rest.remove_prefix(end + 2 + size + 2);
  }
  EXPECT_EQ(payload, kStream);
  EXPECT_EQ(injected, 1);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].charged_pico, kPlainPico);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kUsage);
  EXPECT_TRUE(rows[0].ttft_ns);
  EXPECT_NE(all.find("X-Accel-Buffering: no\r\n"), std::string::npos);
}

// Its pool, which nothing else has, must not end inside the call of that deadline.
TEST_F(LlmPolicyTest, TheLastRequestUnderOldRulesEndsByTheDeadlineOfItsConnection) {
  std::atomic<bool> came = false;
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    peer.Body(peer.Head());
    came = true;
    peer.Sit();
  }));
  ProviderConfig slow = Provider("one", upstream);
  slow.upstream.head = std::chrono::milliseconds(200);
  Start(Config({slow}));
  TestClient client(at_);
  client.Send(Request(kBody));
  ASSERT_TRUE(Eventually([&] { return came.load(); }));
  loop_.Call([this] { policy_->SetRules(rules_); });
  EXPECT_EQ(client.Read().status, 504);
}

TEST_F(LlmPolicyTest, TheLastEventWaitsForTheCharge) {
  ScriptedServer upstream(ScriptedServer::Script([](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" +
               kStreamWithUsage);
  }));
  Start(Config({Provider("one", upstream)}));
  TestClient client(at_);
  client.Send(Request(kStreamBody, "/v1/chat/completions", "Connection: close\r\n"));
  const std::string all = client.ReadAll();
  ASSERT_NE(all.find("data: [DONE]"), std::string::npos);
  // Without waiting: the row is there.
  JournalReader reader(*journal_, 0);
  std::vector<ChargeRecord> rows;
  ASSERT_TRUE(reader.Read(100, rows).ok());
  EXPECT_EQ(rows.size(), 1u);
}

TEST_F(LlmPolicyTest, RefusalsHaveTheFormOfTheApi) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  Start(Config({Provider("one", upstream), Provider("two", upstream, LlmApi::kAnthropic)}));
  const std::string right = std::exchange(key_, "gpl_ada_wrong");
  EXPECT_EQ(Query(kBody).status, 401);
  EXPECT_NE(Query(kBody).body.find("\"code\":\"invalid_api_key\""), std::string::npos);
  EXPECT_NE(Query(kBody, "/v1/messages").body.find("\"authentication_error\""), std::string::npos);
  key_ = right;
  EXPECT_EQ(Query("{\"model\":1}").status, 400);
  EXPECT_EQ(Query("{\"messages\":[]}").status, 400);
  EXPECT_EQ(Query("not json").status, 400);
  EXPECT_EQ(Query(kBody, "/v1/unknown").status, 404);
  EXPECT_EQ(Query(kBody, "/v1/audio/speech").status, 404);
  EXPECT_EQ(upstream.connections(), 0);
  EXPECT_EQ(admission_.refusals()[static_cast<size_t>(RefusalReason::kBadKey)], 3u);
}

TEST_F(LlmPolicyTest, AHardBudgetIsNotPassedAndIsReported) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  BudgetSpec budget;
  budget.name = "acme";
  budget.tenants = {"acme"};
  budget.mode = BudgetMode::kHard;
  budget.limit_pico = 2 * kPlainPico;
  Start(Config({Provider("one", upstream)}), "\t\t", {budget});
  // Each reserves 100 tokens of output and the bytes of its text; each costs kPlainPico.
  int good = 0, refused = 0;
  for (int i = 0; i < 5; ++i) {
    const Answer answer = Query(kBody);
    good += answer.status == 200;
    refused += answer.status == 429 && answer.body.find("insufficient_quota") != std::string::npos &&
               answer.Header("x-should-retry") == "false";
  }
  EXPECT_EQ(good + refused, 5);
  EXPECT_GE(refused, 3);
  const auto view = admission_.budgets().View("acme", RealClock().Now());
  ASSERT_TRUE(view);
  EXPECT_EQ(view->spent_pico, good * kPlainPico);
  // No request without a bound of its cost: the model's bound counts, which is above the limit.
  EXPECT_EQ(Query(R"({"model":"gpt-test","messages":[]})").status, 429);
}

TEST_F(LlmPolicyTest, AProviderThatFailsIsReplacedAndTheOtherOneIsCharged) {
  ScriptedServer busy(ScriptedServer::Play([](int, int, const std::string&) {
    return ScriptedServer::Turn{Http("{\"error\":{}}", "application/json", 503)};
  }));
  ScriptedServer good(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  ProxyConfig config = Config({Provider("busy", busy), Provider("good", good)});
  config.attempts = 2;
  Start(std::move(config));
  const Answer answer = Query(kBody);
  EXPECT_EQ(answer.status, 200);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].provider, "good");
  ASSERT_EQ(rows[0].attempts.size(), 2u);
  EXPECT_EQ(rows[0].attempts[0].result, "http_503");
  EXPECT_EQ(rows[0].charged_pico, kPlainPico);
  const std::string page = Page();
  EXPECT_NE(
      page.find("zumik_inference_requests_total{provider=\"good\",profile=\"managed\",region=\"eu-1\"} 1\n"),
      std::string::npos);
  EXPECT_EQ(page.find("zumik_inference_requests_total{provider=\"busy\""), std::string::npos);
}

TEST_F(LlmPolicyTest, AnUpstreamThatIsAwayCostsNothing) {
  auto gone = std::make_unique<ScriptedServer>(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  const ProviderConfig provider = Provider("one", *gone);
  gone = nullptr;
  Start(Config({provider}));
  const Answer answer = Query(kBody);
  EXPECT_EQ(answer.status, 502);
  EXPECT_NE(answer.body.find("\"error\""), std::string::npos);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome, ChargeOutcome::kUpstreamFailed);
  EXPECT_EQ(rows[0].charged_pico, 0);
  EXPECT_EQ(answer.Header("x-gpulens-request-id"), RequestIdText(rows[0].id));
  EXPECT_EQ(answer.Header("Agent-Execution-Profile"), "managed");
  EXPECT_NE(
      Page().find("zumik_inference_requests_total{provider=\"one\",profile=\"managed\",region=\"eu-1\"} 1\n"),
      std::string::npos);
  EXPECT_NE(Page().find("zumik_inference_charged_micros_total 0\n"), std::string::npos);
}

TEST_F(LlmPolicyTest, AClientThatLeavesIsChargedForWhatItGot) {
  std::atomic<bool> closed{false};
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" +
               kStreamWithUsage.substr(0, kStreamWithUsage.find("\n\n") + 2));
    peer.Linger();
    closed = true;
  }));
  Start(Config({Provider("one", upstream)}));
  {
    TestClient client(at_);
    client.Send(Request(kStreamBody));
    EXPECT_EQ(client.Read(true).status, 200);
    EXPECT_FALSE(client.ReadBytes(20).empty());
  }
  EXPECT_TRUE(Eventually([&] { return closed.load(); })) << "the upstream is told at once";
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome, ChargeOutcome::kCancelled);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kPartial);
  EXPECT_GT(rows[0].usage[LlmClass::kOutput], 0);
  EXPECT_GT(rows[0].charged_pico, 0);
}

TEST_F(LlmPolicyTest, AnEstimateIsNotAboveWhatTheRequestAllows) {
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    // It gives more than it may, and no counts.
    std::string events;
    for (int i = 0; i < 400; ++i) events += kStreamWithUsage.substr(0, kStreamWithUsage.find("\n\n") + 2);
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000000\r\n\r\n" +
               events);
  }));
  BudgetSpec budget;
  budget.name = "acme";
  budget.tenants = {"acme"};
  budget.mode = BudgetMode::kHard;
  budget.limit_pico = 1'000'000'000'000;
  Start(Config({Provider("one", upstream)}), "\t\t", {budget});
  TestClient client(at_);
  client.Send(Request(kStreamBody, "/v1/chat/completions", "Connection: close\r\n"));
  client.ReadAll();
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kPartial);
  EXPECT_EQ(rows[0].usage[LlmClass::kOutput], 100);
  EXPECT_GT(rows[0].charged_pico, 0);
  EXPECT_LE(rows[0].charged_pico, rows[0].reserved_pico);
}

TEST_F(LlmPolicyTest, AStreamThatIsCutEndsWithAnErrorOfTheApi) {
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string event = kStreamWithUsage.substr(0, kStreamWithUsage.find("\n\n") + 2);
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", event.size());
    peer.Write(size + event + "\r\n");
  }));
  Start(Config({Provider("one", upstream)}));
  TestClient client(at_);
  client.Send(Request(kStreamBody));
  const std::string all = client.ReadAll();
  EXPECT_NE(all.find("data: {\"error\""), std::string::npos) << all;
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome, ChargeOutcome::kUpstreamFailed);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kPartial);
}

TEST_F(LlmPolicyTest, AnIdempotencyKeyIsChargedOnce) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  Start(Config({Provider("one", upstream)}));
  EXPECT_EQ(Query(kBody, "/v1/chat/completions", "Idempotency-Key: k1\r\n").status, 200);
  EXPECT_EQ(Query(kBody, "/v1/chat/completions", "Idempotency-Key: k1\r\n").status, 409);
  EXPECT_EQ(Query(kBody, "/v1/chat/completions", "Idempotency-Key: k2\r\n").status, 200);
  EXPECT_EQ(upstream.requests().size(), 2u);
  EXPECT_EQ(Rows(2).size(), 2u);
}

TEST_F(LlmPolicyTest, AModelHasAnotherNameAtTheProviderAndAKeyALimit) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  ProviderConfig provider = Provider("one", upstream);
  provider.models["fast"] = "gpt-test";
  Start(Config({provider}), "\t\t64");
  EXPECT_EQ(Query(R"({"model":"fast","messages":[]})").status, 200);
  const std::string seen = upstream.requests().at(0);
  EXPECT_NE(seen.find("\"model\":\"gpt-test\""), std::string::npos) << seen;
  EXPECT_NE(seen.find("\"max_completion_tokens\":64"), std::string::npos) << seen;
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].model_requested, "fast");
  EXPECT_EQ(rows[0].charged_pico, kPlainPico);
}

class LlmProfiles : public LlmPolicyTest, public ::testing::WithParamInterface<pricing::Profile> {};

TEST_P(LlmProfiles, DecideWhatIsChargedAndAreNamedInTheAnswer) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  ProviderConfig provider = Provider("one", upstream);
  provider.terms.profile = GetParam();
  Start(Config({provider}));
  const std::string name(pricing::ProfileName(GetParam()));
  EXPECT_EQ(Query(kBody).Header("Agent-Execution-Profile"), name);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].profile, name);
  EXPECT_EQ(rows[0].list_pico, kPlainPico);
  EXPECT_EQ(rows[0].charged_pico, GetParam() == pricing::Profile::kManaged ? kPlainPico : 0);
  EXPECT_NE(Page().find("profile=\"" + name + "\""), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(All, LlmProfiles,
                         ::testing::Values(pricing::Profile::kManaged, pricing::Profile::kByok,
                                           pricing::Profile::kSubscription, pricing::Profile::kByoc));

TEST_F(LlmPolicyTest, ADrainedAnswerIsCountedByTheProviderAndStaysCancelled) {
  std::atomic<bool> go{false};
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    const size_t first = kStreamWithUsage.find("\n\n") + 2;
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" +
               kStreamWithUsage.substr(0, first));
    Eventually([&] { return go.load(); });
    peer.Write(kStreamWithUsage.substr(first));
  }));
  ProxyConfig config = Config({Provider("one", upstream)});
  config.drain_bytes = 1 << 20;
  Start(std::move(config));
  {
    TestClient client(at_);
    client.Send(Request(kStreamBody));
    EXPECT_EQ(client.Read(true).status, 200);
    EXPECT_FALSE(client.ReadBytes(20).empty());
  }
  // Nothing is charged while the rest is outstanding.
  gpulens::testing::ShortPause();
  go = true;
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].counted_by, CountedBy::kUsage);
  EXPECT_EQ(rows[0].charged_pico, kPlainPico);
}

TEST_F(LlmPolicyTest, TheVirtualKeyNeverReachesAProvider) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http("{}")}; }));
  ProviderConfig provider = Provider("one", upstream, LlmApi::kGemini);
  provider.credential.clear();
  Start(Config({provider}));
  const std::string body = R"({"contents":[]})",
                    path = "/v1beta/models/gemini-x:generateContent?key=" + key_ + "&a=b";
  TestClient client(at_);
  client.Send("POST " + path + " HTTP/1.1\r\nHost: proxy\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  EXPECT_EQ(client.Read().status, 200);
  const std::string seen = upstream.requests().at(0);
  EXPECT_EQ(seen.find("gpl_"), std::string::npos) << seen;
  EXPECT_NE(seen.find("generateContent?a=b "), std::string::npos) << seen;
}

TEST_F(LlmPolicyTest, ABudgetOfAProviderIsInTheRow) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  BudgetSpec mine, other;
  mine.name = "of-one", mine.providers = {"one"}, mine.limit_pico = 1'000'000'000'000;
  other = mine;
  other.name = "of-two", other.providers = {"two"};
  Start(Config({Provider("one", upstream)}), "\t\t", {mine, other});
  EXPECT_EQ(Query(kBody).status, 200);
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].budgets, std::vector<std::string>{"of-one"});
}

TEST_F(LlmPolicyTest, AStreamThatIsCutEndsWithAnErrorInItsOwnFraming) {
  const std::string begun =
      R"({"model":"llama","message":{"role":"assistant","content":"hel"},"done":false})";
  ScriptedServer upstream(ScriptedServer::Script([&](ScriptedServer::Peer& peer, int) {
    const std::string head = peer.Head();
    peer.Body(head);
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n" +
               std::string("400\r\n") + begun + "\n{\"mod");
  }));
  Start(Config({Provider("one", upstream, LlmApi::kOllama)}));
  TestClient client(at_);
  client.Send(Request(R"({"model":"llama","messages":[]})", "/api/chat", "Connection: close\r\n"));
  const std::string all = client.ReadAll();
  EXPECT_NE(all.find(begun), std::string::npos) << all;
  EXPECT_NE(all.find("\n{\"error\":\"the provider's answer was cut\"}\n"), std::string::npos) << all;
  EXPECT_EQ(all.find("data:"), std::string::npos) << all;
  const std::vector<ChargeRecord> rows = Rows(1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].outcome, ChargeOutcome::kUpstreamFailed);
}

TEST_F(LlmPolicyTest, ModelsAreListedAsTheApiOfTheClientHasThem) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  Start(Config({Provider("one", upstream), Provider("two", upstream, LlmApi::kAnthropic)}));
  const auto get = [&](const std::string& path, const std::string& fields) {
    TestClient client(at_);
    client.Send("GET " + path + " HTTP/1.1\r\nHost: proxy\r\n" + fields + "\r\n");
    return client.Read();
  };
  const std::string openai = "Authorization: Bearer " + key_ + "\r\n",
                    gemini = "x-goog-api-key: " + key_ + "\r\n",
                    anthropic = "x-api-key: " + key_ + "\r\nanthropic-version: 2023-06-01\r\n";
  EXPECT_TRUE(get("/v1/models", openai).body.starts_with(R"({"object":"list","data":[{"id":"gpt-test",)"));
  EXPECT_TRUE(
      get("/v1/models", anthropic).body.starts_with(R"({"data":[{"type":"model","id":"claude-test",)"));
  EXPECT_EQ(get("/v1/models", gemini).body, R"({"models":[]})");
  EXPECT_TRUE(get("/v1/models/gpt-test", openai).body.starts_with(R"({"id":"gpt-test",)"));
  const Answer none = get("/v1/models/gpt-test", anthropic);
  EXPECT_EQ(none.status, 404);
  EXPECT_TRUE(none.body.starts_with(R"({"type":"error","error":{"type":"not_found_error",)")) << none.body;
  EXPECT_TRUE(upstream.requests().empty());
}

TEST_F(LlmPolicyTest, LabelsAreBounded) {
  ScriptedServer upstream(
      ScriptedServer::Play([](int, int, const std::string&) { return ScriptedServer::Turn{Http(kPlain)}; }));
  Start(Config({Provider("one", upstream)}));
  TestClient client(at_);
  for (int i = 0; i < 300; ++i) {
    client.Send("M" + std::to_string(i) + " /p" + std::to_string(i) + " HTTP/1.1\r\nHost: proxy\r\n\r\n");
    client.Read();
  }
  const std::string page = Page();
  EXPECT_NE(page.find("http_requests_total{method=\"other\",status=\"401\"} 300\n"), std::string::npos)
      << page;
  EXPECT_LT(std::ranges::count(page, '\n'), 200);
}

}  // namespace
}  // namespace gpulens::proxy
