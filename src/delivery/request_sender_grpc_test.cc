// RequestSender over gRPC, to a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "delivery/request_sender.h"
#include "net/grpc/grpc_server.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the answers of its script, then kOk; records requests.
struct Receiver final : GrpcHandler {
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    std::lock_guard lock(mutex);
    came.push_back(request.path + " " + std::string(request.fields.Find("x-tenant")) + " " + request.message);
    GrpcAnswer answer = GrpcAnswer::Ok("partial");
    if (came.size() <= script.size()) answer = script[came.size() - 1];
    responder.Send(std::move(answer));
  }
  std::vector<std::string> Came() {
    std::lock_guard lock(mutex);
    return came;
  }
  std::vector<GrpcAnswer> script;
  std::mutex mutex;
  std::vector<std::string> came;
};

struct SenderWithServer {
  explicit SenderWithServer(std::vector<GrpcAnswer> script) {
    receiver.script = std::move(script);
    loop.Start();
    server.emplace(loop, std::vector<GrpcRoute>{{"/a.A/Send", &receiver}, {"/b.B/Send", &receiver}},
                   GrpcServer::Options{});
    const Endpoint at = *server->Listen(*ParseListenAddress("127.0.0.1:0"));
    SendSetup setup;
    setup.name = "test";
    setup.timeout = seconds(20);
    setup.backoff = {.initial = milliseconds(1), .cap = milliseconds(5)};
    setup.signals = {"a", "b"};
    setup.access = [](size_t, size_t) { return SendAccess{"X-Tenant: ann\r\n", nullptr}; };
    setup.classify_call = [](const GrpcReply& reply, size_t) -> SendOutcome {
      if (reply.code == GrpcCode::kOk) return {SendOutcome::kTaken, reply.answer == "partial" ? 1u : 0u, ""};
      return {IsRetryable(reply) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, reply.message};
    };
    setup.prepare = [](LogRecord& record, SendParts& parts, bool&) {
      SendPart& part = parts.list.emplace_back();
      part.route = static_cast<size_t>(record.bytes[0]);
      part.items = record.items;
      part.body = std::make_shared<const std::string>(record.bytes.substr(1));
      return Ok();
    };
    setup.routes = {{0, {}, "/a.A/Send"}, {1, {}, "/b.B/Send"}};
    HttpTarget target{*ParseHttpUrl("http://127.0.0.1"), {}, {}};
    target.url.port = at.port;
    setup.endpoints = {{"test", 0, {target, target}}};
    log = RequestLog::Open({.owner = "test"}, RealClock());
    sender.emplace(std::make_shared<const SendSetup>(std::move(setup)), client, loop, RealClock());
    sender->Add(log->Attach("test", {}, sender->waker()), RequestSender::kOwn);
  }
  Result<RequestLog::Kept> Push(char route, const std::string& body) { return log->Append(route + body, 10); }

  IoLoop loop;
  Receiver receiver;
  std::optional<GrpcServer> server;
  HttpClient client{loop};
  std::shared_ptr<RequestLog> log;
  std::optional<RequestSender> sender;
};

TEST(RequestSenderGrpc, DeliversInOrderToTheMethodOfEachRoute) {
  SenderWithServer world({});
  ASSERT_TRUE(world.Push('\0', "one").ok() && world.Push('\1', "two").ok());
  EXPECT_TRUE(world.sender->Finish(RealClock().Now() + seconds(20)).ok());
  EXPECT_THAT(world.receiver.Came(), ElementsAre("/a.A/Send ann one", "/b.B/Send ann two"));
  RequestSender::Stats stats;
  world.sender->stats(stats);
  EXPECT_EQ(stats.signals[0].delivered, 9u);
  EXPECT_EQ(stats.signals[0].rejected, 1u);
  EXPECT_EQ(stats.requests["OK"], 2u);
}

TEST(RequestSenderGrpc, TriesAgainWhatMayBeTakenLaterAndGivesUpTheRest) {
  SenderWithServer world({GrpcAnswer::Failure(GrpcCode::kUnavailable, "starting"),
                          GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "busy", milliseconds(30)),
                          GrpcAnswer::Ok(""), GrpcAnswer::Failure(GrpcCode::kInvalidArgument, "never")});
  ASSERT_TRUE(world.Push('\0', "one").ok() && world.Push('\0', "two").ok());
  const Status end = world.sender->Finish(RealClock().Now() + seconds(20));
  EXPECT_EQ(end.code, Code::kDataLoss);
  EXPECT_THAT(end.detail, HasSubstr("never"));
  EXPECT_THAT(world.receiver.Came(), ElementsAre("/a.A/Send ann one", "/a.A/Send ann one",
                                                 "/a.A/Send ann one", "/a.A/Send ann two"));
  RequestSender::Stats stats;
  world.sender->stats(stats);
  EXPECT_EQ(stats.retries, 2u);
  EXPECT_EQ(stats.refused, 1u);
  EXPECT_EQ(stats.requests["UNAVAILABLE"] + stats.requests["RESOURCE_EXHAUSTED"] +
                stats.requests["INVALID_ARGUMENT"],
            3u);
}

TEST(RequestSenderGrpc, KeepsWhatCannotBeDelivered) {
  SenderWithServer world({});
  world.server.reset();
  ASSERT_TRUE(world.Push('\0', "one").ok());
  EXPECT_EQ(world.sender->Finish(RealClock().Now() + milliseconds(200)).code, Code::kTimeout);
  world.sender.reset();
  EXPECT_EQ(world.log->Attach("test", {}, nullptr)->stats().records, 1u);
}

}  // namespace
}  // namespace gpulens
