#include "net/websocket/websocket_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/testing/temp_folder.h"
#include "net/testing/certificates.h"
#include "net/testing/test_client.h"
#include "net/websocket/websocket_testing.h"

namespace gpulens {
namespace {

using testing::Answer;
using testing::ClientFrame;
using testing::CloseCodeOf;
using testing::Eventually;
using testing::Fetch;
using testing::Frame;
using ::testing::HasSubstr;
using testing::kHandshake;
using testing::ReadFrame;
using testing::TestClient;

class WebSocketServerTest : public ::testing::Test {
 protected:
  WebSocketServerTest() { loop_.Start(); }
  ~WebSocketServerTest() override {
    server_ = nullptr;
    authenticator_ = nullptr;
    for (auto& worker : workers_) worker.join();
    loop_.Stop();
  }
  void Serve(WebSocketServer::Options options = {}) {
    options.authenticator = authenticator_.get();
    server_ = std::make_unique<WebSocketServer>(loop_, [] { return SharedBytes("{\"first\":1}"); }, options);
    auto at = server_->Listen(*ParseListenAddress("127.0.0.1:0"));
    ASSERT_TRUE(at.ok()) << at.error().detail;
    at_ = *at;
  }
  TestClient Connect(std::string fields = {}) {
    TestClient client(at_);
    client.Send(kHandshake + fields + "\r\n");
    return client;
  }
  // Past the handshake and the first frame.
  TestClient Open() {
    TestClient client = Connect();
    EXPECT_EQ(client.Read().status, 101);
    EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
    return client;
  }
  int CloseAfter(std::string_view bytes) {
    TestClient client = Open();
    client.Send(bytes);
    int code = CloseCodeOf(ReadFrame(client));
    EXPECT_TRUE(client.ReadsEnd());
    return code;
  }

  IoLoop loop_;
  std::vector<std::thread> workers_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<WebSocketServer> server_;
  Endpoint at_;
};

TEST_F(WebSocketServerTest, FirstFrameComesAtOnceThenEachBroadcast) {
  Serve();
  TestClient one = Connect(), two = Open();
  Answer answer = one.Read();
  EXPECT_EQ(answer.status, 101);
  EXPECT_EQ(answer.Header("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(answer.Header("Upgrade"), "websocket");
  EXPECT_EQ(ReadFrame(one).payload, "{\"first\":1}");
  EXPECT_EQ(server_->clients(), 2u);
  std::string big(100'000, 'x');
  server_->Broadcast("small");
  server_->Broadcast(big);
  for (TestClient* client : {&one, &two}) {
    EXPECT_EQ(ReadFrame(*client).payload, "small");
    EXPECT_EQ(ReadFrame(*client).payload, big);
  }
  EXPECT_EQ(server_->frames_sent(), 6u);
}

TEST_F(WebSocketServerTest, FramesThatCameWithTheHandshake) {
  Serve();
  TestClient client(at_);
  client.Send(std::string(kHandshake) + "\r\n" + ClientFrame(9, "early"));
  EXPECT_EQ(client.Read().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  Frame pong = ReadFrame(client);
  EXPECT_EQ(pong.opcode, 10);
  EXPECT_EQ(pong.payload, "early");
}

TEST_F(WebSocketServerTest, PongsAndCloseHandshake) {
  Serve();
  TestClient client = Open();
  client.Send(ClientFrame(1, "ignored") + ClientFrame(9, "abc"));
  EXPECT_EQ(ReadFrame(client).payload, "abc");
  client.Send(ClientFrame(8, "\x03\xe9"));
  EXPECT_EQ(CloseCodeOf(ReadFrame(client)), 1001);
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 0; }));
}

TEST_F(WebSocketServerTest, BadFramesGetTheRightCode) {
  Serve();
  EXPECT_EQ(CloseAfter(std::string("\x81\x02hi", 4)), 1002);
  EXPECT_EQ(CloseAfter(ClientFrame(1, "\xff")), 1007);
  EXPECT_EQ(CloseAfter(std::string("\x81\xff\0\0\0\0\0\x10\0\0mask", 14)), 1009);
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 0; }));
}

TEST_F(WebSocketServerTest, ExplainsItselfToPlainRequests) {
  Serve();
  Answer answer = Fetch(at_, "GET", "/");
  EXPECT_EQ(answer.status, 426);
  EXPECT_EQ(answer.Header("Upgrade"), "websocket");
  EXPECT_EQ(answer.body, "This port serves WebSocket. Connect to ws://test with a WebSocket client.\n");
  EXPECT_EQ(Fetch(at_, "HEAD", "/").status, 426);
}

