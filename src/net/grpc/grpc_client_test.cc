#include "net/grpc/grpc_client.h"

#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "net/grpc/grpc_testing.h"
#include "net/grpc/grpc_wire.h"
#include "net/http2/http2_frames_testing.h"
#include "net/testing/certificates.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using namespace testing;
using namespace ::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(GrpcClient, CallsShareOneConnection) {
  GrpcWorld world;
  for (size_t size : {0u, 1u, 100'000u, 3'000'000u}) {
    const std::string message(size, 'x');
    const GrpcReply reply = world.Call(kEcho, message);
    EXPECT_EQ(reply.code, GrpcCode::kOk) << reply.message;
    EXPECT_EQ(reply.answer, message);
  }
  std::vector<std::future<GrpcReply>> many;
  for (int i = 0; i < 60; ++i) many.push_back(world.Begin(kEcho, std::to_string(i)));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(many[static_cast<size_t>(i)].get().answer, std::to_string(i));
  EXPECT_EQ(world.server->stats().accepted, 1u);
}

TEST(GrpcClient, FailuresAreThoseOfTheServer) {
  GrpcWorld world;
  const GrpcReply busy = world.Call(kBusy, "x");
  EXPECT_EQ(busy.code, GrpcCode::kResourceExhausted);
  EXPECT_EQ(busy.failure, HttpFailure::kNone);
  EXPECT_EQ(busy.message, "busy");
  EXPECT_EQ(ReadGrpcRetryInfo(busy.details), Duration(seconds(2)));
  const GrpcReply none = world.Call("/test.Echo/None", "x");
  EXPECT_EQ(none.code, GrpcCode::kUnimplemented);
  EXPECT_THAT(none.message, HasSubstr("/test.Echo/None"));
}

TEST(GrpcClient, ADeadlineEndsBothSides) {
  GrpcWorld world;
  auto call = world.Begin(kKeep, "x", milliseconds(200), "X-Test: One\r\nauthorization: y\r\n");
  auto [request, responder] = world.echo.Take();
  EXPECT_EQ(request.fields.Find("x-test"), "One");
  ASSERT_TRUE(request.time_left);
  EXPECT_LE(*request.time_left, Duration(milliseconds(200)));
  EXPECT_EQ(call.get().code, GrpcCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&r = responder] { return !r.wanted(); }));
  responder.Send(GrpcAnswer::Ok("late"));
  EXPECT_EQ(world.Call(kEcho, "y").answer, "y");
}

TEST(GrpcClient, TooManyCallsFailAtOnce) {
  GrpcWorld world;
  std::vector<std::future<GrpcReply>> calls;
  for (size_t i = 0; i < GrpcChannel::kMaxCalls; ++i) calls.push_back(world.Begin(kKeep, "x"));
  EXPECT_EQ(world.Call(kKeep, "one more").code, GrpcCode::kResourceExhausted);
  for (size_t i = 0; i < calls.size(); ++i) {
    auto [request, responder] = world.echo.Take();
    responder.Send(GrpcAnswer::Ok("done"));
  }
  for (auto& call : calls) EXPECT_EQ(call.get().answer, "done");
}

TEST(GrpcClient, TheAnswersLimitHolds) {
  GrpcWorld world;
  GrpcTarget target = world.Target();
  target.answer_bytes = 100;
  world.channel = world.client.Open(target);
  const GrpcReply reply = world.Call(kEcho, std::string(101, 'x'));
  EXPECT_EQ(reply.code, GrpcCode::kResourceExhausted);
  EXPECT_EQ(reply.failure, HttpFailure::kTooLarge);
  EXPECT_EQ(world.Call(kEcho, std::string(100, 'x')).code, GrpcCode::kOk);
  EXPECT_EQ(world.server->stats().accepted, 1u);
}

TEST(GrpcClient, ARestartedServerIsFoundAgain) {
  GrpcWorld world;
  EXPECT_EQ(world.Call(kEcho, "x").code, GrpcCode::kOk);
  const Endpoint at = world.at;
  world.server = nullptr;
  EXPECT_EQ(world.Call(kEcho, "x").failure, HttpFailure::kConnect);
  world.Serve({}, at);
  EXPECT_EQ(world.Call(kEcho, "x").code, GrpcCode::kOk);
}

