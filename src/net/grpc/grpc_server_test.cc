#include "net/grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>

#include "base/threads.h"
#include "net/grpc/grpc_testing.h"
#include "net/grpc/grpc_wire.h"
#include "net/http2/http2_frames_testing.h"
#include "net/testing/test_client.h"

namespace gpulens {
namespace {

using namespace testing;
using namespace ::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kCalm = static_cast<uint32_t>(Http2Error::kEnhanceYourCalm);

std::string Opening() { return std::string(kPreface) + Frame(kSettings, 0, 0); }
std::string Begin(uint32_t stream, const std::string& path = kEcho,
                  std::vector<std::pair<std::string, std::string>> more = {}) {
  return Frame(kHeaders, kEndHeaders, stream, CallFields(path, std::move(more)));
}

std::string Gzip(std::string_view text) {
  auto* packer = libdeflate_alloc_compressor(6);
  std::string packed(libdeflate_gzip_compress_bound(packer, text.size()), 0);
  packed.resize(libdeflate_gzip_compress(packer, text.data(), text.size(), packed.data(), packed.size()));
  libdeflate_free_compressor(packer);
  return packed;
}

// All frames until the server ends the connection.
std::vector<SeenFrame> UntilEnd(TestClient& client) {
  std::string all = client.ReadAll();
  return TakeFrames(all);
}

TEST(GrpcServer, UnpacksOnAWorker) {
  std::atomic<int> offloaded{0};
  GrpcServer::Options options;
  options.limits.unpacked_bytes = 1'000'000;
  options.offload = [&](auto task) {
    ++offloaded;
    std::thread(std::move(task)).detach();
  };
  GrpcWorld world(options);
  world.gzip = true;
  const std::string text(900'000, 'x');
  EXPECT_EQ(world.Call(kEcho, Gzip(text)).answer, text);
  EXPECT_EQ(offloaded, 1);
  const GrpcReply large = world.Call(kEcho, Gzip(std::string(1'000'001, 'x')));
  EXPECT_EQ(large.code, GrpcCode::kResourceExhausted);
  EXPECT_THAT(large.message, HasSubstr("1000001"));
  EXPECT_EQ(offloaded, 1) << "what is too large is not unpacked";
  std::string lies = Gzip(text);
  lies[lies.size() - 4] = 1;
  lies[lies.size() - 3] = 0;
  EXPECT_EQ(world.Call(kEcho, lies).code, GrpcCode::kInternal);
  EXPECT_EQ(world.Call(kEcho, std::string(30, 0)).code, GrpcCode::kInternal);
  EXPECT_TRUE(Eventually([&] { return world.server->stats().held_bytes == 0; }));
  EXPECT_EQ(world.server->stats().answers_of(GrpcCode::kInternal), 2u);
}

TEST(GrpcServer, LargeMessagesAreRefusedUnseen) {
  GrpcServer::Options options;
  options.limits.message_bytes = 1000;
  GrpcWorld world(options);
  EXPECT_EQ(world.Call(kEcho, std::string(1000, 'x')).code, GrpcCode::kOk);
  const GrpcReply large = world.Call(kEcho, std::string(5'000'000, 'x'));
  EXPECT_EQ(large.code, GrpcCode::kResourceExhausted);
  EXPECT_THAT(large.message, HasSubstr("5000000"));
  EXPECT_LT(world.server->stats().bytes_received, 2'500'000u);
  EXPECT_EQ(world.server->stats().refusals(Refusal::kBodySize), 1u);
}

// What all calls hold together is bounded; calls above it are refused with a retry delay.
TEST(GrpcServer, HeldBytesAreBounded) {
  GrpcServer::Options options;
  options.limits.held_bytes = 50'000;
  GrpcWorld world(options);
  auto first = world.Begin(kKeep, std::string(40'000, 'x'));
  auto kept = world.echo.Take();
  const GrpcReply second = world.Call(kEcho, std::string(20'000, 'x'));
  EXPECT_EQ(second.code, GrpcCode::kResourceExhausted);
  EXPECT_EQ(ReadGrpcRetryInfo(second.details), Duration(seconds(1)));
  kept.second.Send(GrpcAnswer::Ok("y"));
  EXPECT_EQ(first.get().answer, "y");
  EXPECT_EQ(world.Call(kEcho, std::string(20'000, 'x')).code, GrpcCode::kOk);
}

TEST(GrpcServer, AnUnsentAnswerIsAFailure) {
  GrpcWorld world;
  auto call = world.Begin(kKeep, "x");
  {
    auto dropped = world.echo.Take();
  }
  EXPECT_EQ(call.get().code, GrpcCode::kInternal);
}

TEST(GrpcServer, AnswersFromOtherThreads) {
  GrpcWorld world;
  std::vector<std::future<GrpcReply>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(world.Begin(kKeep, std::to_string(i)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([kept = world.echo.Take()]() mutable {
      kept.second.Send(GrpcAnswer::Ok("re " + kept.first.message));
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i].get().answer, "re " + std::to_string(i));
}

// The frames until the next one of a type; empty when the connection ends before.
std::vector<SeenFrame> Await(TestClient& client, FrameType type) {
  std::vector<SeenFrame> seen;
  do {
    std::string bytes = client.ReadBytes(9);
    if (bytes.size() < 9) return {};
    size_t size = 0;
    for (size_t i = 0; i < 3; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
    bytes += client.ReadBytes(size);
    for (SeenFrame& frame : TakeFrames(bytes)) seen.push_back(std::move(frame));
  } while (seen.back().type != type);
  return seen;
}

std::string Payloads(const std::vector<SeenFrame>& frames) {
  std::string all;
  for (const SeenFrame& frame : frames)
    if (frame.type == kData) all += frame.payload;
  return all;
}

TEST(GrpcServer, SendsSeveralMessagesOfOneCall) {
  GrpcWorld world;
  TestClient client(world.at);
  client.Send(Opening() + Begin(1, kKeep) + Frame(kData, kEndStream, 1, GrpcMessageHead(false, 1) + "x"));
  auto kept = world.echo.Take();
  kept.second.Push("one");
  EXPECT_EQ(Payloads(Await(client, kData)), GrpcMessageHead(false, 3) + "one");
  kept.second.Push("");
  EXPECT_EQ(Payloads(Await(client, kData)), GrpcMessageHead(false, 0));
  std::thread([&] { kept.second.Push("two"); }).join();
  EXPECT_EQ(Payloads(Await(client, kData)), GrpcMessageHead(false, 3) + "two");
  EXPECT_TRUE(kept.second.wanted());
  kept.second.Send(GrpcAnswer::Failure(GrpcCode::kUnavailable, "over"));
  const auto last = Await(client, kHeaders);
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(last.back().flags & kEndStream, kEndStream) << "trailers";
  EXPECT_TRUE(Eventually([&] { return world.server->stats().held_bytes == 0; }));
  EXPECT_EQ(world.server->stats().answers_of(GrpcCode::kUnavailable), 1u);
  // The connection goes on.
  client.Send(Begin(3) + Frame(kData, kEndStream, 3, GrpcMessageHead(false, 1) + "y"));
  EXPECT_EQ(Payloads(Await(client, kData)), GrpcMessageHead(false, 1) + "y");
}

// An open stream without a message to send is no slow client, and no idle connection either.
TEST(GrpcServer, AQuietStreamStaysOpen) {
  GrpcServer::Options options;
  options.limits.write_timeout = options.limits.idle_timeout = options.limits.request_timeout =
      milliseconds(50);
  GrpcWorld world(options);
  TestClient client(world.at);
  client.Send(Opening() + Begin(1, kKeep) + Frame(kData, kEndStream, 1, GrpcMessageHead(false, 1) + "x"));
  auto kept = world.echo.Take();
  kept.second.Push("one");
  Await(client, kData);
  // Another connection that is idle is closed meanwhile: so much time has passed.
  TestClient idle(world.at);
  idle.Send(Opening());
  idle.ReadAll();
  kept.second.Push("two");
  EXPECT_EQ(Payloads(Await(client, kData)), GrpcMessageHead(false, 3) + "two");
  client.Send(Frame(kReset, 0, 1, Number(static_cast<uint32_t>(Http2Error::kCancel))));
  EXPECT_TRUE(Eventually([&] { return !kept.second.wanted(); }));
  kept.second.Push("nobody reads it");
  kept.second.Send(GrpcAnswer::Ok(""));
}

// What a client does not read is bounded by the time, not by the memory of the server.
TEST(GrpcServer, AStreamThatIsNotReadIsClosed) {
  GrpcServer::Options options;
  options.limits.write_timeout = milliseconds(50);
  GrpcWorld world(options);
  TestClient client(world.at);
  // A window of 10 bytes.
  client.Send(std::string(kPreface) + Frame(kSettings, 0, 0, Number(4, 2) + Number(10)) + Begin(1, kKeep) +
              Frame(kData, kEndStream, 1, GrpcMessageHead(false, 1) + "x"));
  auto kept = world.echo.Take();
  kept.second.Push("longer than the window");
  EXPECT_TRUE(Eventually([&] { return !kept.second.wanted(); }));
  EXPECT_TRUE(Eventually([&] { return world.server->stats().refusals(Refusal::kSlow) == 1; }));
}

TEST(GrpcServer, AnOrderlyEnd) {
  GrpcWorld world;
  auto call = world.Begin(kKeep, "x");
  auto kept = world.echo.Take();
  std::promise<void> ended;
  world.server->Shutdown(seconds(20), [&] { ended.set_value(); });
  world.loop.Call([] {});
  kept.second.Send(GrpcAnswer::Ok("the last"));
  EXPECT_EQ(call.get().answer, "the last");
  ended.get_future().wait();
  EXPECT_EQ(world.server->stats().connections, 0u);
}

// Bytes by hand, and the grpc-status (or HTTP status) that answers them.
struct Bad {
  const char* name;
  std::string bytes;
  GrpcCode code;
};
class BadCalls : public TestWithParam<Bad> {};

TEST_P(BadCalls, AreAnsweredAndTheConnectionGoesOn) {
  GrpcWorld world;
  TestClient client(world.at);
  client.Send(Opening() + GetParam().bytes);
  EXPECT_TRUE(Eventually([&] { return world.server->stats().answers_of(GetParam().code) == 1; }));
  client.Send(Begin(21) + Frame(kData, kEndStream, 21, std::string(5, '\0')));
  EXPECT_TRUE(Eventually([&] { return world.server->stats().answers_of(GrpcCode::kOk) == 1; }));
  EXPECT_TRUE(Eventually([&] { return world.server->stats().held_bytes == 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    GrpcServer, BadCalls,
    Values(Bad{"no_message", Frame(kHeaders, kEndHeaders | kEndStream, 1, CallFields(kEcho)),
               GrpcCode::kInternal},
           Bad{"cut_message", Begin(1) + Frame(kData, kEndStream, 1, std::string("\0\0\0\0\5x", 6)),
               GrpcCode::kInternal},
           Bad{"two_messages", Begin(1) + Frame(kData, kEndStream, 1, std::string(10, '\0')),
               GrpcCode::kInternal},
           Bad{"unknown_flag", Begin(1) + Frame(kData, kEndStream, 1, std::string("\7\0\0\0\1x", 6)),
               GrpcCode::kInternal},
           Bad{"packed_how", Begin(1) + Frame(kData, kEndStream, 1, std::string("\1\0\0\0\1x", 6)),
               GrpcCode::kInternal},
           Bad{"unknown_encoding", Begin(1, kEcho, {{"grpc-encoding", "snappy"}}), GrpcCode::kUnimplemented},
           Bad{"bad_timeout", Begin(1, kEcho, {{"grpc-timeout", "soon"}}), GrpcCode::kInternal},
           Bad{"past_timeout", Begin(1, kEcho, {{"grpc-timeout", "0n"}}), GrpcCode::kDeadlineExceeded},
           Bad{"no_such_method", Begin(1, "/x"), GrpcCode::kUnimplemented},
           Bad{"large_fields",
               Begin(1, kEcho, std::vector<std::pair<std::string, std::string>>(200, {"x", "y"})),
               GrpcCode::kResourceExhausted},
           Bad{"large_message", Begin(1) + Frame(kData, 0, 1, std::string("\0\x7f\0\0\0", 5)),
               GrpcCode::kResourceExhausted}),
    [](const auto& each) { return each.param.name; });

TEST(GrpcServer, OtherHttpIsRefusedAsHttp) {
  GrpcWorld world;
  TestClient client(world.at);
  client.Send(Opening() +
              Frame(kHeaders, kEndHeaders | kEndStream, 1,
                    Hpack({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "x"}})));
  std::string seen;
  std::vector<SeenFrame> frames;
  while (frames.empty() || frames.back().stream != 1) {
    const std::string more = client.ReadBytes(1);
    ASSERT_FALSE(more.empty());
    seen += more;
    for (SeenFrame& frame : TakeFrames(seen)) frames.push_back(std::move(frame));
  }
  EXPECT_EQ(frames.back().flags & kEndStream, kEndStream);
  EXPECT_THAT(frames.back().payload, HasSubstr("405"));

  TestClient old(world.at);
  old.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(old.ReadAll(), HasSubstr("gRPC"));
}

TEST(GrpcServer, RejectsFloods) {
  GrpcWorld world;
  for (const std::string& frame :
       {Frame(kPing, 0, 0, "12345678"), Frame(kSettings, 0, 0), Begin(1) + Frame(kReset, 0, 1, Number(8))}) {
    TestClient client(world.at);
    client.Send(Opening());
    std::string many;
    for (uint32_t i = 0; i < 3000; ++i) {
      std::string one = frame;
      // Each stream has its own number, in both of its frames.
      if (frame[3] == kHeaders) one = Begin(2 * i + 1) + Frame(kReset, 0, 2 * i + 1, Number(8));
      many += one;
    }
    client.Send(many);
    EXPECT_EQ(GoawayError(UntilEnd(client)), kCalm) << static_cast<int>(frame[3]);
  }
  EXPECT_EQ(world.server->stats().refusals(Refusal::kLimit), 3u);
  EXPECT_EQ(world.Call(kEcho, "still").answer, "still");
}

TEST(GrpcServer, ClosesSilentClients) {
  GrpcServer::Options options;
  options.limits.request_timeout = milliseconds(50);
  options.limits.idle_timeout = milliseconds(50);
  options.limits.linger = milliseconds(50);
  GrpcWorld world(options);
  TestClient silent(world.at);
  EXPECT_TRUE(silent.ReadsEnd());
  EXPECT_EQ(world.server->stats().refusals(Refusal::kTimeout), 1u);
  TestClient idle(world.at);
  idle.Send(Opening());
  EXPECT_EQ(GoawayError(UntilEnd(idle)), 0);
  TestClient slow(world.at);
  slow.Send(Opening() + Begin(1) + Frame(kData, 0, 1, "x"));
  EXPECT_TRUE(Eventually([&] { return world.server->stats().answers_of(GrpcCode::kDeadlineExceeded) == 1; }));
}

TEST(GrpcServer, ClosesClientsThatDoNotRead) {
  GrpcServer::Options options;
  options.limits.write_timeout = milliseconds(100);
  GrpcWorld world(options);
  TestClient client(world.at);
  // A window of nothing: the answer can never go out.
  client.Send(std::string(kPreface) + Frame(kSettings, 0, 0, std::string("\0\4\0\0\0\0", 6)));
  client.Send(Begin(1) + Frame(kData, kEndStream, 1, GrpcMessageHead(false, 100) + std::string(100, 'x')));
  UntilEnd(client);
  EXPECT_EQ(world.server->stats().refusals(Refusal::kSlow), 1u);
  EXPECT_TRUE(Eventually([&] { return world.server->stats().connections == 0; }));
}

TEST(GrpcServer, ConnectionsAreBounded) {
  GrpcServer::Options options;
  options.limits.connections = 4;
  GrpcWorld world(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(world.at));
    clients.back()->Send(Opening());
    EXPECT_TRUE(Eventually([&] { return world.server->stats().accepted == static_cast<uint64_t>(i) + 1; }));
    EXPECT_LE(world.server->stats().connections, 4u);
  }
  EXPECT_EQ(world.Call(kEcho, "x").answer, "x");
}

TEST(GrpcServer, AFullConnectionAnswersInTheEnd) {
  GrpcServer::Options options;
  options.limits.http2.streams = 2;
  GrpcWorld world(options);
  std::vector<std::future<GrpcReply>> calls;
  for (int i = 0; i < 30; ++i) calls.push_back(world.Begin(kEcho, std::string(100'000, 'x')));
  for (auto& call : calls) EXPECT_EQ(call.get().answer.size(), 100'000u);
}

}  // namespace
}  // namespace gpulens
