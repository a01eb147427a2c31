#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"
#include "net/testing/http_channel_fixture.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Answer200;
using ::testing::AnyOf;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::ScriptedServer;
using ::testing::StartsWith;
using testing::TlsFixture;
using Body = std::shared_ptr<const std::string>;
using Peer = ScriptedServer::Peer;

Body Text(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

// Bytes in which neighbours differ.
Body Noise(size_t size) {
  auto body = std::make_shared<std::string>(size, '\0');
  std::mt19937_64 random(size);
  for (size_t at = 0; at + 8 <= size; at += 8) {
    uint64_t word = random();
    std::memcpy(body->data() + at, &word, sizeof word);
  }
  return body;
}
// Larger than what both kernels' buffers hold.
const Body& Large() {
  static const Body body = Noise(50u << 20);
  return body;
}

std::string Answer(const std::string& status, const std::string& body, const std::string& fields = {}) {
  return "HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

class HttpPostTest : public testing::HttpChannelTest {
 protected:
  // For answers that never end: with ever longer timeouts, since on a busy machine the time may be over
  // before the head is here.
  HttpReply PostUntilRefused(const Body& body) {
    HttpReply reply;
    for (Duration timeout = milliseconds(100); timeout < seconds(20); timeout *= 2) {
      reply = Post(body, timeout);
      if (reply.failure == HttpFailure::kStatus) break;
      EXPECT_EQ(reply.failure, HttpFailure::kTimeout) << reply.detail;
    }
    return reply;
  }
};

TEST_F(HttpPostTest, Any2xxIsSuccess) {
  std::vector<std::string> seen;
  ScriptedServer server([&](Peer& peer, int) {
    for (const char* answer :
         {"HTTP/1.1 200 OK\r\nContent-Type: a/json\r\nContent-Length: 2\r\n\r\nok",
          "HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
          "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 299\r\nContent-Length: 0\r\n\r\n"}) {
      std::string head = peer.Head();
      seen.push_back(head + peer.Body(head));
      peer.Write(answer);
    }
    peer.Linger();
  });
  Open(server.Url("/v1/metrics?x=1"));
  for (int status : {200, 202, 204, 299}) {
    HttpReply reply = Post(Text("hello"));
    EXPECT_EQ(reply.failure, HttpFailure::kNone) << reply.detail;
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.body, status <= 202 ? "ok" : "");
    EXPECT_EQ(reply.content_type, status == 200 ? "a/json" : "");
    EXPECT_EQ(reply.detail, "");
  }
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(seen[0], "POST /v1/metrics?x=1 HTTP/1.1\r\nHost: " + server.endpoint().ToString() +
                         "\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello");
}

TEST_F(HttpPostTest, ABodyMayBeEmptyOrMissing) {
  std::atomic<int> empty = 0;
  ScriptedServer server([&](Peer& peer, int) {
    for (std::string head; !(head = peer.Head()).empty(); peer.Write(Answer200("x"))) {
      if (head.find("\r\nContent-Length: 0\r\n\r\n") != std::string::npos) ++empty;
    }
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Text("")).body, "x");
  EXPECT_EQ(Post(nullptr).body, "x");
  EXPECT_EQ(empty, 2);
  EXPECT_EQ(server.connections(), 1);
}

// Reads everything and checks it.
ScriptedServer::Script Compare(const Body& wanted) {
  return [wanted](Peer& peer, int) {
    std::mt19937 random(7);
    for (std::string head; !(head = peer.Head()).empty();) {
      bool same = peer.Body(head, 1 + random() % 100'000) == *wanted;
      peer.Write(Answer200(same ? "same" : "different"));
    }
  };
}

TEST_F(HttpPostTest, LargeBodiesArriveAsTheyAre) {
  for (size_t size : {size_t{10} << 20, (size_t{1} << 20) + 1, size_t{16384}, size_t{16383}}) {
    Body body = Noise(size);
    ScriptedServer server(Compare(body));
    Open(server.Url("/"));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Post(body).body, "same") << size;
    EXPECT_EQ(server.connections(), 1);
  }
}

TEST_F(HttpPostTest, LargeBodiesArriveOverTls) {
  TlsFixture tls;
  auto trusting = tls.Client(tls.Trusting(tls.ca));
  for (size_t size : {size_t{10} << 20, (size_t{1} << 20) + 1, size_t{16384}, size_t{16000}}) {
    Body body = Noise(size);
    ScriptedServer server(Compare(body), tls.Server({"127.0.0.1"}));
    Open(server.Url("/"));
    for (int i = 0; i < 2; ++i) {
      HttpReply reply = Post(body, seconds(20), trusting);
      EXPECT_EQ(reply.body, "same") << size << reply.detail;
    }
    EXPECT_EQ(server.connections(), 1);
  }
}

TEST_F(HttpPostTest, LargeBodiesArriveOverAUnixSocket) {
  testing::TempFolder folder;
  Body body = Noise(10u << 20);
  ScriptedServer server(Compare(body), nullptr, "unix:" + folder.path() + "/s");
  Open("http://node/v1/logs", {}, folder.path() + "/s");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Post(body).body, "same");
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(HttpPostTest, RefusalHasABodyAndKeepsTheConnection) {
  ScriptedServer server([](Peer& peer, int) {
    for (const std::string& answer :
         {Answer("503 Busy", "later", "Retry-After: 120\r\nContent-Type: text/plain\r\n"),
          Answer("401 No", "who?"), Answer("302 Found", "", "Location: /services/SECRET/\r\n"),
          Answer("204 x", "")}) {
      peer.Body(peer.Head());
      peer.Write(answer);
    }
    peer.Linger();
  });
  Open(server.Url("/"));
  HttpReply reply = Post(Text("x"));
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_EQ(reply.detail, "answers 503 Service Unavailable");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "later");
  EXPECT_EQ(reply.content_type, "text/plain");
  EXPECT_EQ(reply.retry_after, "120");
  reply = Post(Text("x"));
  EXPECT_EQ(reply.failure, HttpFailure::kAuth);
  EXPECT_EQ(reply.body, "who?");
  EXPECT_EQ(reply.retry_after, "");
  reply = Post(Text("x"));
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_EQ(reply.detail, "answers 302, a redirect to another path, which is not followed");
  EXPECT_EQ(Post(Text("x")).failure, HttpFailure::kNone);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(HttpPostTest, GetHasRetryAfterToo) {
  ScriptedServer server([](Peer& peer, int) {
    peer.Head();
    peer.Write(Answer("429 Slow", "body", "Retry-After: 9\r\n"));
    peer.Linger();
  });
  Open(server.Url("/"));
  HttpReply reply = Get();
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_EQ(reply.retry_after, "9");
  EXPECT_EQ(reply.body, "");
  channel.reset();
}

TEST_F(HttpPostTest, AStatusCountsWhateverItsBodyDoes) {
  struct {
    const char* answer;
    std::string_view body;
  } const kCases[] = {
      {"HTTP/1.1 400 Bad\r\nContent-Length: 999999999\r\n\r\nabc", ""},
      {"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nfffffff\r\nabc", "abc"},
      {"HTTP/1.1 400 Bad\r\nContent-Length: 5\r\n\r\nabc", "abc"},
      {"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n?\r\n", "abc"},
      {"HTTP/1.0 400 Bad\r\n\r\nabc", "abc"},
  };
  ScriptedServer server([&](Peer& peer, int connection) {
    peer.Body(peer.Head());
    peer.Write(kCases[connection].answer);
  });
  Open(server.Url("/"), {.body_bytes = 1000});
  for (const auto& each : kCases) {
    HttpReply reply = Post(Text("x"));
    EXPECT_EQ(reply.failure, HttpFailure::kStatus) << each.answer << reply.detail;
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.detail, "answers 400 Bad Request");
    EXPECT_EQ(reply.body, each.body) << each.answer;
  }
  EXPECT_EQ(server.connections(), 5) << "none of these connections could be kept";
}

