// The connections to an upstream: which are kept, when they fail and how, and the circuit.
#include "net/relay/upstream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/files.h"
#include "net/relay/relay_fixture.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Answer200;
using ::testing::ElementsAre;
using testing::Eventually;
using testing::Get;
using testing::Post;
using testing::ReadChunks;
using testing::RelayRecord;
using testing::ScriptedServer;
using testing::TestClient;
using Turn = ScriptedServer::Turn;
using Peer = ScriptedServer::Peer;

class UpstreamTest : public testing::RelayTest {
 protected:
  // One request on a connection of its own: its status, and how the exchange ended.
  struct Fetched {
    int status = 0;
    RelayRecord record;
  };
  Fetched Call(const std::string& request) {
    const size_t before = policy.ended().size();
    TestClient client(at);
    client.Send(request);
    Fetched got;
    got.status = client.Read(true).status;
    client.ReadAll();
    got.record = Ended(before + 1)[before];
    return got;
  }
  static std::string Once(const std::string& path) { return Get(path, "Connection: close\r\n"); }
};

TEST(UpstreamCircuit, OpensAfterFailuresInARowAndLetsOneProbeThrough) {
  UpstreamCircuit circuit({.failures = 3, .open_for = 10s});
  ManualClock clock;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(circuit.Allow(clock.Now()));
    circuit.OnFailure(clock.Now());
  }
  ASSERT_TRUE(circuit.Allow(clock.Now()));
  circuit.OnSuccess();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(circuit.Allow(clock.Now()));
    circuit.OnFailure(clock.Now());
  }
  EXPECT_TRUE(circuit.open());
  EXPECT_FALSE(circuit.Allow(clock.Now()));
  clock.Advance(9s);
  circuit.OnFailure(clock.Now());  // one that began before does not prolong it
  clock.Advance(1s);
  EXPECT_TRUE(circuit.Allow(clock.Now()));
  EXPECT_FALSE(circuit.Allow(clock.Now()));
  circuit.OnAbandoned();  // the client of the probe left
  EXPECT_TRUE(circuit.Allow(clock.Now()));
  circuit.OnFailure(clock.Now());
  EXPECT_FALSE(circuit.Allow(clock.Now()));
  clock.Advance(10s);
  EXPECT_TRUE(circuit.Allow(clock.Now()));
  circuit.OnSuccess();
  EXPECT_FALSE(circuit.open());
  EXPECT_TRUE(circuit.Allow(clock.Now()));
  UpstreamCircuit never({.failures = 0});
  for (int i = 0; i < 100; ++i) never.OnFailure(clock.Now());
  EXPECT_TRUE(never.Allow(clock.Now()));
}

TEST(RelayFailure, HasNamesAndStatus) {
  EXPECT_EQ(RelayFailureName(RelayFailure::kHeadTimeout), "head_timeout");
  EXPECT_EQ(RelayFailureName(RelayFailure::kBody), "body");
  EXPECT_EQ(RelayFailureStatus(RelayFailure::kConnectTimeout), 504);
  EXPECT_EQ(RelayFailureStatus(RelayFailure::kBusy), 503);
  EXPECT_EQ(RelayFailureStatus(RelayFailure::kHead), 502);
}

TEST_F(UpstreamTest, OpensTheCircuitForServerErrorsAlone) {
  ManualClock clock;
  std::atomic<int> status{500};
  ScriptedServer upstream([&](int, int, const std::string&) {
    return Turn{.answer = "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 0\r\n\r\n"};
  });
  Serve(upstream.Url(""), {.circuit = {.failures = 3, .open_for = 10s}, .clock = &clock});
  for (int quiet : {429, 400, 404, 200}) {
    status = quiet;
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Call(Once("/")).status, quiet);
  }
  status = 500;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Call(Once("/")).status, 500);
  const size_t before = upstream.requests().size();
  const Fetched refused = Call(Once("/"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.record.failures, ElementsAre(RelayFailure::kCircuitOpen));
  EXPECT_EQ(upstream.requests().size(), before);
  loop.Call([&] { clock.Advance(10s); });
  status = 200;
  EXPECT_EQ(Call(Once("/")).status, 200);
  EXPECT_EQ(Call(Once("/")).status, 200);
}

