// Connections that an HttpServer hands over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/testing/temp_folder.h"
#include "net/http/http_server.h"
#include "net/testing/certificates.h"
#include "net/testing/test_client.h"
#include "net/websocket/websocket_server.h"
#include "net/websocket/websocket_testing.h"

namespace gpulens {
namespace {

using testing::Answer;
using testing::ClientFrame;
using testing::CloseCodeOf;
using testing::Eventually;
using testing::Fetch;
using testing::kHandshake;
using testing::ReadFrame;
using testing::TestClient;

// "/any/path" is a WebSocket, everything else a page.
class Pages final : public HttpHandler {
 public:
  void Handle(const HttpRequest& request, HttpResponder responder) override {
    if (request.path() == "/slow") return waiting.push_back(std::move(responder));
    responder.Send(HttpResponse::Text(200, "page"));
  }
  HttpUpgrader* UpgraderOf(const HttpRequest& request) override {
    return request.path() == "/any/path" ? live : nullptr;
  }

  HttpUpgrader* live = nullptr;
  std::vector<HttpResponder> waiting;
};

class WebSocketUpgradeTest : public ::testing::Test {
 protected:
  WebSocketUpgradeTest() { loop_.Start(); }
  ~WebSocketUpgradeTest() override {
    loop_.Call([&] { pages_.waiting.clear(); });
    http_ = nullptr;
    live_ = nullptr;
    authenticator_ = nullptr;
    for (auto& worker : workers_) worker.join();
    loop_.Stop();
  }
  void Serve(WebSocketServer::Options options = {}, HttpServer::Options http = {}) {
    live_ = std::make_unique<WebSocketServer>(loop_, [] { return SharedBytes("{\"first\":1}"); }, options);
    pages_.live = live_.get();
    http.authenticator = authenticator_.get();
    http_ = std::make_unique<HttpServer>(loop_, pages_, http);
    auto at = http_->Listen(*ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(at.ok()) << at.error().detail;
    at_ = *at;
  }
  void RequirePassword(const std::string& more = "") {
    std::string path = folder_.Write(
        "web.yml",
        more +
            "basic_auth_users:\n  scraper: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK\n");
    auto opened = Authenticator::Open(loop_, path, [this](const Endpoint&, const PasswordQueue::Job& job) {
      workers_.emplace_back([job] { job(true); });
      return true;
    });
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    authenticator_ = *std::move(opened);
  }
  TestClient Connect(const std::string& fields = {}) {
    TestClient client(at_);
    client.Send(kHandshake + fields + "\r\n");
    return client;
  }
  TestClient Open() {
    TestClient client = Connect();
    EXPECT_EQ(client.Read().status, 101);
    EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
    return client;
  }

  IoLoop loop_;
  testing::TempFolder folder_;
  std::vector<std::thread> workers_;
  std::unique_ptr<Authenticator> authenticator_;
  Pages pages_;
  std::unique_ptr<WebSocketServer> live_;
  std::unique_ptr<HttpServer> http_;
  Endpoint at_;
};

TEST_F(WebSocketUpgradeTest, PagesAndWebSocketsAtOneAddress) {
  Serve();
  TestClient client(at_);
  client.Send("GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().body, "page\n");
  client.Send(std::string(kHandshake) + "\r\n");
  Answer answer = client.Read();
  EXPECT_EQ(answer.status, 101);
  EXPECT_EQ(answer.Header("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  EXPECT_EQ(live_->clients(), 1u);
  EXPECT_EQ(http_->stats().connections, 0u) << "it is counted once";
  EXPECT_EQ(live_->stats().connections, 1u);
  live_->Broadcast("news");
  EXPECT_EQ(ReadFrame(client).payload, "news");
  client.Send(ClientFrame(9, "abc"));
  EXPECT_EQ(ReadFrame(client).payload, "abc");
  client.Send(ClientFrame(8, "\x03\xe8"));
  EXPECT_EQ(CloseCodeOf(ReadFrame(client)), 1000);
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return live_->stats().connections == 0; }));
  EXPECT_EQ(Fetch(at_, "GET", "/").status, 200);
}

TEST_F(WebSocketUpgradeTest, FramesThatCameWithTheRequest) {
  Serve();
  TestClient client(at_);
  client.Send(std::string(kHandshake) + "\r\n" + ClientFrame(9, "early"));
  EXPECT_EQ(client.Read().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  EXPECT_EQ(ReadFrame(client).payload, "early");
}

TEST_F(WebSocketUpgradeTest, OtherRequestsForUpgradeArePages) {
  Serve();
  EXPECT_EQ(Fetch(at_, "GET", "/page", "Upgrade: h2c\r\nConnection: Upgrade\r\n").body, "page\n");
  EXPECT_EQ(Fetch(at_, "GET", "/any/path", "Upgrade: h2c\r\nConnection: Upgrade\r\n").status, 426);
  EXPECT_EQ(Fetch(at_, "GET", "/any/path", "Upgrade: websocket\r\nConnection: Upgrade\r\n").status, 400);
  EXPECT_EQ(
      Fetch(at_, "POST", "/any/path", "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n")
          .status,
      400);
  EXPECT_EQ(Fetch(at_, "GET", "/any/path").status, 200) << "without the field the handler answers";
}

// What the handshake comes after is not answered yet, so its connection cannot be handed over.
TEST_F(WebSocketUpgradeTest, BehindAnUnansweredRequestItIsAPage) {
  Serve();
  TestClient client(at_);
  client.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kHandshake) + "\r\n");
  ASSERT_TRUE(Eventually([&] {
    size_t waits = 0;
    loop_.Call([&] { waits = pages_.waiting.size(); });
    return waits == 1;
  }));
  loop_.Call([&] {
    pages_.waiting[0].Send(HttpResponse::Text(200, "slow"));
    pages_.waiting.clear();
  });
  EXPECT_EQ(client.Read().body, "slow\n");
  EXPECT_EQ(client.Read().body, "page\n");
  EXPECT_EQ(live_->clients(), 0u);
}

TEST_F(WebSocketUpgradeTest, OriginsOfOtherPagesAreRefused) {
  Serve();
  for (const char* good : {"http://127.0.0.1:9091", "http://localhost:3000", "http://[::1]"}) {
    EXPECT_EQ(Connect("Origin: " + std::string(good) + "\r\n").Read().status, 101) << good;
  }
  for (const char* bad : {"http://evil.example", "null", "", "http://127.0.0.1.evil.example", "file://"}) {
    EXPECT_EQ(Connect("Origin: " + std::string(bad) + "\r\n").Read().status, 403) << bad;
  }
  EXPECT_EQ(http_->stats().refusals(Refusal::kOrigin), 5u);
}

TEST_F(WebSocketUpgradeTest, RequiresPasswords) {
  RequirePassword();
  Serve();
  EXPECT_EQ(Connect().Read().status, 401);
  EXPECT_EQ(Connect("Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n").Read().status, 401);
  EXPECT_EQ(live_->stats().connections, 0u);
  for (int i = 0; i < 2; ++i) {
    // The first is checked by another thread; what the client sends meanwhile is not lost.
    TestClient client(at_);
    client.Send(std::string(kHandshake) + "Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n\r\n");
    client.Send(ClientFrame(9, "meanwhile"));
    EXPECT_EQ(client.Read().status, 101);
    EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
    EXPECT_EQ(ReadFrame(client).payload, "meanwhile");
  }
}

TEST_F(WebSocketUpgradeTest, ServesOverTls) {
  testing::Pem ca = testing::MakeCa("ca"), pem = testing::MakeCertificate(ca, "server", {"127.0.0.1"});
  folder_.Write("cert.pem", pem.certificate);
  folder_.Write("key.pem", pem.key);
  RequirePassword("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n");
  Serve();
  TestClient client(at_, {.ca = ca.certificate, .certificate = {}, .max_version = 0});
  ASSERT_TRUE(client.connected()) << client.error();
  client.Send(std::string(kHandshake) + "Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n\r\n" +
              ClientFrame(9, "x"));
  EXPECT_EQ(client.Read().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  EXPECT_EQ(ReadFrame(client).payload, "x");
  std::string big(300'000, 'x');
  live_->Broadcast(big);
  EXPECT_EQ(ReadFrame(client).payload, big);
}

TEST_F(WebSocketUpgradeTest, OneMoreThanTheLimitIsRefused) {
  WebSocketServer::Options options;
  options.limits.http.connections = 2;
  Serve(options);
  TestClient one = Open(), two = Open();
  Answer refused = Connect().Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Header("Retry-After"), "5");
  EXPECT_EQ(live_->stats().refusals(Refusal::kLimit), 1u);
  live_->Broadcast("still here");
  EXPECT_EQ(ReadFrame(one).payload, "still here");
  EXPECT_EQ(ReadFrame(two).payload, "still here");
}

// Clients of the stream leave the connections of pages alone.
TEST_F(WebSocketUpgradeTest, OpenClientsTakeNoConnectionsOfPages) {
  HttpServer::Options http;
  http.limits.connections = 1;
  Serve({}, http);
  std::vector<TestClient> open;
  for (int i = 0; i < 5; ++i) open.push_back(Open());
  EXPECT_EQ(Fetch(at_, "GET", "/").status, 200);
  EXPECT_EQ(live_->clients(), 5u);
}

TEST_F(WebSocketUpgradeTest, SlowClientsAreDroppedAndOthersNotHeldUp) {
  WebSocketServer::Options options;
  options.limits.queued_frames = 4;
  Serve(options);
  TestClient slow = Open(), good = Open();
  std::string text(1 << 20, 'y');
  for (int i = 0; i < 40; ++i) {
    live_->Broadcast(text);
    ASSERT_EQ(ReadFrame(good).payload.size(), text.size());
  }
  EXPECT_EQ(live_->stats().refusals(Refusal::kSlow), 1u);
  EXPECT_EQ(live_->clients(), 1u);
}

TEST_F(WebSocketUpgradeTest, HalfClosedClientIsAnsweredAndLeft) {
  Serve();
  TestClient client = Connect();
  client.FinishSending();
  EXPECT_EQ(client.Read().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return live_->clients() == 0; }));
}

TEST_F(WebSocketUpgradeTest, ShutdownClosesWithGoingAway) {
  Serve();
  TestClient client = Open();
  std::atomic<int> done{0};
  http_->Shutdown(std::chrono::milliseconds(300), [&] { ++done; });
  live_->Shutdown(std::chrono::milliseconds(300), [&] { ++done; });
  EXPECT_EQ(CloseCodeOf(ReadFrame(client)), 1001);
  client.Send(ClientFrame(8, "\x03\xe9"));
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return done == 2; }));
}

// A password is still being checked when the server stops: the connection is not handed to a server that is
// gone.
TEST_F(WebSocketUpgradeTest, NoHandoverAfterTheShutdownBegan) {
  RequirePassword();
  std::atomic<bool> go{false}, checking{false};
  auto opened = Authenticator::Open(loop_, folder_.path() + "/web.yml",
                                    [&](const Endpoint&, const PasswordQueue::Job& job) {
                                      workers_.emplace_back([job, &go, &checking] {
                                        checking = true;
                                        while (!go) testing::ShortPause();
                                        job(true);
                                      });
                                      return true;
                                    });
  authenticator_ = *std::move(opened);
  Serve();
  TestClient client = Connect("Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n");
  ASSERT_TRUE(Eventually([&] { return checking.load(); }));
  std::atomic<bool> done{false};
  http_->Shutdown(std::chrono::seconds(5), [&] { done = true; });
  loop_.Call([&] { pages_.live = nullptr; });
  live_ = nullptr;
  go = true;
  EXPECT_EQ(client.Read().status, 200) << "the handler answered";
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
}

}  // namespace
}  // namespace gpulens