TEST_F(HttpPostTest, AStatusCountsWhenItsBodyNeverEnds) {
  std::atomic<bool> endless = false;
  ScriptedServer server([&](Peer& peer, int) {
    peer.Body(peer.Head());
    peer.Write("HTTP/1.1 400 Bad\r\n\r\nabc");
    if (!endless) return peer.Sit();
    while (endless && peer.Write(std::string(10'000, 'x'))) {
    }
  });
  Open(server.Url("/"), {.body_bytes = 1u << 20});
  HttpReply reply = PostUntilRefused(Text("x"));
  EXPECT_EQ(reply.body, "abc");
  endless = true;
  reply = Post(Text("x"));
  EXPECT_EQ(reply.failure, HttpFailure::kStatus);
  EXPECT_LE(reply.body.size(), 1u << 20);
  endless = false;
}

TEST_F(HttpPostTest, AnUnreadableSuccessIsAFailure) {
  ScriptedServer server([](Peer& peer, int connection) {
    peer.Body(peer.Head());
    if (connection == 0) peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
    if (connection == 1) peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    if (connection == 2) peer.Write("220 mail.example ESMTP\r\n");
    if (connection == 3) peer.Write("HTTP/1.1 400 Bad\r\nA: " + std::string(99'999, 'x'));
  });
  Open(server.Url("/"), {.body_bytes = 1000});
  for (HttpFailure wanted : {HttpFailure::kTooLarge, HttpFailure::kProtocol, HttpFailure::kProtocol,
                             HttpFailure::kTooLarge, HttpFailure::kProtocol}) {
    HttpReply reply = Post(Text("x"));
    EXPECT_EQ(reply.failure, wanted) << reply.detail;
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.body, "");
  }
}

// A server that refuses a body before its end, and hangs up at once: the kernel answers the rest with a
// reset.
ScriptedServer::Script RefuseAfter(std::vector<size_t> bytes) {
  return [bytes](Peer& peer, int connection) {
    peer.Head();
    peer.Some(bytes[static_cast<size_t>(connection) % bytes.size()]);
    peer.Write(Answer("413 Large", "too much", "Connection: close\r\n"));
  };
}

TEST_F(HttpPostTest, ReadsAnEarlyRefusal) {
  ScriptedServer server(RefuseAfter({0, 1, 100'000, 1u << 20, 20u << 20}));
  Open(server.Url("/"));
  for (int i = 0; i < 25; ++i) {
    HttpReply reply = Post(Large());
    EXPECT_EQ(reply.status, 413) << HttpFailureName(reply.failure) << ": " << reply.detail;
    EXPECT_EQ(reply.body, "too much");
  }
  EXPECT_EQ(server.connections(), 25);
}

TEST_F(HttpPostTest, ReadsAnEarlyRefusalOverAUnixSocket) {
  testing::TempFolder folder;
  ScriptedServer server(RefuseAfter({0, 1, 100'000, 1u << 20, 20u << 20}), nullptr,
                        "unix:" + folder.path() + "/s");
  Open("http://node/", {}, folder.path() + "/s");
  for (int i = 0; i < 25; ++i) {
    HttpReply reply = Post(Large());
    EXPECT_EQ(reply.status, 413) << HttpFailureName(reply.failure) << ": " << reply.detail;
  }
}

TEST_F(HttpPostTest, ReadsAnEarlyRefusalOverTls) {
  TlsFixture tls;
  auto trusting = tls.Client(tls.Trusting(tls.ca));
  ScriptedServer server(
      [](Peer& peer, int) {
        peer.Head();
        peer.Some(1u << 20);
        peer.Write(Answer("429 Slow", "slower", "Retry-After: 3\r\n"));
        peer.Linger();
      },
      tls.Server({"127.0.0.1"}));
  Open(server.Url("/"));
  for (int i = 0; i < 3; ++i) {
    HttpReply reply = Post(Large(), seconds(20), trusting);
    EXPECT_EQ(reply.status, 429) << HttpFailureName(reply.failure) << ": " << reply.detail;
    EXPECT_EQ(reply.retry_after, "3");
  }
  EXPECT_EQ(server.connections(), 3) << "half a request lies on each";
}

TEST_F(HttpPostTest, ReadsARefusalThatArrivesWithAReset) {
  // The loop is held until both are there, so that the client meets them in one turn.
  TlsFixture tls;
  auto trusting = tls.Client(tls.Trusting(tls.ca));
  testing::TempFolder folder;
  for (std::string way : {"http", "https", "unix"}) {
    std::atomic<bool> begun = false, go = false;
    ScriptedServer server(
        [&](Peer& peer, int) {
          peer.Head();
          begun = true;
          EXPECT_TRUE(Eventually([&] { return go.load(); }));
          peer.Write(Answer("413 Large", "too much"));
        },
        way == "https" ? tls.Server({"127.0.0.1"}) : nullptr,
        way == "unix" ? "unix:" + folder.path() + "/s" : "127.0.0.1:0");
    if (way == "unix") Open("http://node/", {}, folder.path() + "/s");
    else Open(server.Url("/"));
    HttpReply reply;
    std::atomic<bool> over = false;
    loop.Call([&] {
      channel->Post({"", Large(), way == "https" ? trusting : nullptr, seconds(20), {}}, [&](HttpReply& got) {
        reply = std::move(got);
        over = true;
      });
    });
    EXPECT_TRUE(Eventually([&] { return begun.load(); }));
    loop.Call([&] {
      go = true;
      EXPECT_TRUE(Eventually([&] { return server.closed() == 1; }));
    });
    EXPECT_TRUE(Eventually([&] { return over.load(); }));
    EXPECT_EQ(reply.status, 413) << way << ": " << reply.detail;
    EXPECT_EQ(reply.body, "too much");
    channel.reset();
  }
}

TEST_F(HttpPostTest, StopsSendingARefusedRequest) {
  std::atomic<size_t> bytes = 0;
  ScriptedServer server([&](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nab");
    // A slow reader, so that the client meets the refusal before its end.
    for (size_t step = 1; step <= 64; ++step) peer.Some(step << 10);
    bytes = peer.Linger();
  });
  Open(server.Url("/"));
  HttpReply reply = PostUntilRefused(Large());
  EXPECT_EQ(reply.failure, HttpFailure::kStatus) << reply.detail;
  EXPECT_EQ(reply.body, "ab") << "the third byte never comes";
  EXPECT_TRUE(Eventually([&] { return server.closed() == server.connections(); }));
  EXPECT_LT(bytes, Large()->size());
}

TEST_F(HttpPostTest, ReadsARefusalOfAServerThatReadsNothing) {
  std::string why(5u << 20, 'w');
  ScriptedServer server([&](Peer& peer, int) {
    peer.Head();
    peer.Write(Answer("400 Bad", why));
    peer.Sit();
  });
  Open(server.Url("/"));
  HttpReply reply = Post(Large());
  EXPECT_EQ(reply.failure, HttpFailure::kStatus) << reply.detail;
  EXPECT_EQ(reply.body.size(), why.size());
}

TEST_F(HttpPostTest, BothSidesMayTalkAtOnce) {
  // The server reads on only when all of its answer has been taken, so neither side may wait for the other.
  TlsFixture tls;
  auto trusting = tls.Client(tls.Trusting(tls.ca));
  for (bool secret : {false, true}) {
    ScriptedServer server(
        [](Peer& peer, int) {
          std::string head = peer.Head(), answer = Answer200(std::string(20u << 20, 'a'));
          peer.Write(answer.substr(0, answer.size() - 1));
          bool same = peer.Body(head) == *Large();
          peer.Write(same ? "z" : "?");
          if (peer.Body(peer.Head()) == "x") peer.Write(Answer("202 x", ""));
          peer.Linger();
        },
        secret ? tls.Server({"127.0.0.1"}) : nullptr);
    Open(server.Url("/"));
    HttpReply reply = Post(Large(), seconds(60), secret ? trusting : nullptr);
    EXPECT_EQ(reply.status, 200) << reply.detail;
    ASSERT_EQ(reply.body.size(), 20u << 20);
    EXPECT_EQ(reply.body.back(), 'z');
    EXPECT_EQ(Post(Text("x"), seconds(20), secret ? trusting : nullptr).status, 202);
    EXPECT_EQ(server.connections(), 1);
    channel.reset();
  }
}

TEST_F(HttpPostTest, AnInterimAnswerIsNoReasonToStop) {
  ScriptedServer server([](Peer& peer, int) {
    std::string head = peer.Head();
    peer.Write("HTTP/1.1 100 Continue\r\n\r\n");
    peer.Write(Answer200(peer.Body(head) == *Large() ? "same" : "different"));
    peer.Linger();
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Large()).body, "same");
}

TEST_F(HttpPostTest, AnAnswerBeforeTheEndIsTheAnswer) {
  ScriptedServer server([](Peer& peer, int connection) {
    std::string head = peer.Head();
    peer.Write(Answer200(std::to_string(connection)));
    peer.Linger();
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Large()).body, "0");
  EXPECT_EQ(Post(Text("x")).body, "1") << "no request begins inside another one";
}

TEST_F(HttpPostTest, AServerThatHangsUpInTheMiddleIsAFailure) {
  ScriptedServer server([](Peer& peer, int connection) {
    peer.Head();
    peer.Some(100'000);
    if (connection % 3 == 1) peer.CloseWithReset();
    if (connection % 3 == 2) peer.Write("HTTP/1.1 4");
  });
  Open(server.Url("/"));
  for (int i = 0; i < 9; ++i) {
    HttpReply reply = Post(Large());
    EXPECT_EQ(reply.failure, HttpFailure::kProtocol) << reply.detail;
    EXPECT_FALSE(reply.detail.empty());
  }
  EXPECT_EQ(server.connections(), 9) << "a fresh connection is not tried twice";
}

TEST_F(HttpPostTest, AKeptConnectionThatHasEndedIsReplaced) {
  std::atomic<int> whole = 0;
  ScriptedServer server([&](Peer& peer, int connection) {
    std::string head = peer.Head();
    if (peer.Body(head) == *Large()) ++whole;
    // Also with an unrequested response, as of servers after a timeout.
    std::string last = connection % 2 == 1 ? Answer("408 Timeout", "") : "";
    peer.Write(Answer200("x"));
    peer.Write(last);
  });
  Open(server.Url("/"));
  for (int i = 1; i <= 6; ++i) {
    HttpReply reply = Post(Large());
    EXPECT_EQ(reply.status, 200) << reply.detail;
    EXPECT_TRUE(Eventually([&] { return server.closed() == i; }));
  }
  EXPECT_EQ(whole, 6);
  EXPECT_EQ(server.connections(), 6);
}

TEST_F(HttpPostTest, BytesBeforeTheRequestAreNoResponse) {
  std::atomic<bool> go = false;
  ScriptedServer server([&](Peer& peer, int connection) {
    peer.Body(peer.Head());
    peer.Write(Answer200(std::to_string(connection)));
    EXPECT_TRUE(Eventually([&] { return go.load(); }));
    peer.Write(Answer("408 Timeout", ""));
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Text("x")).body, "0");
  HttpReply reply = Wait([&](HttpChannel::Done done) {
    // On the loop, which so learns of the end and of the new request at once.
    go = true;
    EXPECT_TRUE(Eventually([&] { return server.closed() == 1; }));
    channel->Post({"", Text("y"), nullptr, seconds(20), {}}, std::move(done));
  });
  EXPECT_EQ(reply.body, "1") << reply.detail;
}

TEST_F(HttpPostTest, AKeptConnectionThatDiesAtTheRequestIsReplacedOnce) {
  std::atomic<int> heads = 0;
  ScriptedServer server([&](Peer& peer, int connection) {
    for (int exchange = 0;; ++exchange) {
      std::string head = peer.Head();
      if (head.empty()) return;
      ++heads;
      peer.Body(head);
      if (connection == 0 && exchange == 1) return peer.CloseWithReset();
      if (connection == 1 && exchange == 1) {
        peer.Write("HTTP/1.1");
        return;
      }
      peer.Write(Answer200(std::to_string(connection)));
    }
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Text("a")).body, "0");
  EXPECT_EQ(Post(Text("b")).body, "1") << "reset without a byte: sent again";
  EXPECT_EQ(heads, 3) << "so it reached the server twice";
  HttpReply reply = Post(Text("c"));
  EXPECT_EQ(reply.failure, HttpFailure::kProtocol) << "a byte has come: not sent again";
  EXPECT_THAT(reply.detail, HasSubstr("truncated in its header"));
  EXPECT_EQ(heads, 4);
}

TEST_F(HttpPostTest, TheDeadlineHoldsWhateverTheServerDoes) {
  ScriptedServer server([&](Peer& peer, int connection) {
    if (connection == 0) return peer.Sit();
    std::string head = peer.Head();
    peer.Body(head);
    if (connection == 2) peer.Write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    peer.Sit();
  });
  Open(server.Url("/"));
  Body body = Noise(50u << 20);
  HttpReply reply = Post(body, milliseconds(300));
  EXPECT_EQ(reply.failure, HttpFailure::kTimeout);
  EXPECT_THAT(reply.detail, AnyOf(StartsWith("only "), StartsWith("no connection")));
  EXPECT_EQ(body.use_count(), 1) << "nothing holds the body any more";
  EXPECT_EQ(Post(Text("x"), milliseconds(300)).failure, HttpFailure::kTimeout);
  EXPECT_EQ(Post(Text("x"), milliseconds(300)).failure, HttpFailure::kTimeout);
  EXPECT_EQ(Post(Text("x"), milliseconds(0)).failure, HttpFailure::kTimeout);
}

TEST_F(HttpPostTest, AChannelMayEndInTheMiddle) {
  std::atomic<int> begun = 0;
  ScriptedServer server([&](Peer& peer, int) {
    peer.Head();
    ++begun;
    peer.Sit();
  });
  std::atomic<bool> called = false;
  for (bool on_loop : {true, false}) {
    Open(server.Url("/"));
    Body body = Noise(50u << 20);
    int before = begun;
    loop.Call(
        [&] { channel->Post({"", body, nullptr, seconds(60), {}}, [&](HttpReply&) { called = true; }); });
    EXPECT_TRUE(Eventually([&] { return begun > before; }));
    if (on_loop) loop.Call([&] { channel.reset(); });
    else channel.reset();
    loop.Call([] {});
    EXPECT_EQ(body.use_count(), 1);
  }
  EXPECT_FALSE(called);
}

TEST_F(HttpPostTest, DoneHasTheBodyBackAndMayPostAgainOrDestroy) {
  ScriptedServer server([](Peer& peer, int) {
    for (std::string head; !(head = peer.Head()).empty();) peer.Write(Answer200(peer.Body(head)));
  });
  auto body = std::make_shared<std::string>("one");
  std::string seen;
  std::atomic<bool> over = false;
  Open(server.Url("/"));
  loop.Call([&] {
    channel->Post({"", body, nullptr, seconds(20), {}}, [&](HttpReply& first) {
      seen = first.body;
      EXPECT_EQ(body.use_count(), 1);
      *body = "two";
      channel->Post({"", body, nullptr, seconds(20), {}}, [&](HttpReply& second) {
        seen += second.body;
        channel.reset();
        over = true;
      });
    });
  });
  EXPECT_TRUE(Eventually([&] { return over.load(); }));
  EXPECT_EQ(seen, "onetwo");
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(HttpPostTest, AGetAfterAPostIsAGet) {
  std::vector<std::string> heads;
  ScriptedServer server([&](Peer& peer, int) {
    for (std::string head; !(head = peer.Head()).empty(); peer.Write(Answer200("x"))) {
      peer.Body(head);
      heads.push_back(head);
    }
  });
  Open(server.Url("/"));
  EXPECT_EQ(Post(Text("hello")).body, "x");
  EXPECT_EQ(Get().body, "x");
  EXPECT_EQ(Post(Text("y")).body, "x");
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(heads[1], "GET / HTTP/1.1\r\nHost: " + server.endpoint().ToString() + "\r\nA: b\r\n\r\n");
}

TEST_F(HttpPostTest, ACertificateThatIsMissingIsAFailureOfTls) {
  TlsFixture tls;
  ScriptedServer server([](Peer& peer, int) { peer.Linger(); }, tls.Server({"127.0.0.1"}, true));
  Open(server.Url("/"));
  auto without = tls.Client(tls.Trusting(tls.ca));
  EXPECT_EQ(Post(Text("x"), seconds(20), without).failure, HttpFailure::kTls);
  EXPECT_EQ(Post(Text("x"), seconds(20), tls.Client(tls.Trusting(tls.other))).failure, HttpFailure::kTls);
  EXPECT_EQ(Post(Text("x"), seconds(20), nullptr).failure, HttpFailure::kTls);
}

// Post after post on the loop's thread, each from the end of the one before.
struct Steady {
  HttpChannel& channel;
  Body body;
  std::string headers = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n", buffer = {};
  int left = 50;
  uint64_t start = 0;
  int good = 0;
  std::atomic<bool> over = false;
  uint64_t allocations = 0;

  void Next() {
    channel.Post({headers, body, nullptr, seconds(20), std::move(buffer)}, [this](HttpReply& reply) {
      good += reply.status == 204 || reply.body == "busy";
      buffer = std::move(reply.body);
      if (left == 40) start = ThreadAllocations();
      if (left-- > 0) return Next();
      allocations = ThreadAllocations() - start;
      over = true;
    });
  }
};

TEST_F(HttpPostTest, SteadyPostsAllocateNothing) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted in this build";
  for (bool busy : {false, true}) {
    ScriptedServer server([&](Peer& peer, int) {
      for (std::string head; !(head = peer.Head()).empty();) {
        peer.Body(head);
        peer.Write(busy ? Answer("503 x", "busy", "Retry-After: 5\r\n") : "HTTP/1.1 204 x\r\n\r\n");
      }
    });
    Open(server.Url("/api/v1/write"));
    Steady steady{.channel = *channel, .body = Noise(100'000)};
    loop.Call([&] { steady.Next(); });
    EXPECT_TRUE(Eventually([&] { return steady.over.load(); }));
    EXPECT_EQ(steady.good, 51);
    EXPECT_EQ(server.connections(), 1);
    // Forty posts; a refusal is put into words.
    EXPECT_LE(steady.allocations, busy ? 100u : 0u);
    loop.Call([&] { channel.reset(); });
  }
}

}  // namespace
}  // namespace gpulens