TEST(GrpcClient, SpeaksThroughAUnixSocketAndTls) {
  TempFolder folder;
  const Pem ca = MakeCa("ca");
  const Pem pem = MakeCertificate(ca, "localhost", {"localhost", "127.0.0.1"});
  GrpcWorld world;
  world.server = nullptr;
  world.Serve({}, *ParseListenAddress("unix:" + folder.path() + "/s"));
  GrpcTarget target;
  target.url = *ParseHttpUrl("http://localhost");
  target.unix_socket = folder.path() + "/s";
  world.channel = world.client.Open(target);
  EXPECT_EQ(world.Call(kEcho, "x").answer, "x");

  auto config =
      folder.Write("web.yml", "tls_server_config: {cert_file: " + folder.Write("c.pem", pem.certificate) +
                                  ", key_file: " + folder.Write("k.pem", pem.key) + "}\n");
  auto authenticator =
      Authenticator::Open(world.loop, config, [](const Endpoint&, const PasswordQueue::Job& job) {
        job(true);
        return true;
      });
  ASSERT_TRUE(authenticator.ok()) << authenticator.error().detail;
  GrpcServer::Options options;
  options.authenticator = authenticator->get();
  world.server = nullptr;
  world.Serve(options, *ParseListenAddress("127.0.0.1:0"));
  target = world.Target();
  target.url.tls = true;
  world.channel = world.client.Open(target);
  EXPECT_EQ(world.Call(kEcho, "x").failure, HttpFailure::kTls) << "no settings";
  TlsClientOptions rules;
  rules.ca.text = ca.certificate;
  world.tls = *TlsContext::Client(rules);
  EXPECT_EQ(world.Call(kEcho, "x").answer, "x");
  rules.ca.text = MakeCa("other").certificate;
  world.tls = *TlsContext::Client(rules);
  const GrpcReply refused = world.Call(kEcho, "x");
  EXPECT_EQ(refused.failure, HttpFailure::kTls);
  EXPECT_EQ(refused.code, GrpcCode::kUnavailable);
  world.server = nullptr;
}

// A server of HTTP/1 with TLS does not choose h2.
TEST(GrpcClient, WantsHttp2AgreedOn) {
  const Pem ca = MakeCa("ca");
  const Pem pem = MakeCertificate(ca, "localhost", {"localhost", "127.0.0.1"});
  TlsServerOptions rules;
  rules.certificate.text = pem.certificate;
  rules.key.text = pem.key;
  ScriptedServer server([](ScriptedServer::Peer& peer, int) { peer.Head(); }, *TlsContext::Server(rules));
  GrpcWorld world;
  GrpcTarget target;
  target.url = *ParseHttpUrl(server.Url("/"));
  world.channel = world.client.Open(target);
  TlsClientOptions ours;
  ours.ca.text = ca.certificate;
  world.tls = *TlsContext::Client(ours);
  const GrpcReply reply = world.Call(kEcho, "x");
  EXPECT_EQ(reply.failure, HttpFailure::kTls);
  EXPECT_THAT(reply.message, HasSubstr("ALPN"));
}

// Handwritten responses: bytes, and the reply that they give.
struct ServerBytes {
  const char* name;
  std::string bytes;
  GrpcCode code;
  HttpFailure failure;
};

class Servers : public TestWithParam<ServerBytes> {};

std::string Head(std::vector<std::pair<std::string, std::string>> fields, uint8_t flags = kEndHeaders) {
  return Frame(kHeaders, flags, 1, Hpack(fields));
}
const std::string kGood = Head({{":status", "200"}, {"content-type", "application/grpc"}});
const std::string kTrailers = Head({{"grpc-status", "0"}}, kEndHeaders | kEndStream);