TEST_F(UpstreamTest, KeepsNoConnectionThatIsNotClean) {
  std::atomic<int> way{0};
  ScriptedServer upstream([&](Peer& peer, int) {
    for (std::string head = peer.Head(); !head.empty(); head = peer.Head()) {
      if (way == 0) peer.Write(Answer200("x") + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
      if (way == 1) peer.Write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
      if (way == 2) peer.Write("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx");
      if (way == 3) peer.Write(Answer200("x"));
    }
  });
  Serve(upstream.Url(""));
  for (int i = 0; i < 3; ++i) {
    way = i;
    EXPECT_EQ(Call(Once("/")).record.seen, "x");
    EXPECT_EQ(Idle(), 0u) << i;
  }
  way = 3;
  EXPECT_EQ(Call(Once("/")).record.seen, "x");
  EXPECT_EQ(Idle(), 1u);
  upstream.DropConnections();
  EXPECT_TRUE(Eventually([&] { return Idle() == 0; }));  // seen at once
}

TEST_F(UpstreamTest, ClosesTheOldestIdleFirst) {
  ScriptedServer upstream([](Peer& peer, int) {
    while (!peer.Head().empty()) {
      testing::ShortPause();
      peer.Write(Answer200("x"));
    }
  });
  Serve(upstream.Url(""), {.max_idle = 2, .idle = 200ms});
  std::vector<TestClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(at);
    clients.back().Send(Get("/"));
  }
  for (TestClient& client : clients) EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(Idle(), 2u);
  EXPECT_EQ(Open(), 2u);
  EXPECT_TRUE(Eventually([&] { return Open() == 0; }));  // the time of an idle connection
}

TEST_F(UpstreamTest, OpensNoMoreConnectionsThanAllowed) {
  std::atomic<bool> go{false};
  ScriptedServer upstream([&](Peer& peer, int) {
    while (!peer.Head().empty()) {
      Eventually([&] { return go.load(); });
      peer.Write(Answer200("x"));
    }
  });
  Serve(upstream.Url(""), {.max_connections = 2});
  TestClient one(at), two(at);
  one.Send(Get("/"));
  two.Send(Get("/"));
  EXPECT_TRUE(Eventually([&] { return Open() == 2; }));
  const Fetched third = Call(Once("/"));
  EXPECT_EQ(third.status, 503);
  EXPECT_THAT(third.record.failures, ElementsAre(RelayFailure::kBusy));
  go = true;
  EXPECT_EQ(one.Read().status, 200);
  EXPECT_EQ(two.Read().status, 200);
  EXPECT_EQ(Call(Once("/")).status, 200);
  loop.Call([&] { EXPECT_FALSE(policy.upstream->circuit().open()); });
}

// A kept connection that the server closes as the request comes. The close is held back until the request was
// sent: the relay does not see it before.
TEST_F(UpstreamTest, RepeatsOnAFreshConnectionOnlyWhatIsSafe) {
  ScriptedServer upstream([](Peer& peer, int number) {
    peer.Head();
    peer.Write(Answer200("first"));
    if (number % 2 == 0) {
      peer.Head();  // and goes without an answer
      return;
    }
    peer.Head();
    peer.Write(Answer200("second"));
  });
  Serve(upstream.Url(""));
  EXPECT_EQ(Call(Once("/")).record.seen, "first");
  const Fetched get = Call(Once("/"));  // the kept one dies; the fresh one answers
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(get.record.seen, "first");
  EXPECT_TRUE(get.record.failures.empty());
  EXPECT_EQ(upstream.connections(), 2);
  loop.Call([&] { policy.upstream->CloseIdle(); });
  EXPECT_EQ(Call(Once("/")).record.seen, "first");
  const Fetched post = Call(Post("paid", "Connection: close\r\n"));  // may have begun there
  EXPECT_EQ(post.status, 502);
  EXPECT_THAT(post.record.failures, ElementsAre(RelayFailure::kClosed));
  EXPECT_EQ(upstream.connections(), 3);
}

