#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/testing/temp_folder.h"
#include "net/blocking/blocking_post.h"
#include "net/blocking/blocking_server.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using std::chrono::seconds;
using testing::Answer;
using testing::Answer200;
using testing::Eventually;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::ScriptedServer;
using testing::TestClient;

using Turn = ScriptedServer::Turn;

BlockingPost::Request To(const ScriptedServer& server, std::string_view body) {
  return {*ParseHttpUrl(server.Url("/v1/metrics")), {}, "Content-Type: x/y\r\n", body};
}

TEST(BlockingPost, SendsAndReads) {
  std::string head, body;
  testing::ScriptedServer server([&](testing::ScriptedServer::Peer& peer, int) {
    head = peer.Head();
    body = peer.Body(head);
    peer.Write(Answer200("taken"));
  });
  BlockingPost post;
  const HttpUrl url = *ParseHttpUrl(server.Url("/v1/metrics"));
  const auto reply = post.Send({url, {}, "Content-Type: x/y\r\n", "the body"}, seconds(20));
  ASSERT_TRUE(reply.ok()) << reply.status().detail;
  EXPECT_EQ((*reply).status, 200);
  EXPECT_EQ((*reply).body, "taken");
  EXPECT_THAT(head, ::testing::StartsWith("POST /v1/metrics HTTP/1.1\r\nHost: "));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Type: x/y\r\n"));
  EXPECT_EQ(body, "the body");
}

TEST(BlockingPost, OverAUnixSocket) {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/s";
  ScriptedServer server(
      [](int, int, const std::string&) {
        return Turn{"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"};
      },
      nullptr, "unix:" + path);
  BlockingPost post;
  HttpUrl url;
  url.host = "localhost";
  url.port = 80;
  url.target = "/";
  const auto reply = post.Send({url, path, "", std::string(1 << 20, 'x')}, seconds(20));
  ASSERT_TRUE(reply.ok()) << reply.status().detail;
  EXPECT_EQ((*reply).status, 429);
  EXPECT_EQ((*reply).retry_after, "7");
}

TEST(BlockingPost, UnavailableWithoutServer) {
  testing::TempFolder folder;
  BlockingPost post;
  EXPECT_EQ(post.Send({{}, folder.path() + "/none", "", ""}, seconds(20)).status().code, Code::kUnavailable);
  const std::string dead = folder.path() + "/dead";
  {
    ScriptedServer gone([](int, int, const std::string&) { return Turn{}; }, nullptr, "unix:" + dead);
  }
  EXPECT_EQ(post.Send({{}, dead, "", ""}, seconds(20)).status().code, Code::kUnavailable);
  HttpUrl url = *ParseHttpUrl("http://127.0.0.1:1/");
  EXPECT_EQ(post.Send({url, {}, "", ""}, seconds(20)).status().code, Code::kUnavailable);
  EXPECT_EQ(post.Send({{}, std::string(200, 'x'), "", ""}, seconds(20)).status().code,
            Code::kInvalidArgument);
}

TEST(BlockingPost, OtherProtocolsAreDataLoss) {
  const std::pair<const char*, std::string> bad[] = {
      {"no HTTP", "SSH-2.0-x\r\n\r\n"},
      {"cut", "HTTP/1.1 200"},
      {"nothing", ""},
      {"head without end", "HTTP/1.1 200 OK\r\nX: " + std::string(20 << 10, 'x')},
  };
  for (const auto& [name, bytes] : bad) {
    ScriptedServer server(
        [&bytes](int, int, const std::string&) { return Turn{.answer = bytes, .close = true}; });
    BlockingPost post;
    EXPECT_EQ(post.Send(To(server, "x"), seconds(20)).status().code, Code::kDataLoss) << name;
  }
}

TEST(BlockingPost, ABodyInPiecesHasAnySize) {
  std::string answer = Answer200(std::string(8 << 20, 'x')), cut = answer.substr(0, 1 << 20);
  ScriptedServer server([&](int connection, int, const std::string&) {
    return Turn{.answer = connection == 2   ? cut
                          : connection == 3 ? "HTTP/1.1 500 X\r\n\r\nwhy"
                                            : answer,
                .close = true};
  });
  BlockingPost post;
  size_t taken = 0, most = SIZE_MAX;
  BlockingPost::Request request = To(server, "");
  request.on_body = [&](std::string_view piece) { return (taken += piece.size()) < most; };
  const auto whole = post.Send(request, seconds(20));
  ASSERT_TRUE(whole.ok()) << whole.status().detail;
  EXPECT_EQ((*whole).body, "");
  EXPECT_EQ(taken, size_t{8} << 20);
  taken = 0, most = 100'000;
  EXPECT_EQ(post.Send(request, seconds(20)).status().code, Code::kUnavailable);
  EXPECT_LT(taken, size_t{1} << 20);
  most = SIZE_MAX;
  EXPECT_EQ(post.Send(request, seconds(20)).status().code, Code::kDataLoss) << "cut";
  taken = 0;
  const auto refused = post.Send(request, seconds(20));
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ((*refused).body, "why");
  EXPECT_EQ(taken, 0u);
}