const std::string kPackedGood =
    Head({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-encoding", "gzip"}});
// A gzip member with nothing in it.
const std::string kPackedNothing(
    "\037\213\010\000\000\000\000\000\002\003"
    "\003\000\000\000\000\000\000\000\000\000",
    20);
std::string Packed(std::string_view bytes) {
  return Frame(kData, 0, 1, GrpcMessageHead(true, bytes.size()) + std::string(bytes));
}
std::string ClaimsSize(uint32_t size) {
  std::string member = kPackedNothing;
  for (size_t i = 0; i < 4; ++i) member[member.size() - 4 + i] = static_cast<char>(size >> (8 * i) & 0xff);
  return member;
}

TEST_P(Servers, AreUnderstood) {
  ScriptedServer server([](ScriptedServer::Peer& peer, int) {
    peer.Some(100);
    peer.Write(Frame(kSettings, 0, 0) + GetParam().bytes);
    peer.Some(10'000'000);
  });
  GrpcWorld world;
  GrpcTarget target;
  target.url = *ParseHttpUrl(server.Url("/"));
  world.channel = world.client.Open(target);
  const GrpcReply reply = world.Call(kEcho, "x", seconds(10));
  EXPECT_EQ(GrpcCodeName(reply.code), GrpcCodeName(GetParam().code)) << reply.message;
  EXPECT_EQ(HttpFailureName(reply.failure), HttpFailureName(GetParam().failure)) << reply.message;
  world.channel = nullptr;
}

INSTANTIATE_TEST_SUITE_P(
    GrpcClient, Servers,
    Values(
        ServerBytes{"early_hints",
                    Head({{":status", "103"}}) + kGood + Frame(kData, 0, 1, std::string(5, '\0')) + kTrailers,
                    GrpcCode::kOk, HttpFailure::kNone},
        ServerBytes{"trailers_only",
                    Head({{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "5"}},
                         kEndHeaders | kEndStream),
                    GrpcCode::kNotFound, HttpFailure::kNone},
        ServerBytes{"no_message", kGood + kTrailers, GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"two_messages", kGood + Frame(kData, 0, 1, std::string(10, '\0')) + kTrailers,
                    GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"packed", kGood + Frame(kData, 0, 1, std::string("\1\0\0\0\1x", 6)) + kTrailers,
                    GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"packed_as_requested", kPackedGood + Packed(kPackedNothing) + kTrailers, GrpcCode::kOk,
                    HttpFailure::kNone},
        ServerBytes{"packed_badly", kPackedGood + Packed("no member of gzip, but long") + kTrailers,
                    GrpcCode::kResourceExhausted, HttpFailure::kTooLarge},
        ServerBytes{"packed_and_cut", kPackedGood + Packed(kPackedNothing.substr(0, 12)) + kTrailers,
                    GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"packed_with_a_wrong_size", kPackedGood + Packed(ClaimsSize(5)) + kTrailers,
                    GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"packed_and_large", kPackedGood + Packed(ClaimsSize(1u << 30)) + kTrailers,
                    GrpcCode::kResourceExhausted, HttpFailure::kTooLarge},
        ServerBytes{"cut_message", kGood + Frame(kData, 0, 1, std::string("\0\0\0\0\5x", 6)) + kTrailers,
                    GrpcCode::kInternal, HttpFailure::kProtocol},
        ServerBytes{"no_status", kGood + Frame(kData, kEndStream, 1, std::string(5, '\0')),
                    GrpcCode::kUnknown, HttpFailure::kProtocol},
        ServerBytes{
            "proxy_503",
            Head({{":status", "503"}, {"content-type", "text/html"}}) + Frame(kData, kEndStream, 1, "<p>"),
            GrpcCode::kUnavailable, HttpFailure::kStatus},
        ServerBytes{"proxy_401", Head({{":status", "401"}}, kEndHeaders | kEndStream),
                    GrpcCode::kUnauthenticated, HttpFailure::kAuth},
        ServerBytes{
            "a_page",
            Head({{":status", "200"}, {"content-type", "text/html"}}) + Frame(kData, kEndStream, 1, "<p>"),
            GrpcCode::kUnknown, HttpFailure::kProtocol},
        ServerBytes{"reset", kGood + Frame(kReset, 0, 1, Number(2)), GrpcCode::kInternal,
                    HttpFailure::kProtocol},
        ServerBytes{"calm_down", kGood + Frame(kReset, 0, 1, Number(11)), GrpcCode::kResourceExhausted,
                    HttpFailure::kProtocol},
        ServerBytes{"large_fields",
                    Head({{":status", "200"}, {"x", std::string(16'000, 'x')}, {"y", std::string(300, 'y')}}),
                    GrpcCode::kResourceExhausted, HttpFailure::kTooLarge},
        ServerBytes{"http_1", "HTTP/1.1 400 Bad Request\r\n\r\n", GrpcCode::kUnavailable,
                    HttpFailure::kProtocol}),
    [](const auto& each) { return each.param.name; });

TEST(GrpcClient, UnpacksWhatAServerPacks) {
  const std::string member(
      "\037\213\010\000\000\000\000\000\002\003\313\317\006\000\107\335\334\171\002\000\000\000", 22);
  ScriptedServer server([&](ScriptedServer::Peer& peer, int) {
    peer.Some(100);
    peer.Write(Frame(kSettings, 0, 0) + kPackedGood + Packed(member) + kTrailers);
    peer.Some(10'000'000);
  });
  GrpcWorld world;
  GrpcTarget target;
  target.url = *ParseHttpUrl(server.Url("/"));
  world.channel = world.client.Open(target);
  const GrpcReply reply = world.Call(kEcho, "x", seconds(10));
  EXPECT_EQ(reply.code, GrpcCode::kOk) << reply.message;
  EXPECT_EQ(reply.answer, "ok");
  world.channel = nullptr;
}

// A stream that was surely not seen is sent again, once.
TEST(GrpcClient, RefusedStreamsAreSentAgainOnce) {
  ScriptedServer server([](ScriptedServer::Peer& peer, int) {
    peer.Some(100);
    peer.Write(Frame(kSettings, 0, 0) + Frame(kReset, 0, 1, Number(7)));
    peer.Write(Frame(kReset, 0, 3, Number(7)));
    peer.Some(10'000'000);
  });
  GrpcWorld world;
  GrpcTarget target;
  target.url = *ParseHttpUrl(server.Url("/"));
  world.channel = world.client.Open(target);
  EXPECT_NE(world.Call(kEcho, "x", seconds(10)).code, GrpcCode::kOk);
  world.channel = nullptr;
}

TEST(GrpcClient, AGoawayMovesCallsToANewConnection) {
  ScriptedServer server([](ScriptedServer::Peer& peer, int connection) {
    peer.Some(100);
    if (connection == 0) {
      peer.Write(Frame(kSettings, 0, 0) + Frame(kGoaway, 0, 0, Number(0) + Number(0)));
    } else {
      peer.Write(Frame(kSettings, 0, 0) + kGood + Frame(kData, 0, 1, std::string(5, '\0')) + kTrailers);
    }
    peer.Some(10'000'000);
  });
  GrpcWorld world;
  GrpcTarget target;
  target.url = *ParseHttpUrl(server.Url("/"));
  world.channel = world.client.Open(target);
  const GrpcReply reply = world.Call(kEcho, "x", seconds(20));
  EXPECT_EQ(reply.code, GrpcCode::kOk) << reply.message;
  EXPECT_EQ(server.connections(), 2);
  world.channel = nullptr;
}

TEST(GrpcClient, NoCallbackAfterTheChannelsEnd) {
  GrpcWorld world;
  auto reported = std::make_shared<std::atomic<bool>>(false);
  world.channel = world.client.Open(world.Target());
  world.loop.Call([&] {
    world.channel->Call({kKeep, {}, nullptr, false, nullptr, seconds(20)},
                        [reported](GrpcReply&) { *reported = true; });
  });
  auto [request, responder] = world.echo.Take();
  world.channel = nullptr;
  EXPECT_TRUE(Eventually([&r = responder] { return !r.wanted(); }));
  EXPECT_FALSE(*reported);
}

TEST(GrpcClient, CallbackMayDestroyTheChannel) {
  GrpcWorld world;
  std::promise<void> done;
  world.channel = world.client.Open(world.Target());
  int reported = 0;
  world.loop.Call([&] {
    for (int i = 0; i < 3; ++i) {
      world.channel->Call({"/test.Echo/None", {}, nullptr, false, nullptr, seconds(20)}, [&](GrpcReply&) {
        ++reported;
        world.channel = nullptr;
        done.set_value();
      });
    }
  });
  done.get_future().wait();
  world.loop.Call([] {});
  EXPECT_EQ(reported, 1);
}

}  // namespace
}  // namespace gpulens
