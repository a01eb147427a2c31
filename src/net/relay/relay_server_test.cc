// What a client and an upstream see of each other through the relay.
#include "net/relay/relay_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/testing/temp_folder.h"
#include "net/relay/relay_fixture.h"
#include "net/testing/certificates.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::string_literals;
using testing::Answer;
using testing::Answer200;
using testing::ChunkedBody;
using testing::Eventually;
using testing::Get;
using testing::Post;
using testing::ReadChunks;
using testing::RelayRecord;
using testing::ScriptedServer;
using testing::TestClient;
using Turn = ScriptedServer::Turn;
using Peer = ScriptedServer::Peer;

class RelayServerTest : public testing::RelayTest {};

TEST_F(RelayServerTest, PassesHeadsAndBodiesUnchanged) {
  ScriptedServer upstream([](int, int, const std::string&) {
    return Turn{
        .answer =
            "HTTP/1.1 200 Fine enough\r\nX-B: 1\r\nx-a:  2 \r\nServer: up\r\nContent-Length: 5\r\n\r\nhello"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(
      "POST /v1//a%2e?b=c HTTP/1.1\r\nX-Z:  9\r\nHost: client\r\nAuthorization: Bearer k\r\nX-A: 1\r\nx-a: "
      "2\r\n"
      "Content-Length: 4\r\n\r\nbody");
  const Answer answer = client.Read();
  EXPECT_EQ(answer.head,
            "HTTP/1.1 200 Fine enough\r\nX-B: 1\r\nx-a:  2 \r\nServer: up\r\nContent-Length: 5\r\n");
  EXPECT_EQ(answer.body, "hello");
  ASSERT_EQ(upstream.requests().size(), 1u);
  EXPECT_EQ(upstream.requests()[0],
            "POST /v1//a%2e?b=c HTTP/1.1\r\nX-Z:  9\r\nHost: " + upstream.endpoint().ToString() +
                "\r\nAuthorization: Bearer k\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 4\r\n\r\nbody");
  const RelayRecord record = Ended(1)[0];
  EXPECT_EQ(record.outcome.end, RelayEnd::kComplete);
  EXPECT_EQ(record.outcome.status, 200);
  EXPECT_EQ(record.outcome.received, 5u);
  EXPECT_EQ(record.outcome.passed, 5u);
  EXPECT_TRUE(record.outcome.answer_whole);
  EXPECT_EQ(record.seen, "hello");
}

TEST_F(RelayServerTest, DropsWhatIsForOneConnection) {
  ScriptedServer upstream([](int, int, const std::string&) {
    return Turn{
        .answer =
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\n"
            "Proxy-Authenticate: x\r\nUpgrade: h2c\r\nTrailer: y\r\nVia: 1.1 z\r\nContent-Length: 0\r\n\r\n"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get(
      "/",
      "Connection: X-Own, close\r\nX-Own: 1\r\nKeep-Alive: 1\r\nProxy-Connection: a\r\nTE: trailers, gzip\r\n"
      "Upgrade: websocket\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: ftp\r\nForwarded: for=x\r\n"
      "X_Forwarded_For: 6.6.6.6\r\n"
      "Via: 1.0 w\r\n"));
  EXPECT_EQ(client.Read().head,
            "HTTP/1.1 200 OK\r\nVia: 1.1 z\r\nContent-Length: 0\r\nConnection: close\r\n");
  EXPECT_EQ(upstream.requests()[0], "GET / HTTP/1.1\r\nHost: " + upstream.endpoint().ToString() +
                                        "\r\nTE: trailers\r\nVia: 1.0 w\r\n\r\n");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(RelayServerTest, AppendsTheAddressOfTrustedPeersAlone) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  RelayOptions options;
  options.trusted_peers.push_back(*ParseAddressRange("127.0.0.0/8"));
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient client(at);
  client.Send(
      Get("/", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 2.2.2.2\r\n"));
  EXPECT_EQ(client.Read().status, 200);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_THAT(
      upstream.requests()[0],
      HasSubstr(
          "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 2.2.2.2, 127.0.0.1\r\n"));
  EXPECT_THAT(upstream.requests()[1], HasSubstr("\r\nX-Forwarded-For: 127.0.0.1\r\n"));
}

TEST_F(RelayServerTest, KeepsConnectionsOnBothSides) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  Serve(upstream.Url(""));
  TestClient client(at);
  for (int i = 0; i < 5; ++i) {
    client.Send(Post("abc"));
    EXPECT_EQ(client.Read().body, "x");
  }
  EXPECT_EQ(upstream.connections(), 1);
  EXPECT_EQ(Idle(), 1u);
  EXPECT_EQ(server->stats().requests, 5u);
  EXPECT_EQ(server->stats().streams, 0u);
}

TEST_F(RelayServerTest, AnswersPipelinedRequestsInTheirOrder) {
  ScriptedServer upstream([](int, int exchange, const std::string&) {
    return Turn{.answer = Answer200(std::string(static_cast<size_t>(1 + exchange), 'x'))};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  std::string all;
  for (int i = 0; i < 20; ++i) all += i % 2 ? Post("abc") : Get("/");
  client.Send(all);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(client.Read().body.size(), i + 1);
  EXPECT_EQ(upstream.connections(), 1);
}

TEST_F(RelayServerTest, TakesARequestByteByByte) {
  ScriptedServer upstream(
      [](int, int, const std::string& request) { return Turn{.answer = Answer200(request)}; });
  Serve(upstream.Url(""));
  TestClient client(at);
  for (
      char c :
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n"s)
    client.Send({&c, 1});
  const Answer answer = client.Read();
  EXPECT_THAT(answer.body, HasSubstr("\r\nContent-Length: 5\r\n\r\nabcde"));
  EXPECT_THAT(answer.body, Not(HasSubstr("ransfer-")));
}

TEST_F(RelayServerTest, AnswersExpectations) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.ReadBytes(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_EQ(client.Read().body, "x");
  EXPECT_THAT(upstream.requests()[0], Not(HasSubstr("Expect")));
}

TEST_F(RelayServerTest, MakesFramesOfItsOwn) {
  ScriptedServer upstream([](int, int, const std::string&) {
    return Turn{.answer =
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n2;x\r\nbc\r\n3\r\ndef\r\n0\r\nX-Sum: 7\r\nHost: no\r\n\r\n"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/") + Get("/", "TE: trailers\r\n"));
  Answer answer = client.Read(true);
  EXPECT_EQ(answer.head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n");
  ChunkedBody body = ReadChunks(client);
  EXPECT_TRUE(body.whole);
  EXPECT_EQ(body.payload, "abcdef");
  EXPECT_EQ(body.trailers, "");
  answer = client.Read(true);
  body = ReadChunks(client);
  EXPECT_EQ(body.payload, "abcdef");
  EXPECT_EQ(body.trailers, "X-Sum: 7\r\n");
  EXPECT_EQ(Idle(), 1u);
}

TEST_F(RelayServerTest, FramesAnswersThatEndWithTheConnection) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\n\r\npart one,");
    testing::ShortPause();
    peer.Write(" part two");
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  client.Read(true);
  const ChunkedBody body = ReadChunks(client);
  EXPECT_TRUE(body.whole);
  EXPECT_EQ(body.payload, "part one, part two");
  EXPECT_EQ(Idle(), 0u);
  client.Send(Get("/"));  // the client's connection is kept
  EXPECT_EQ(client.Read(true).status, 200);
}

TEST_F(RelayServerTest, ServesHttp10) {
  ScriptedServer upstream([](int, int exchange, const std::string&) {
    return Turn{.answer = exchange == 0
                              ? Answer200("known")
                              : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  Answer answer = client.Read();
  EXPECT_EQ(answer.body, "known");
  EXPECT_EQ(answer.Header("Connection"), "keep-alive");
  EXPECT_THAT(upstream.requests()[0], HasSubstr("GET / HTTP/1.1\r\nHost: 127.0.0.1:"));
  client.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  answer = client.Read(true);
  EXPECT_EQ(answer.Header("Transfer-Encoding"), "");
  EXPECT_EQ(answer.Header("Connection"), "close");
  EXPECT_EQ(client.ReadAll(), "abc");
}

TEST_F(RelayServerTest, KnowsAnswersWithoutBody) {
  ScriptedServer upstream([](int, int, const std::string& request) {
    if (request.starts_with("HEAD")) return Turn{.answer = "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"};
    if (request.find("/204") != std::string::npos) return Turn{.answer = "HTTP/1.1 204 No Content\r\n\r\n"};
    return Turn{.answer = "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n\r\n"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + Get("/204") + Get("/304") + Get("/204"));
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n");
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 204 No Content\r\n");
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 9\r\n");
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 204 No Content\r\n");
  EXPECT_EQ(upstream.connections(), 1);
}

TEST_F(RelayServerTest, PassesInterimAnswers) {
  ScriptedServer upstream([](int, int, const std::string&) {
    return Turn{
        .answer =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\nConnection: x\r\n\r\n" +
            Answer200("x")};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  const std::string hints = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
  EXPECT_EQ(client.ReadBytes(hints.size()), hints);
  EXPECT_EQ(client.Read().body, "x");
  client.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.ReadBytes(15), "HTTP/1.1 200 OK");
}

TEST_F(RelayServerTest, PassesRedirectsAndErrors) {
  ScriptedServer elsewhere([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  ScriptedServer upstream([&](int, int exchange, const std::string&) {
    if (exchange == 0)
      return Turn{.answer = "HTTP/1.1 307 Moved\r\nLocation: " + elsewhere.Url("/") +
                            "\r\nContent-Length: 0\r\n\r\n"};
    return Turn{.answer = "HTTP/1.1 429 Too Many\r\nretry-after-ms: 5\r\nContent-Length: 2\r\n\r\n{}"};
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Post("a") + Post("b"));
  Answer answer = client.Read();
  EXPECT_EQ(answer.status, 307);
  EXPECT_EQ(answer.Header("Location"), elsewhere.Url("/"));
  answer = client.Read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.Header("retry-after-ms"), "5");
  EXPECT_EQ(answer.body, "{}");
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST_F(RelayServerTest, StreamsEachEventAtOnce) {
  std::atomic<int> events{0};
  ScriptedServer upstream([&](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 5; ++i) {
      Eventually([&] { return events == i; });
      peer.Write("7\r\ndata: " + std::to_string(i) + "\r\n");
    }
    peer.Write("0\r\n\r\n");
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read(true).status, 200);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.ReadBytes(12), "7\r\ndata: " + std::to_string(i) + "\r\n");
    ++events;
  }
  EXPECT_EQ(client.ReadBytes(5), "0\r\n\r\n");
}

TEST_F(RelayServerTest, PassesLargeBodiesBothWays) {
  std::string body(5'000'000, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 1000);
  std::string received;
  ScriptedServer upstream([&](Peer& peer, int) {
    for (int i = 0; i < 2; ++i) {
      received = peer.Body(peer.Head());
      if (i == 0) {
        peer.Write("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(received.size()) + "\r\n\r\n" +
                   received);
        continue;
      }
      peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4c4b40\r\n" + received +
                 "\r\n0\r\n\r\n");
    }
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Post(body));
  EXPECT_TRUE(client.Read().body == body);
  EXPECT_TRUE(received == body);
  client.Send(Post(body));
  client.Read(true);
  const ChunkedBody chunks = ReadChunks(client);
  EXPECT_TRUE(chunks.whole && chunks.payload == body);
  EXPECT_EQ(server->stats().arriving, 0u);
}

TEST_F(RelayServerTest, DoesNotReadAnUpstreamFasterThanItsClient) {
  std::atomic<size_t> written{0};
  ScriptedServer upstream([&](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\n\r\n");
    const std::string part(100'000, 'x');
    while (written < 100'000'000 && peer.Write(part)) written += part.size();
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  const int small = 65'536;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  client.Send(Get("/"));
  client.Read(true);
  size_t before = 1;
  EXPECT_TRUE(Eventually([&] {
    const bool same = before == written;
    before = written;
    testing::Pause(20ms);
    return same;
  }));
  EXPECT_LT(written, 20'000'000u);  // what the buffers of the sockets hold
  const ChunkedBody body = ReadChunks(client);
  EXPECT_TRUE(body.whole);
  EXPECT_EQ(body.payload.size(), 100'000'000u);
  for (size_t chunk : body.chunks) EXPECT_LE(chunk, 65'536u);
}

TEST_F(RelayServerTest, SetsNoDelayBothWays) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Sit();
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  // Of this process's TCP sockets with the relay's port at one end, or connected to the upstream: how many,
  // and how many of these wait to fill a packet.
  int sockets = 0, delayed = 0;
  auto count = [&] {
    sockets = delayed = 0;
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
      const Endpoint peer = Endpoint::FromSockaddr(address, size);
      size = sizeof address;
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
      const Endpoint local = Endpoint::FromSockaddr(address, size);
      if (!(local == at) && !(peer == upstream.endpoint())) continue;
      int on = 0;
      size = sizeof on;
      ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size);
      delayed += on == 0;
      ++sockets;
    }
    return sockets;
  };
  // The stream is counted while its connection is still being made, and set after that.
  Eventually([&] { return server->stats().streams == 1 && count() == 2 && delayed == 0; });
  EXPECT_EQ(sockets, 2);
  EXPECT_EQ(delayed, 0);
}

// Requests that no upstream must see.

TEST_F(RelayServerTest, RefusesWhatIsNotOneRequest) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  RelayOptions options;
  options.limits.body_bytes = 1000;
  Serve(upstream.Url(""), {}, std::move(options));
  const std::pair<std::string, int> bad[] = {
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x "
       "HTTP/1.1\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nabcde\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfg\r\n", 400},
      {"GET http://10.0.0.1/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
      {"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x'),
       413},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(40'000, 'a') + "\r\n\r\n", 431},
      {"GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
  };
  for (const auto& [text, status] : bad) {
    TestClient client(at);
    client.Send(text);
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, status) << text.substr(0, 100);
    EXPECT_EQ(answer.Header("Connection"), "close");
    EXPECT_TRUE(client.ReadsEnd()) << text.substr(0, 100);
  }
  EXPECT_EQ(upstream.connections(), 0);
  EXPECT_EQ(server->stats().arriving, 0u);
}

TEST_F(RelayServerTest, LetsThePolicyWordItsRefusals) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  policy.on_refuse = [](const RelayHead& head, HttpResponse& refusal) {
    refusal.content_type = "application/json";
    refusal.body = SharedBytes("{\"at\":\"" + std::string(head.target()) + "\"}");
  };
  RelayOptions options;
  options.limits.body_bytes = 10;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient client(at);
  client.Send(Post("0123456789a"));
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "{\"at\":\"/v1/x\"}");
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
}

TEST_F(RelayServerTest, BoundsTheBodiesThatArrive) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  RelayOptions options;
  options.limits.arriving_bytes = 2000;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient first(at), second(at);
  first.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1800\r\n\r\n" + std::string(1500, 'x'));
  EXPECT_TRUE(Eventually([&] { return server->stats().arriving == 1500; }));
  second.Send(Post(std::string(1000, 'y')));
  const Answer answer = second.Read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.Header("Retry-After"), "1");
  first.Send(std::string(300, 'x'));
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(server->stats().arriving, 0u);
}

TEST_F(RelayServerTest, BoundsStreams) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Sit();
  });
  RelayOptions options;
  options.limits.streams = 2;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient one(at), two(at), three(at);
  one.Send(Get("/"));
  two.Send(Get("/"));
  EXPECT_TRUE(Eventually([&] { return server->stats().streams == 2; }));
  three.Send(Get("/"));
  EXPECT_EQ(three.Read().status, 503);
  EXPECT_EQ(Ended(1)[0].failures, std::vector{RelayFailure::kStreams});
}

TEST_F(RelayServerTest, ClosesIdleClientsAtTheLimitOfConnections) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  RelayOptions options;
  options.limits.connections = 2;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient first(at), second(at);
  first.Send(Get("/"));
  EXPECT_EQ(first.Read().status, 200);
  second.Send(Get("/"));
  EXPECT_EQ(second.Read().status, 200);
  TestClient third(at);
  third.Send(Get("/"));
  EXPECT_EQ(third.Read().status, 200);
  EXPECT_TRUE(first.ReadsEnd());
}

// Slow clients.

TEST_F(RelayServerTest, RefusesABodyThatArrivesTooSlowly) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  RelayOptions options;
  options.limits.client_body = 100ms;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient client(at);
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx");
  EXPECT_EQ(client.Read().status, 408);
  const RelayRecord record = Ended(1)[0];
  EXPECT_EQ(record.outcome.end, RelayEnd::kRefused);
  EXPECT_EQ(record.outcome.status, 408);
  TestClient silent(at);
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_EQ(server->stats().refusals(Refusal::kTimeout), 2u);
  EXPECT_EQ(upstream.connections(), 0);
}

TEST_F(RelayServerTest, LeavesAClientThatDoesNotRead) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\n\r\n");
    while (peer.Write(std::string(100'000, 'x'))) {
    }
  });
  RelayOptions options;
  options.limits.client_write = 200ms;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient client(at);
  client.Send(Get("/"));
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kClientSlow);
  EXPECT_TRUE(Eventually([&] { return upstream.closed() == 1; }));
  EXPECT_EQ(server->stats().refusals(Refusal::kSlow), 1u);
}

// The client goes.

TEST_F(RelayServerTest, ClosesTheUpstreamWhenTheClientGoes) {
  for (const bool reset : {false, true}) {
    std::atomic<int64_t> left_ns{0};
    ScriptedServer upstream([&](Peer& peer, int) {
      peer.Head();
      peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
      peer.Linger();
      left_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    });
    policy.upstream = Pool(upstream.Url(""));
    if (!server) Serve(RelayOptions{});
    const size_t before = policy.ended().size();
    int64_t gone_ns = 0;
    {
      TestClient client(at);
      client.Send(Get("/"));
      EXPECT_EQ(client.Read(true).status, 200);
      EXPECT_EQ(client.ReadBytes(6), "1\r\nx\r\n");
      const linger now{1, 0};
      if (reset) ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
      gone_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    }
    EXPECT_TRUE(Eventually([&] { return left_ns != 0; }));
    EXPECT_LT(left_ns - gone_ns, 1'000'000'000) << "reset " << reset;
    const RelayRecord record = Ended(before + 1)[before];
    EXPECT_EQ(record.outcome.end, RelayEnd::kClientGone);
    EXPECT_EQ(record.outcome.failure, RelayFailure::kNone);
    EXPECT_EQ(record.outcome.received, 1u);
    EXPECT_FALSE(record.outcome.answer_whole);
    EXPECT_EQ(Open(), 0u);
    loop.Call([&] { EXPECT_FALSE(policy.upstream->circuit().open()); });
  }
}

TEST_F(RelayServerTest, EndsWhenTheClientGoesAtEachPhase) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Linger();
  });
  Serve(upstream.Url(""));
  {
    TestClient(at).Send("POST / HTTP");
  }
  EXPECT_TRUE(Eventually([&] { return server->stats().accepted == 1 && server->stats().connections == 0; }));
  EXPECT_EQ(policy.begun(), 0u);
  {
    TestClient(at).Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  }
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kClientGone);
  RelayHandle kept;
  policy.on_request = [&](const RelayRequest&, RelayHandle handle) { kept = handle; };
  {
    TestClient(at).Send(Post("ab"));
  }
  EXPECT_EQ(Ended(2)[1].outcome.end, RelayEnd::kClientGone);
  loop.Call([&] {
    EXPECT_TRUE(kept.over());
    kept.Answer(HttpResponse::Text(200, "late"));  // does nothing
    kept = RelayHandle();
  });
  policy.on_request = nullptr;
  {
    TestClient client(at);
    client.Send(Post("ab"));
    EXPECT_TRUE(Eventually([&] { return upstream.connections() == 1; }));
  }
  EXPECT_EQ(Ended(3)[2].outcome.end, RelayEnd::kClientGone);
  EXPECT_TRUE(Eventually([&] { return upstream.closed() == 1; }));
  EXPECT_EQ(server->stats().arriving, 0u);
  EXPECT_EQ(server->stats().streams, 0u);
}

TEST_F(RelayServerTest, LetsAHalfClosedClientReadWhereThatIsAllowed) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    testing::Pause(50ms);
    peer.Write(Answer200("late"));
  });
  RelayOptions options;
  options.half_close = true;
  Serve(upstream.Url(""), {}, std::move(options));
  TestClient client(at);
  client.Send(Get("/"));
  client.FinishSending();
  EXPECT_EQ(client.Read().body, "late");
  EXPECT_TRUE(client.ReadsEnd());
}

TEST_F(RelayServerTest, DrainsForThePolicyWithBounds) {
  ScriptedServer upstream([](Peer& peer, int number) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    testing::Pause(100ms);
    if (number == 0) peer.Write("5\r\nusage\r\n0\r\n\r\n");
    if (number == 1) peer.Write("7d0\r\n" + std::string(2000, 'y') + "\r\n");
    peer.Linger();
  });
  Serve(upstream.Url(""));
  policy.on_gone = [] { return RelayDrain{.bytes = 1000, .time = 300ms}; };
  const auto leave = [&] {
    TestClient client(at);
    client.Send(Get("/"));
    client.Read(true);
    client.ReadBytes(6);
  };
  leave();
  RelayRecord record = Ended(1)[0];
  EXPECT_EQ(record.outcome.end, RelayEnd::kClientGone);
  EXPECT_TRUE(record.outcome.answer_whole);
  EXPECT_EQ(record.seen, "xusage");
  EXPECT_EQ(Idle(), 1u);  // read to its end
  loop.Call([&] { policy.upstream->CloseIdle(); });
  leave();
  record = Ended(2)[1];
  EXPECT_FALSE(record.outcome.answer_whole);
  EXPECT_EQ(record.seen, "x");
  leave();  // the time
  record = Ended(3)[2];
  EXPECT_EQ(record.outcome.end, RelayEnd::kClientGone);
  EXPECT_FALSE(record.outcome.answer_whole);
  EXPECT_EQ(Open(), 0u);
  EXPECT_EQ(server->stats().connections, 0u);
}