TEST_F(WebSocketServerTest, BadHandshakes) {
  Serve();
  auto status = [&](std::string text) {
    TestClient client(at_);
    client.Send(text);
    return client.Read();
  };
  std::string upgrade = "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  EXPECT_EQ(status("GET / HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Version: 13\r\n\r\n").status, 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\n" + upgrade +
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZ!BUB25jZQ==\r\n\r\n")
                .status,
            400);
  Answer old = status("GET / HTTP/1.1\r\n" + upgrade +
                      "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  EXPECT_EQ(old.status, 426);
  EXPECT_EQ(old.Header("Sec-WebSocket-Version"), "13");
  EXPECT_EQ(status("POST / HTTP/1.1\r\n" + upgrade + "Content-Length: 0\r\nSec-WebSocket-Version: 13\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(status("rubbish\r\n\r\n").status, 400);
  EXPECT_EQ(status("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n").status, 414);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n").status, 413);
  EXPECT_EQ(server_->stats().refusals(Refusal::kHeaderSize), 1u);
  EXPECT_EQ(server_->stats().refusals(Refusal::kBodySize), 1u);
}

TEST_F(WebSocketServerTest, OriginsOfOtherPagesAreRefused) {
  WebSocketServer::Options options;
  options.allowed_origins = {"https://grafana.example.org"};
  Serve(options);
  for (const char* good :
       {"http://127.0.0.1:9091", "http://localhost:3000", "https://grafana.example.org", "http://[::1]"}) {
    EXPECT_EQ(Connect("Origin: " + std::string(good) + "\r\n").Read().status, 101) << good;
  }
  for (const char* bad : {"http://evil.example", "null", "", "https://grafana.example.org:444", "file://"}) {
    EXPECT_EQ(Connect("Origin: " + std::string(bad) + "\r\n").Read().status, 403) << bad;
  }
  EXPECT_EQ(server_->stats().refusals(Refusal::kOrigin), 5u);
}

TEST_F(WebSocketServerTest, SlowClientsAreDroppedAndOthersNotHeldUp) {
  WebSocketServer::Options options;
  options.limits.queued_frames = 4;
  Serve(options);
  TestClient slow = Open(), good = Open();
  std::string text(1 << 20, 'y');
  for (int i = 0; i < 40; ++i) {
    server_->Broadcast(text);
    ASSERT_EQ(ReadFrame(good).payload.size(), text.size());
  }
  EXPECT_EQ(server_->stats().refusals(Refusal::kSlow), 1u);
  EXPECT_EQ(server_->clients(), 1u);
}

TEST_F(WebSocketServerTest, StalledWritesEnd) {
  WebSocketServer::Options options;
  options.limits.http.write_timeout = std::chrono::milliseconds(50);
  Serve(options);
  TestClient slow = Open();
  server_->Broadcast(std::string(32 << 20, 'y'));
  EXPECT_TRUE(Eventually([&] { return server_->stats().refusals(Refusal::kSlow) == 1; }));
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(WebSocketServerTest, SilentClientsArePingedThenDropped) {
  WebSocketServer::Options options;
  options.limits.ping_interval = std::chrono::milliseconds(60);
  Serve(options);
  TestClient dead = Open();
  EXPECT_EQ(ReadFrame(dead).opcode, 9);
  dead.Send(ClientFrame(10, ""));
  EXPECT_EQ(ReadFrame(dead).opcode, 9);
  EXPECT_TRUE(dead.ReadsEnd());
  EXPECT_EQ(server_->stats().refusals(Refusal::kTimeout), 1u);
}

TEST_F(WebSocketServerTest, HalfOpenConnectionsMakeRoomAndOpenOnesStay) {
  WebSocketServer::Options options;
  options.limits.http.connections = 20;
  Serve(options);
  std::vector<TestClient> open;
  for (int i = 0; i < 10; ++i) open.push_back(Open());
  std::vector<TestClient> half;
  for (int i = 0; i < 200; ++i) {
    half.emplace_back(at_);
    half.back().Send("GET / HT");
  }
  TestClient last = Open();
  EXPECT_EQ(server_->clients(), 11u);
  EXPECT_GE(server_->stats().refusals(Refusal::kLimit), 190u);
  server_->Broadcast("still here");
  for (TestClient& client : open) EXPECT_EQ(ReadFrame(client).payload, "still here");
}

TEST_F(WebSocketServerTest, FullOfOpenClientsTheNewestIsRefused) {
  WebSocketServer::Options options;
  options.limits.http.connections = 2;
  Serve(options);
  TestClient one = Open(), two = Open();
  TestClient three(at_);
  EXPECT_TRUE(three.ReadsEnd());
  EXPECT_EQ(server_->clients(), 2u);
}

TEST_F(WebSocketServerTest, RequiresPasswords) {
  testing::TempFolder folder;
  std::string path = folder.Write(
      "web.yml",
      "basic_auth_users:\n  scraper: $2y$04$q5LhxlxD4e07/Nmn6a1ia.7Gs7jiUZ9w0Nru8eXqbVxxAlma4IeJK\n");
  auto opened = Authenticator::Open(loop_, path, [this](const Endpoint&, const PasswordQueue::Job& job) {
    workers_.emplace_back([job] { job(true); });
    return true;
  });
  ASSERT_TRUE(opened.ok()) << opened.error().detail;
  authenticator_ = *std::move(opened);
  Serve();
  Answer denied = Connect().Read();
  EXPECT_EQ(denied.status, 401);
  EXPECT_THAT(denied.Header("WWW-Authenticate"), HasSubstr("Basic"));
  EXPECT_EQ(Connect("Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n").Read().status, 101);
  EXPECT_EQ(Connect("Authorization: Basic c2NyYXBlcjpzZWNyZXQ=\r\n").Read().status, 101);
  EXPECT_EQ(Connect("Authorization: Basic c2NyYXBlcjp3cm9uZw==\r\n").Read().status, 401);
  EXPECT_EQ(server_->stats().refusals(Refusal::kAuth), 2u);
}

TEST_F(WebSocketServerTest, ServesOverTls) {
  testing::TempFolder folder;
  testing::Pem ca = testing::MakeCa("ca"), pem = testing::MakeCertificate(ca, "server", {"127.0.0.1"});
  folder.Write("cert.pem", pem.certificate);
  folder.Write("key.pem", pem.key);
  std::string path = folder.Write("web.yml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n");
  authenticator_ = *Authenticator::Open(loop_, path, {});
  Serve();
  TestClient client(at_, {.ca = ca.certificate, .certificate = {}, .max_version = 0});
  ASSERT_TRUE(client.connected()) << client.error();
  client.Send(std::string(kHandshake) + "\r\n");
  EXPECT_EQ(client.Read().status, 101);
  EXPECT_EQ(ReadFrame(client).payload, "{\"first\":1}");
  std::string big(300'000, 'x');
  server_->Broadcast(big);
  EXPECT_EQ(ReadFrame(client).payload, big);
  TestClient plain = Connect();
  EXPECT_EQ(plain.ReadAll().find("HTTP/1.1 101"), std::string::npos);
  EXPECT_EQ(server_->stats().refusals(Refusal::kTls), 1u);
}

TEST_F(WebSocketServerTest, ShutdownClosesWithGoingAway) {
  Serve();
  TestClient client = Open(), rude = Open(), half(at_);
  half.Send("GET /");
  std::atomic<bool> done{false};
  server_->Shutdown(std::chrono::milliseconds(300), [&] { done = true; });
  EXPECT_TRUE(half.ReadsEnd());
  EXPECT_EQ(CloseCodeOf(ReadFrame(client)), 1001);
  client.Send(ClientFrame(8, "\x03\xe9"));
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(WebSocketServerTest, OpensNewAddressesBeforeOldOnesClose) {
  Serve();
  TestClient old = Open();
  auto fresh = server_->Listen(*ParseListenAddress("127.0.0.1:0"));
  ASSERT_TRUE(fresh.ok());
  EXPECT_EQ(server_->addresses().size(), 2u);
  server_->StopListening(at_);
  EXPECT_FALSE(TestClient(at_).connected());
  at_ = *fresh;
  TestClient other = Open();
  server_->Broadcast("both");
  EXPECT_EQ(ReadFrame(old).payload, "both");
  EXPECT_EQ(ReadFrame(other).payload, "both");
  EXPECT_FALSE(server_->Listen(at_).ok());
}

}  // namespace
}  // namespace gpulens