TEST_F(UpstreamTest, NoticesAClosedConnectionBeforeItSends) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write(Answer200("x"));
  });
  Serve(upstream.Url(""));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Call(Post("paid", "Connection: close\r\n")).status, 200) << i;
    EXPECT_TRUE(Eventually([&] { return upstream.closed() == i + 1; }));
  }
}

TEST_F(UpstreamTest, ReadsARefusalThatComesBeforeTheBody) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 413 Too large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
    testing::ShortPause();
  });
  Serve(upstream.Url(""));
  for (int i = 0; i < 5; ++i) {
    const Fetched got = Call(Post(std::string(20'000'000, 'x'), "Connection: close\r\n"));
    EXPECT_EQ(got.status, 413);
    EXPECT_EQ(got.record.seen, "big");
  }
}

// Failures, each of its own kind.

struct Fault {
  const char* name;
  std::string answer;  // what the upstream writes before it closes
  bool reset = false;
  RelayFailure failure;
  int status;  // of what the client gets; 200: the answer is cut
};

TEST_F(UpstreamTest, NamesEachFault) {
  const Fault faults[] = {
      {"no answer", "", false, RelayFailure::kClosed, 502},
      {"a reset", "", true, RelayFailure::kClosed, 502},
      {"half a head", "HTTP/1.1 200 OK\r\nA: ", false, RelayFailure::kHead, 502},
      {"garbage", "\x16\x03\x01garbage\r\n\r\n", false, RelayFailure::kHead, 502},
      {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", false,
       RelayFailure::kHead, 502},
      {"an endless head", "HTTP/1.1 200 OK\r\n" + std::string(80'000, 'a'), false, RelayFailure::kHead, 502},
      {"switched protocols", "HTTP/1.1 101 Switching\r\n\r\n", false, RelayFailure::kHead, 502},
      {"interim answers for ever",
       [] {
         std::string many;
         for (int i = 0; i < 40; ++i) many += "HTTP/1.1 100 Continue\r\n\r\n";
         return many;
       }(),
       false, RelayFailure::kHead, 502},
      {"fewer bytes than announced", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false,
       RelayFailure::kCut, 200},
      {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false,
       RelayFailure::kCut, 200},
      {"a damaged chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", false,
       RelayFailure::kBody, 200},
      {"a reset within the body", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true,
       RelayFailure::kCut, 200},
  };
  std::atomic<const Fault*> fault{nullptr};
  ScriptedServer upstream([&](Peer& peer, int) {
    peer.Head();
    const Fault& now = *fault;
    peer.Write(now.answer);
    if (now.status == 200) testing::ShortPause();
    if (now.reset) peer.CloseWithReset();
  });
  Serve(upstream.Url(""), {.circuit = {.failures = 0}});
  for (const Fault& each : faults) {
    fault = &each;
    const Fetched got = Call(Once("/"));
    EXPECT_EQ(got.status, each.status) << each.name;
    EXPECT_EQ(got.record.outcome.end, RelayEnd::kUpstreamFailed) << each.name;
    EXPECT_EQ(RelayFailureName(got.record.outcome.failure), RelayFailureName(each.failure)) << each.name;
    EXPECT_FALSE(got.record.detail.empty()) << each.name;
    EXPECT_FALSE(got.record.outcome.answer_whole);
    EXPECT_EQ(got.record.seen, each.status == 200 ? "abc" : "") << each.name;
    EXPECT_EQ(Open(), 0u) << each.name;
  }
}

TEST_F(UpstreamTest, ResetsAnHttp10ClientOfACutAnswer) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    testing::ShortPause();
  });
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read(true).status, 200);
  char byte;
  while (::recv(client.fd(), &byte, 1, 0) > 0) {
  }
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(UpstreamTest, HasATimeForEachPhase) {
  // A listener that accepts nothing: the backlog is full after two.
  UniqueFd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent.get(), 0), 0);
  size = sizeof address;
  ::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const Endpoint silent_at = Endpoint::FromSockaddr(address, size);
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    static_cast<void>(::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), size));
  }
  testing::TlsFixture tls;
  ScriptedServer mute([](Peer& peer, int) { peer.Sit(); });
  ScriptedServer stops([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n6\r\nda");
    peer.Sit();
  });
  UpstreamOptions options{.connect = 150ms, .tls_handshake = 150ms, .head = 150ms, .between = 150ms};
  const auto time = [&](const std::string& url, std::shared_ptr<const TlsContext> context) {
    options.tls = context;
    policy.upstream = Pool(url, options);
    if (!server) Serve(RelayOptions{});
    return Call(Once("/"));
  };
  Fetched got = time("http://" + silent_at.ToString(), nullptr);
  EXPECT_EQ(got.status, 504);
  EXPECT_EQ(got.record.outcome.failure, RelayFailure::kConnectTimeout);
  got = time("https://" + mute.endpoint().ToString(), tls.Client(tls.Trusting(tls.ca)));
  EXPECT_EQ(got.status, 504);
  EXPECT_EQ(got.record.outcome.failure, RelayFailure::kTlsTimeout);
  got = time(mute.Url(""), nullptr);
  EXPECT_EQ(got.status, 504);
  EXPECT_EQ(got.record.outcome.failure, RelayFailure::kHeadTimeout);
  got = time(stops.Url(""), nullptr);
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.record.outcome.failure, RelayFailure::kIdleTimeout);
  EXPECT_EQ(got.record.seen, "abcda");
}

