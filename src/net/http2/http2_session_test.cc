#include "net/http2/http2_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http2/http2_frames_testing.h"

namespace gpulens {
namespace {

using namespace testing;
using namespace ::testing;
using std::chrono::seconds;

constexpr uint32_t kCalm = static_cast<uint32_t>(Http2Error::kEnhanceYourCalm);

// Logs its calls; answers every complete request with its own body when it `echoes`.
struct Reported final : Http2Handler {
  void OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) override {
    log.push_back("fields " + std::to_string(stream) + (ended ? " end" : "") +
                  (too_large ? " too large" : ""));
    last = fields;
    if (ended) Finish(stream);
  }
  void OnData(int32_t stream, std::string_view bytes) override { bodies[stream] += bytes; }
  void OnEnd(int32_t stream) override {
    log.push_back("end " + std::to_string(stream));
    Finish(stream);
  }
  void OnClosed(int32_t stream, uint32_t error) override {
    log.push_back("closed " + std::to_string(stream) + " " + std::to_string(error));
  }
  void OnGoaway(uint32_t error) override { log.push_back("goaway " + std::to_string(error)); }
  void Finish(int32_t stream) {
    if (!echoes) return;
    Http2Fields fields;
    fields.Add(":status", "200");
    Http2Body body;
    body.rest = std::make_shared<const std::string>(bodies[stream]);
    body.trailers.Add("grpc-status", "0");
    echoes->Answer(stream, fields, std::move(body));
  }

  Http2Session* echoes = nullptr;
  std::vector<std::string> log;
  std::map<int32_t, std::string> bodies;
  Http2Fields last;
};

std::string Drained(Http2Session& session) {
  std::string all;
  for (std::string_view part = session.Output(); !part.empty(); part = session.Output()) {
    all += part;
    session.Sent(part.size());
  }
  return all;
}

// Exchanges the output of both sides.
void Talk(Http2Session& a, Http2Session& b) {
  for (int i = 0; i < 10'000; ++i) {
    const std::string there = Drained(a);
    ASSERT_TRUE(there.empty() || b.Feed(there, {})) << b.why();
    const std::string back = Drained(b);
    ASSERT_TRUE(back.empty() || a.Feed(back, {})) << a.why();
    if (there.empty() && back.empty()) return;
  }
  FAIL() << "no end";
}

Http2Fields Post() {
  Http2Fields fields;
  fields.Add(":method", "POST");
  fields.Add(":scheme", "http");
  fields.Add(":path", "/x");
  fields.Add(":authority", "localhost");
  return fields;
}

Http2Body BodyOf(std::string text) {
  Http2Body body;
  body.head = "12345";
  body.rest = std::make_shared<const std::string>(std::move(text));
  return body;
}

struct Server {
  explicit Server(Http2Limits limits = {}) : session(Http2Session::Side::kServer, limits, handler) {}
  // What it answers to one piece, or nothing when it ends the session.
  std::vector<SeenFrame> Output() {
    sent += Drained(session);
    return TakeFrames(sent);
  }
  Reported handler;
  Http2Session session;
  std::string sent;
};

TEST(Http2Session, BodiesAndTrailersGoBothWays) {
  Reported ours, theirs;
  Http2Session client(Http2Session::Side::kClient, {}, ours), server(Http2Session::Side::kServer, {}, theirs);
  theirs.echoes = &server;
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(client.Request(Post(), BodyOf("small")), 1);
  EXPECT_EQ(client.Request(Post(), BodyOf(large)), 3);
  Talk(client, server);
  EXPECT_EQ(ours.bodies[1], "12345small");
  EXPECT_EQ(ours.bodies[3], "12345" + large);
  EXPECT_EQ(ours.last.Find("grpc-status"), "0");
  EXPECT_THAT(ours.log, Contains("closed 3 0"));
  EXPECT_EQ(client.sending() + server.sending(), 0u);
}

TEST(Http2Session, AnAnswerBeforeTheEndStopsTheRest) {
  Reported ours;
  Http2Session client(Http2Session::Side::kClient, {}, ours);
  Server server;
  const int32_t stream = client.Request(Post(), BodyOf(std::string(5'000'000, 'x')));
  ASSERT_TRUE(server.session.Feed(Drained(client), {}));
  Http2Fields fields;
  fields.Add(":status", "200");
  Http2Body none;
  none.none = true;
  EXPECT_TRUE(server.session.Answer(stream, fields, std::move(none)));
  EXPECT_FALSE(server.session.Answer(stream, fields, {})) << "twice";
  Talk(client, server.session);
  EXPECT_THAT(ours.log, Contains("closed 1 0"));
  EXPECT_LT(server.handler.bodies[1].size(), 5'000'000u);
}

TEST(Http2Session, ADrainingServerEndsWhatHasBegun) {
  Reported ours;
  Http2Session client(Http2Session::Side::kClient, {}, ours);
  Server server;
  client.Request(Post(), BodyOf("x"));
  Talk(client, server.session);
  server.session.Drain();
  Talk(client, server.session);
  EXPECT_THAT(ours.log, Contains("goaway 0"));
  EXPECT_FALSE(server.session.finished());
  server.handler.echoes = &server.session;
  server.handler.Finish(1);
  Talk(client, server.session);
  EXPECT_THAT(ours.log, Contains("closed 1 0"));
  EXPECT_TRUE(server.session.finished());
  EXPECT_TRUE(client.finished());
}

TEST(Http2Session, EmptyTrailersEndTheRequest) {
  Server server;
  ASSERT_TRUE(server.session.Feed(
      std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kHeaders, kEndHeaders, 1, CallFields("/x")) +
          Frame(kData, 0, 1, "12345") + Frame(kHeaders, kEndHeaders | kEndStream, 1),
      {}));
  EXPECT_THAT(server.handler.log, ElementsAre("fields 1", "fields 1 end"));
  EXPECT_EQ(server.handler.last.size(), 0u);
  EXPECT_EQ(GoawayError(server.Output()), -1);
}