// Stopping.

TEST_F(RelayServerTest, CutsNoStreamUntilTheDeadline) {
  std::atomic<bool> go{false};
  ScriptedServer upstream([&](Peer& peer, int number) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    if (number == 1) return peer.Sit();
    Eventually([&] { return go.load(); });
    peer.Write("1\r\ny\r\n0\r\n\r\n");
  });
  Serve(upstream.Url(""));
  TestClient client(at), idle(at), stuck(at);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read(true).status, 200);
  stuck.Send(Get("/"));
  EXPECT_EQ(stuck.Read(true).status, 200);
  std::atomic<bool> done{false};
  server->Shutdown(500ms, [&] { done = true; });
  EXPECT_TRUE(idle.ReadsEnd());
  EXPECT_FALSE(done);
  go = true;
  const ChunkedBody body = ReadChunks(client);
  EXPECT_TRUE(body.whole);
  EXPECT_EQ(body.payload, "xy");
  EXPECT_TRUE(client.ReadsEnd());
  EXPECT_FALSE(ReadChunks(stuck).whole);
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  const auto ended = Ended(2);
  EXPECT_EQ(ended[0].outcome.end, RelayEnd::kComplete);
  EXPECT_EQ(ended[1].outcome.end, RelayEnd::kStopped);
}