TEST(BlockingPost, APieceThatDoesNotComeIsNotWaitedFor) {
  ScriptedServer server([](int, int, const std::string&) {
    return Turn{.answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"};
  });
  BlockingPost post;
  BlockingPost::Request request = To(server, "");
  std::string taken;
  request.on_body = [&](std::string_view piece) { return taken += piece, true; };
  EXPECT_EQ(post.Send(request, std::chrono::milliseconds(200)).status().code, Code::kTimeout);
  EXPECT_EQ(taken, "12345");
}

TEST(BlockingPost, ASilentServerIsNotWaitedForAndCanBeCut) {
  // Accepts in the kernel and never answers.
  BlockingServer::Page page = [](const HttpRequest&) { return HttpResponse(); };
  auto silent = BlockingServer::Open(*ParseListenAddress("127.0.0.1:0"), page);
  ASSERT_TRUE(silent.ok());
  const HttpUrl url = *ParseHttpUrl("http://" + (*silent)->address().ToString() + "/");
  BlockingPost post;
  EXPECT_EQ(post.Send({url, {}, "", "x"}, std::chrono::milliseconds(20)).status().code, Code::kTimeout);
  std::thread cutter([&post] { post.Cut(); });
  EXPECT_EQ(post.Send({url, {}, "", "x"}, std::chrono::hours(1)).status().code, Code::kUnavailable);
  EXPECT_EQ(post.Send({url, {}, "", "x"}, std::chrono::hours(1)).status().code, Code::kUnavailable);
  cutter.join();
}

class BlockingServerTest : public ::testing::Test {
 protected:
  void Open(const BlockingServer::Limits& limits = {}) {
    auto server = BlockingServer::Open(
        *ParseListenAddress("127.0.0.1:0"),
        [this](const HttpRequest& request) {
          ++queried_;
          HttpResponse response;
          response.body = std::string(request.path()) + " " + request.JoinedHeader("Accept") + big_;
          return response;
        },
        limits);
    ASSERT_TRUE(server.ok());
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->Serve(); });
  }
  void TearDown() override {
    server_->Stop();
    thread_.join();
  }

  std::string big_;
  std::atomic<int> queried_{0};
  std::unique_ptr<BlockingServer> server_;
  std::thread thread_;
};

TEST_F(BlockingServerTest, ServesGetAndHead) {
  Open();
  const Answer page = Fetch(server_->address(), "GET", "/metrics?x=1", "Accept: a\r\nAccept: b\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, "/metrics a, b");
  EXPECT_EQ(page.Header("Connection"), "close");
  TestClient head(server_->address());
  head.Send("HEAD /m HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(head.Read(true).Header("Content-Length"), "3");
  EXPECT_TRUE(head.ReadsEnd());
  const Answer post = Fetch(server_->address(), "DELETE", "/");
  EXPECT_EQ(post.status, 405);
  EXPECT_EQ(post.Header("Allow"), "GET, HEAD");
  EXPECT_EQ(queried_, 2);
}

TEST_F(BlockingServerTest, ALargePageIsReadWhole) {
  big_ = std::string(8 << 20, 'x');
  Open();
  EXPECT_EQ(Fetch(server_->address(), "GET", "/").body.size(), big_.size() + 2);
}

TEST_F(BlockingServerTest, DamagedRequestsAreRefused) {
  Open();
  const std::pair<const char*, std::string> bad[] = {
      {"no HTTP", "hello\r\n\r\n"},
      {"no host", "GET / HTTP/1.1\r\n\r\n"},
      {"a body", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345"},
      {"a long line", "GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"many fields", "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(17 << 10, 'x') + "\r\n\r\n"},
  };
  for (const auto& [name, bytes] : bad) {
    TestClient client(server_->address());
    client.Send(bytes);
    EXPECT_GE(client.Read().status, 400) << name;
  }
  EXPECT_EQ(queried_, 0);
  EXPECT_EQ(Fetch(server_->address(), "GET", "/").status, 200);
}

TEST_F(BlockingServerTest, IdleClientsAreClosedSoThatOthersCome) {
  Open({.connections = 2, .request = std::chrono::milliseconds(50), .answer = seconds(30)});
  TestClient silent(server_->address()), slow(server_->address());
  slow.Send("GET / HT");
  EXPECT_TRUE(Eventually([&] { return Fetch(server_->address(), "GET", "/").status == 200; }))
      << "who waits for a place gets one";
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_TRUE(slow.ReadsEnd());
}

TEST_F(BlockingServerTest, IdleClientsGiveWayToNewOnes) {
  Open({.connections = 2, .request = std::chrono::hours(1), .answer = seconds(30)});
  TestClient silent(server_->address()), slow(server_->address());
  slow.Send("GET / HT");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Fetch(server_->address(), "GET", "/").status, 200);
  EXPECT_TRUE(silent.ReadsEnd()) << "the first to be late goes first";
}

TEST_F(BlockingServerTest, WebPagesElsewhereAreRefused) {
  Open();
  for (const char* fields :
       {"Host: evil.example\r\n", "Host: localhost\r\nOrigin: http://evil.example\r\n"}) {
    TestClient client(server_->address());
    client.Send("GET / HTTP/1.1\r\n" + std::string(fields) + "\r\n");
    EXPECT_EQ(client.Read().status, 403) << fields;
  }
  EXPECT_EQ(queried_, 0);
  EXPECT_EQ(Fetch(server_->address(), "GET", "/").Header("X-Content-Type-Options"), "nosniff");
}

TEST_F(BlockingServerTest, ReportsATakenPort) {
  Open();
  const auto second =
      BlockingServer::Open(server_->address(), [](const HttpRequest&) { return HttpResponse(); });
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().detail, HasSubstr("already in use"));
}

}  // namespace
}  // namespace gpulens