TEST(Http2Session, EmptyFieldsBeginNothing) {
  Server server;
  ASSERT_TRUE(server.session.Feed(
      std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kHeaders, kEndHeaders | kEndStream, 1), {}));
  EXPECT_THAT(server.handler.log, Not(Contains(StartsWith("fields"))));
  Reported ours;
  Http2Session client(Http2Session::Side::kClient, {}, ours);
  ASSERT_EQ(client.Request(Post(), BodyOf("x")), 1);
  Drained(client);
  ASSERT_TRUE(client.Feed(Frame(kSettings, 0, 0) + Frame(kHeaders, kEndHeaders | kEndStream, 1), {}));
  EXPECT_THAT(ours.log, Not(Contains(StartsWith("fields"))));
}

// Fields above the limit are reported as such, and the connection goes on.
TEST(Http2Session, LargeFieldsAreLeftOut) {
  Http2Limits limits;
  limits.header_bytes = 2000;
  Server server(limits);
  const std::string block = CallFields("/x", {{"big", std::string(3000, 'x')}, {"after", "y"}});
  ASSERT_TRUE(server.session.Feed(
      std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kHeaders, kEndHeaders | kEndStream, 1, block),
      {}));
  EXPECT_THAT(server.handler.log, Contains("fields 1 end too large"));
  EXPECT_LE(server.handler.last.bytes(), 2000u);
  ASSERT_TRUE(server.session.Feed(Frame(kHeaders, kEndHeaders | kEndStream, 3, CallFields("/x")), {}));
  EXPECT_THAT(server.handler.log, Contains("fields 3 end"));
}

TEST(Http2Session, AbsurdFieldsEndTheSession) {
  Server server;
  std::vector<std::pair<std::string, std::string>> many(2000, {"a", "b"});
  EXPECT_FALSE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0) +
                                       Frame(kHeaders, kEndHeaders, 1, CallFields("/x", many)),
                                   {}));
  EXPECT_TRUE(server.session.flooded());
  EXPECT_EQ(GoawayError(server.Output()), kCalm);
  EXPECT_TRUE(server.session.finished());
}

struct Flood {
  const char* name;
  std::string frame;
  int most;  // so many of it are borne at once, at most
};

class Floods : public TestWithParam<Flood> {};

TEST_P(Floods, EndWithEnhanceYourCalm) {
  Server server;
  ASSERT_TRUE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0), {}));
  ASSERT_TRUE(server.session.Feed(Frame(kHeaders, kEndHeaders, 1, CallFields("/x")), {}));
  int borne = 0;
  while (borne <= GetParam().most && server.session.Feed(GetParam().frame, {})) {
    ++borne;
    server.Output();
  }
  EXPECT_LE(borne, GetParam().most);
  EXPECT_GT(borne, 10);
  EXPECT_TRUE(server.session.flooded()) << server.session.why();
  EXPECT_EQ(GoawayError(server.Output()), kCalm);
}