TEST_F(RelayServerTest, ServesOneSocketOnSeveralLoops) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  Serve(upstream.Url(""));
  IoLoop other_loop;
  other_loop.Start();
  testing::FunctionPolicy other;
  other_loop.Call([&] {
    UpstreamOptions options;
    options.url = *ParseHttpUrl(upstream.Url(""));
    other.upstream = MakeRef<UpstreamPool>(other_loop, std::move(options));
  });
  auto socket = SharedSocket::Get(*ParseListenAddress("127.0.0.1:0"));
  ASSERT_TRUE(socket.ok());
  RelayServer second(other_loop, other, {});
  const Endpoint both = *server->Listen(*(*socket)->Copy());
  ASSERT_TRUE(second.Listen(*(*socket)->Copy()).ok());
  for (int i = 0; i < 20; ++i) {
    TestClient client(both);
    client.Send(Get("/"));
    EXPECT_EQ(client.Read().status, 200);
  }
  EXPECT_EQ(policy.begun() + other.begun(), 20u);
  second.StopListening(both);
  second.Shutdown(1s, [] {});
  EXPECT_TRUE(Eventually([&] { return second.stats().connections == 0; }));
  other_loop.Call([&] { other.upstream = nullptr; });
}

// TLS.

TEST_F(RelayServerTest, SpeaksTlsOnBothSides) {
  testing::TlsFixture tls;
  testing::TempFolder folder;
  const testing::Pem own = testing::MakeCertificate(tls.ca, "relay", {"127.0.0.1"});
  folder.Write("cert.pem", own.certificate);
  folder.Write("key.pem", own.key);
  auto authenticator = Authenticator::Open(
      loop, folder.Write("web.yml", "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"),
      nullptr);
  ASSERT_TRUE(authenticator.ok());
  std::string body(300'000, 'b');
  ScriptedServer upstream(
      [&](Peer& peer, int) {
        for (std::string head = peer.Head(); !head.empty(); head = peer.Head()) {
          const std::string got = peer.Body(head);
          peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
          peer.Write("493e0\r\n" + got + "\r\n");
          peer.Write("0\r\n\r\n");
        }
      },
      tls.Server({"127.0.0.1"}));
  UpstreamOptions options;
  options.tls = tls.Client(tls.Trusting(tls.ca));
  RelayOptions relay;
  relay.authenticator = authenticator->get();
  Serve(upstream.Url(""), options, std::move(relay));
  {
    TestClient client(at, TestClient::Tls{.ca = tls.ca.certificate, .certificate = {}});
    ASSERT_TRUE(client.connected()) << client.error();
    for (int i = 0; i < 3; ++i) {
      client.Send(Post(body));
      EXPECT_EQ(client.Read(true).status, 200);
      const ChunkedBody chunks = ReadChunks(client);
      EXPECT_TRUE(chunks.whole && chunks.payload == body);
    }
  }
  EXPECT_EQ(upstream.connections(), 1);
  TestClient plain(at);
  plain.Send(Get("/"));
  EXPECT_THAT(plain.ReadAll(), HasSubstr("HTTPS"));
  // An upstream whose certificate is not trusted.
  UpstreamOptions wary;
  wary.tls = tls.Client(tls.Trusting(tls.other));
  policy.upstream = Pool(upstream.Url(""), wary);
  TestClient client(at, TestClient::Tls{.ca = tls.ca.certificate, .certificate = {}});
  client.Send(Get("/"));
  EXPECT_EQ(client.Read().status, 502);
  EXPECT_EQ(Ended(4)[3].failures, std::vector{RelayFailure::kTls});
  server = nullptr;
}

}  // namespace
}  // namespace gpulens
