// What a policy can do with a request and its answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "net/relay/relay_fixture.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using testing::Answer;
using testing::Answer200;
using testing::ChunkedBody;
using ::testing::ElementsAre;
using testing::Eventually;
using testing::Get;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Post;
using testing::ReadChunks;
using testing::RelayRecord;
using testing::ScriptedServer;
using testing::TestClient;
using Turn = ScriptedServer::Turn;
using Peer = ScriptedServer::Peer;

class RelayPolicyTest : public testing::RelayTest {
 protected:
  // An upstream that answers every request with `answer`.
  std::unique_ptr<ScriptedServer> Saying(std::string answer) {
    return std::make_unique<ScriptedServer>(
        [answer = std::move(answer)](int, int, const std::string&) { return Turn{.answer = answer}; });
  }
  static constexpr const char* kEvents =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\nE\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
  // Settles after the answer's last event, as a meter does: everything passes but that.
  void HoldTheLastEvent() {
    policy.inspect = true;
    policy.on_body = [this](std::string_view piece, RelayOutput& output, RelayHandle handle) {
      held_ = handle;
      const size_t done = piece.find("data: [DONE]");
      output.Pass(piece.substr(0, done));
      if (done == std::string_view::npos) return;
      last_ = piece.substr(done);
      output.Hold();
    };
    policy.on_resume = [this](RelayOutput& output) { output.Pass(last_); };
  }
  void Release() {
    loop.Call([this] { std::exchange(held_, RelayHandle()).Resume(); });
  }
  void TearDown() override {
    loop.Call([this] { held_ = RelayHandle(); });
    RelayTest::TearDown();
  }

  RelayHandle held_;
  std::string last_;
};

TEST_F(RelayPolicyTest, AnswersItself) {
  policy.on_begin = [](const RelayRequest& request, RelayHandle handle) {
    if (request.head.HasHeader("Authorization")) return;
    handle.Answer(HttpResponse::Text(401, "Who are you?"));
  };
  policy.on_request = [](const RelayRequest& request, RelayHandle handle) {
    HttpResponse response;
    response.body = SharedBytes(std::string(request.body) + " from " + request.peer.Host());
    handle.Answer(std::move(response));
  };
  Serve(RelayOptions{});
  TestClient client(at);
  client.Send(Get("/") + Get("/", "Authorization: x\r\n"));
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_EQ(client.Read().body, " from 127.0.0.1");
  client.Send(Post("body", "Authorization: x\r\n") +
              "HEAD / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n");
  EXPECT_EQ(client.Read().body, "body from 127.0.0.1");
  EXPECT_EQ(client.Read(true).Header("Content-Length"), "15");
  // The body of one who is refused is not read.
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n" + std::string(3'000'000, 'x'));
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.Header("Connection"), "close");
  const auto ended = Ended(5);
  for (const RelayRecord& record : ended) EXPECT_EQ(record.outcome.end, RelayEnd::kAnswered);
  EXPECT_EQ(ended[0].outcome.status, 401);
}

TEST_F(RelayPolicyTest, AnswersLater) {
  std::vector<RelayHandle> waiting;
  policy.on_request = [&](const RelayRequest&, RelayHandle handle) { waiting.push_back(handle); };
  Serve(RelayOptions{});
  TestClient client(at);
  client.Send(Get("/1") + Get("/2"));
  for (const char* text : {"one", "two"}) {
    EXPECT_TRUE(Eventually([&] {
      size_t count = 0;
      loop.Call([&] { count = waiting.size(); });
      return count == 1;
    }));
    loop.Call([&] {
      RelayHandle handle = waiting[0];
      waiting.clear();  // the next request comes inside of Answer
      handle.Answer(HttpResponse::Text(200, text));
      handle.Answer(HttpResponse::Text(200, "again"));
    });
    EXPECT_EQ(client.Read().body, std::string(text) + "\n");
  }
}