INSTANTIATE_TEST_SUITE_P(Http2Session, Floods,
                         Values(Flood{"ping", Frame(kPing, 0, 0, "12345678"), 600},
                                Flood{"settings", Frame(kSettings, 0, 0), 600},
                                Flood{"window", Frame(kWindow, 0, 0, Number(1)), 600},
                                Flood{"priority", Frame(kPriority, 0, 5, Number(3) + 'x'), 600},
                                Flood{"empty_data", Frame(kData, 0, 1), 600}),
                         [](const auto& each) { return each.param.name; });

TEST(Http2Session, ResetsAreAFloodToo) {
  Server server;
  ASSERT_TRUE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0), {}));
  uint32_t stream = 1;
  auto once = [&] {
    const bool good = server.session.Feed(
        Frame(kHeaders, kEndHeaders, stream, CallFields("/x")) + Frame(kReset, 0, stream, Number(8)), {});
    stream += 2;
    server.Output();
    return good;
  };
  while (stream < 2000 && once()) {
  }
  EXPECT_LT(stream, 800u);
  EXPECT_TRUE(server.session.flooded());
}

TEST(Http2Session, ContinuationsAreCounted) {
  Server server;
  ASSERT_TRUE(server.session.Feed(
      std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kHeaders, 0, 1, CallFields("/x")), {}));
  int borne = 0;
  while (borne < 100 && server.session.Feed(Frame(kContinuation, 0, 1), {})) ++borne;
  EXPECT_LE(borne, 8);
}

// A client that keeps pinging while it works, or slowly, is none to shut out.
TEST(Http2Session, WorkAndTimePayForFrames) {
  Server server;
  server.handler.echoes = &server.session;
  ASSERT_TRUE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0), {}));
  for (uint32_t i = 0; i < 2000; ++i) {
    const std::string call = Frame(kHeaders, kEndHeaders, 2 * i + 1, CallFields("/x")) +
                             Frame(kData, 0, 2 * i + 1, "12345") + Frame(kData, kEndStream, 2 * i + 1, "x") +
                             Frame(kPing, 0, 0, "12345678") + Frame(kWindow, 0, 0, Number(100));
    ASSERT_TRUE(server.session.Feed(call, {})) << i << " " << server.session.why();
    server.Output();
  }
  for (int i = 1; i < 2000; ++i) {
    ASSERT_TRUE(server.session.Feed(Frame(kPing, 0, 0, "12345678"), seconds(i))) << i;
    server.Output();
  }
}

// Who never reads cannot make us hold endless answers to pings: nothing more is read.
TEST(Http2Session, BoundsPendingOutput) {
  Http2Limits limits;
  limits.idle_frames = 1'000'000;
  Server server(limits);
  ASSERT_TRUE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0), {}));
  int borne = 0;
  while (borne < 2000 && server.session.wants_input() &&
         server.session.Feed(Frame(kPing, 0, 0, "12345678"), {}))
    ++borne;
  EXPECT_LT(borne, 300);
}

TEST(Http2Session, AnotherProtocolIsKnownAsSuch) {
  Server server;
  EXPECT_FALSE(server.session.Feed("GET / HTTP/1.1\r\nHost: x\r\n\r\n", {}));
  EXPECT_TRUE(server.session.no_http2());
  EXPECT_FALSE(server.session.flooded());
  EXPECT_FALSE(server.session.why().empty());
}

TEST(Http2Session, TooManyStreamsAreRefused) {
  Http2Limits limits;
  limits.streams = 2;
  Server server(limits);
  ASSERT_TRUE(server.session.Feed(std::string(kPreface) + Frame(kSettings, 0, 0), {}));
  server.Output();
  ASSERT_TRUE(server.session.Feed(Frame(kSettings, kAck, 0), {}));
  for (uint32_t stream : {1u, 3u})
    ASSERT_TRUE(server.session.Feed(Frame(kHeaders, kEndHeaders, stream, CallFields("/x")), {}));
  server.session.Feed(Frame(kHeaders, kEndHeaders, 5, CallFields("/x")), {});
  EXPECT_THAT(server.handler.log, Not(Contains("fields 5")));
}

}  // namespace
}  // namespace gpulens