TEST_F(UpstreamTest, DoesNotCountTheClientsPauseAsTheUpstreams) {
  ScriptedServer upstream([](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n" + std::string(20'000'000, 'x'));
  });
  Serve(upstream.Url(""), {.between = 100ms});
  TestClient client(at);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read(true).status, 200);
  testing::Pause(400ms);
  EXPECT_EQ(client.ReadBytes(20'000'000).size(), 20'000'000u);
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kComplete);
}

TEST_F(UpstreamTest, ConnectsToWhatTheConfigurationNames) {
  ScriptedServer upstream([](int, int, const std::string&) { return Turn{.answer = Answer200("x")}; });
  const std::string port = std::to_string(upstream.endpoint().port);
  Serve("http://localhost:" + port);
  TestClient client(at);
  client.Send("GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n");
  EXPECT_EQ(client.Read().body, "x");
  policy.upstream = Pool("http://does-not-exist.invalid:" + port);
  const Fetched got = Call(Once("/"));
  EXPECT_EQ(got.status, 502);
  EXPECT_THAT(got.record.failures, ElementsAre(RelayFailure::kResolve));
  // The resolver takes numbers that ParseIp does not: this is 169.254.169.254.
  policy.upstream = Pool("http://2852039166:80");
  const Fetched forbidden = Call(Once("/"));
  EXPECT_EQ(forbidden.status, 502);
  EXPECT_THAT(forbidden.record.failures, ElementsAre(RelayFailure::kForbidden));
  UniqueFd closed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  ASSERT_EQ(::bind(closed.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  size = sizeof address;
  ::getsockname(closed.get(), reinterpret_cast<sockaddr*>(&address), &size);
  policy.upstream = Pool("http://" + Endpoint::FromSockaddr(address, size).ToString());
  EXPECT_THAT(Call(Once("/")).record.failures, ElementsAre(RelayFailure::kConnect));
}

}  // namespace
}  // namespace gpulens