TEST_F(RelayPolicyTest, ChangesTheRequest) {
  auto upstream = Saying(Answer200("x"));
  std::string part = ",\"stream_options\":{}";
  std::vector<std::string_view> pieces;
  policy.on_request = [&](const RelayRequest& request, RelayHandle handle) {
    static constexpr std::string_view kDrop[] = {"authorization", "accept-encoding"};
    pieces = {request.body.substr(0, request.body.size() - 1), part, "}"};
    RelayForward forward;
    forward.upstream = policy.upstream;
    forward.target = "/other?x=y";
    forward.drop = kDrop;
    forward.fields = "Authorization: Bearer ours\r\nAccept-Encoding: identity\r\n";
    forward.body = &pieces;
    handle.Forward(forward);
  };
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(
      "POST /v1 HTTP/1.1\r\nHost: a\r\nAUTHORIZATION: theirs\r\nAccept-Encoding: gzip\r\nA: "
      "b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "7\r\n{\"a\":1}\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "x");
  EXPECT_EQ(
      upstream->requests()[0],
      "POST /other?x=y HTTP/1.1\r\nHost: " + upstream->endpoint().ToString() +
          "\r\nA: b\r\nContent-Length: 27\r\nAuthorization: Bearer ours\r\nAccept-Encoding: identity\r\n\r\n"
          "{\"a\":1,\"stream_options\":{}}");
}

TEST_F(RelayPolicyTest, ChangesTheHeadOfTheAnswer) {
  auto upstream = Saying("HTTP/1.1 200 OK\r\nX-RateLimit: 5\r\nA: b\r\nContent-Length: 1\r\n\r\nx");
  policy.on_head = [](const RelayHead& head, RelayPass& pass, RelayHandle) {
    static constexpr std::string_view kDrop[] = {"x-ratelimit"};
    EXPECT_EQ(head.Header("X-RateLimit"), "5");
    pass.drop = kDrop;
    pass.fields = "X-Accel-Buffering: no\r\n";
  };
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read().head, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 1\r\nX-Accel-Buffering: no\r\n");
}

TEST_F(RelayPolicyTest, TakesBytesOutOfAnAnswer) {
  auto upstream = Saying("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nkeep-drop");
  policy.inspect = true;
  policy.on_body = [](std::string_view piece, RelayOutput& output, RelayHandle) {
    output.Pass(piece.substr(0, piece.find("-drop")));
  };
  policy.on_body_end = [](RelayOutput& output, RelayHandle) { output.Pass(" and more"); };
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/") + "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n");
  EXPECT_EQ(ReadChunks(client).payload, "keep and more");
  EXPECT_EQ(client.Read(true).head, "HTTP/1.1 200 OK\r\nConnection: close\r\n");
  EXPECT_EQ(client.ReadAll(), "keep and more");
  EXPECT_EQ(Ended(1)[0].outcome.passed, 13u);
  EXPECT_EQ(Ended(1)[0].outcome.received, 9u);
}

TEST_F(RelayPolicyTest, KeepsTheLengthThatItPromises) {
  auto upstream = Saying("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd");
  policy.inspect = policy.same_length = true;
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  EXPECT_EQ(client.Read().body, "abcd");
  policy.on_body = [](std::string_view piece, RelayOutput& output, RelayHandle) {
    output.Pass(piece.substr(1));
  };
  client.Send(Get("/"));
  EXPECT_EQ(client.Read().status, 0);  // cut rather than too short
  EXPECT_EQ(Ended(2)[1].outcome.end, RelayEnd::kAborted);
}

TEST_F(RelayPolicyTest, HoldsTheLastEventUntilItIsSettled) {
  auto upstream = Saying(kEvents);
  HoldTheLastEvent();
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  client.Read(true);
  EXPECT_EQ(client.ReadBytes(24), "12\r\ndata: a\n\ndata: b\n\n\r\n");
  EXPECT_THAT(policy.ended(), IsEmpty());
  EXPECT_EQ(Idle(), 1u);  // the upstream is done
  Release();
  const std::string rest = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
  EXPECT_EQ(client.ReadBytes(rest.size()), rest);
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kComplete);
  client.Send(Get("/"));
  client.Read(true);
  client.ReadBytes(24);
  Release();
  EXPECT_EQ(client.ReadBytes(rest.size()), rest);
}

TEST_F(RelayPolicyTest, WritesTheBeginOfAHeldAnswerTogetherWithItsRest) {
  auto upstream = Saying(Answer200("begin and data: [DONE]"));
  HoldTheLastEvent();
  policy.same_length = true;
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  const auto held = [this] {
    bool is = false;
    loop.Call([&] { is = !last_.empty(); });
    return is;
  };
  ASSERT_TRUE(Eventually(held));
  char byte;
  EXPECT_EQ(::recv(client.fd(), &byte, 1, MSG_DONTWAIT), -1);
  Release();
  EXPECT_EQ(client.Read().body, "begin and data: [DONE]");
  // What was held passes when the answer is ended before its end.
  last_.clear();
  client.Send(Get("/"));
  ASSERT_TRUE(Eventually(held));
  loop.Call([this] { std::exchange(held_, RelayHandle()).Abort(); });
  const std::string rest = client.ReadAll();
  EXPECT_THAT(rest, HasSubstr("begin and "));
  EXPECT_THAT(rest, Not(HasSubstr("DONE")));
}

TEST_F(RelayPolicyTest, HoldsTheEndOfAnAnswerThatIsWrittenFirst) {
  auto upstream = Saying(kEvents);
  policy.on_body_end = [this](RelayOutput& output, RelayHandle handle) {
    held_ = handle;
    output.Hold();
  };
  Serve(upstream->Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  client.Read(true);
  EXPECT_EQ(client.ReadBytes(38), "20\r\ndata: a\n\ndata: b\n\ndata: [DONE]\n\n\r\n");
  EXPECT_THAT(policy.ended(), IsEmpty());
  Release();
  EXPECT_EQ(client.ReadBytes(5), "0\r\n\r\n");
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kComplete);
}

TEST_F(RelayPolicyTest, ReadsNothingWhileItHolds) {
  std::atomic<size_t> written{0};
  ScriptedServer upstream([&](Peer& peer, int) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\n\r\n");
    while (written < 30'000'000 && peer.Write(std::string(100'000, 'x'))) written += 100'000;
  });
  policy.inspect = true;
  bool first = true;
  policy.on_body = [&](std::string_view piece, RelayOutput& output, RelayHandle handle) {
    output.Pass(piece);
    held_ = handle;
    if (std::exchange(first, false)) output.Hold();
  };
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  client.Read(true);
  size_t before = 1;
  EXPECT_TRUE(Eventually([&] {
    const bool same = before == written && written > 0;
    before = written;
    testing::ShortPause();
    testing::ShortPause();
    return same;
  }));
  EXPECT_LT(written, 20'000'000u);
  Release();
  EXPECT_EQ(ReadChunks(client).payload.size(), 30'000'000u);
}

TEST_F(RelayPolicyTest, EndsAHeldAnswerWhenTheClientGoes) {
  auto upstream = Saying(kEvents);
  HoldTheLastEvent();
  Serve(upstream->Url(""));
  {
    TestClient client(at);
    client.Send(Get("/"));
    client.Read(true);
    client.ReadBytes(24);
  }
  const RelayRecord record = Ended(1)[0];
  EXPECT_EQ(record.outcome.end, RelayEnd::kClientGone);
  EXPECT_TRUE(record.outcome.answer_whole);
  Release();  // does nothing
}

TEST_F(RelayPolicyTest, ResumesFromInsideACallback) {
  auto upstream = Saying(kEvents);
  policy.inspect = true;
  policy.on_body = [](std::string_view piece, RelayOutput& output, RelayHandle handle) {
    output.Pass(piece);
    output.Hold();
    handle.Resume();
  };
  policy.on_body_end = [](RelayOutput& output, RelayHandle handle) {
    output.Hold();
    handle.Resume();
  };
  Serve(upstream->Url(""));
  TestClient client(at);
  for (int i = 0; i < 3; ++i) {
    client.Send(Get("/"));
    client.Read(true);
    const ChunkedBody body = ReadChunks(client);
    EXPECT_TRUE(body.whole);
    EXPECT_EQ(body.payload, "data: a\n\ndata: b\n\ndata: [DONE]\n\n");
  }
}

TEST_F(RelayPolicyTest, RetriesElsewhereBeforeAnythingWasSent) {
  auto busy = Saying("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
  auto good = Saying(Answer200("good"));
  Ref<UpstreamPool> other = Pool(good->Url(""));
  policy.on_head = [&](const RelayHead& head, RelayPass&, RelayHandle handle) {
    if (head.status() != 503) return;
    RelayForward forward;
    forward.upstream = other;
    forward.target = "/second";
    handle.Forward(forward);
  };
  Serve(busy->Url(""));
  TestClient client(at);
  for (int i = 0; i < 3; ++i) {
    client.Send(Post("body"));
    EXPECT_EQ(client.Read().body, "good");
  }
  EXPECT_THAT(good->requests()[0], HasSubstr("POST /second"));
  EXPECT_THAT(good->requests()[0], HasSubstr("\r\n\r\nbody"));
  EXPECT_EQ(Ended(3)[0].outcome.end, RelayEnd::kComplete);
  EXPECT_EQ(Ended(3)[0].outcome.received, 4u);
  EXPECT_EQ(server->stats().streams, 0u);
  loop.Call([&] { other = nullptr; });
}

TEST_F(RelayPolicyTest, AnswersInsteadOfTheUpstream) {
  auto upstream = Saying("HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nsecret");
  policy.on_head = [](const RelayHead&, RelayPass&, RelayHandle handle) {
    handle.Answer(HttpResponse::Text(502, "sorry"));
  };
  Serve(upstream->Url(""));
  TestClient client(at);
  for (int i = 0; i < 2; ++i) {
    client.Send(Get("/"));
    EXPECT_EQ(client.Read().body, "sorry\n");
  }
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kAnswered);
  EXPECT_EQ(Open(), 0u);  // its answer was not read
}

TEST_F(RelayPolicyTest, FailsOverAndGivesUp) {
  auto good = Saying(Answer200("good"));
  Ref<UpstreamPool> other = Pool(good->Url(""));
  ScriptedServer closed([](Peer&, int) {});
  const std::string url = closed.Url("");
  int failures = 0;
  policy.on_failed = [&](const RelayAttempt& attempt, RelayHandle handle) {
    ++failures;
    EXPECT_EQ(attempt.failure, RelayFailure::kClosed);
    RelayForward forward;
    forward.upstream = failures < 2 ? other : policy.upstream;
    handle.Forward(forward);
  };
  Serve(url, {.circuit = {.failures = 0}});
  TestClient client(at);
  client.Send(Post("x"));
  EXPECT_EQ(client.Read().body, "good");
  client.Send(Post("x"));  // would go on for ever
  EXPECT_EQ(client.Read().status, 502);
  EXPECT_LT(failures, 20);
  const RelayRecord record = Ended(2)[1];
  EXPECT_EQ(record.outcome.end, RelayEnd::kUpstreamFailed);
  EXPECT_EQ(record.outcome.failure, RelayFailure::kClosed);
  loop.Call([&] { other = nullptr; });
}

TEST_F(RelayPolicyTest, AbortsAndAddsAnErrorToACutStream) {
  ScriptedServer upstream([](Peer& peer, int number) {
    peer.Head();
    peer.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n");
    if (number == 0) peer.Linger();
  });
  policy.on_cut = [](const RelayAttempt& attempt, RelayOutput& output) {
    EXPECT_EQ(attempt.failure, RelayFailure::kCut);
    output.Pass("error");
  };
  policy.on_body = [this](std::string_view, RelayOutput&, RelayHandle handle) { held_ = handle; };
  Serve(upstream.Url(""));
  TestClient client(at);
  client.Send(Get("/"));
  client.Read(true);
  EXPECT_EQ(client.ReadBytes(10), "5\r\nevent\r\n");
  loop.Call([this] { std::exchange(held_, RelayHandle()).Abort(); });
  EXPECT_FALSE(ReadChunks(client).whole);
  EXPECT_EQ(Ended(1)[0].outcome.end, RelayEnd::kAborted);
  EXPECT_TRUE(Eventually([&] { return upstream.closed() == 1; }));
  TestClient second(at);
  second.Send(Get("/"));
  second.Read(true);
  const ChunkedBody body = ReadChunks(second);
  EXPECT_FALSE(body.whole);
  EXPECT_EQ(body.payload, "eventerror");
  const RelayRecord record = Ended(2)[1];
  EXPECT_EQ(record.outcome.end, RelayEnd::kUpstreamFailed);
  EXPECT_EQ(record.outcome.failure, RelayFailure::kCut);
  EXPECT_EQ(record.outcome.received, 5u);
}

}  // namespace
}  // namespace gpulens
