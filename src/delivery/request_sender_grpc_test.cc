// ParcelSender over gRPC, to a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "delivery/parcel_sender.h"
#include "net/grpc/grpc_server.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers as its script says, then kOk; writes down what it was sent.
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
    ParcelSender::Options options;
    options.name = "test";
    options.timeout = seconds(20);
    options.backoff = {.initial = milliseconds(1), .cap = milliseconds(5)};
    options.access = [](size_t) { return ParcelSender::Access{"X-Tenant: ann\r\n", nullptr}; };
    options.judge_call = [](const GrpcReply& reply) -> SendOutcome {
      if (reply.code == GrpcCode::kOk) return {SendOutcome::kTaken, reply.answer == "partial" ? 1u : 0u, ""};
      return {IsRetryable(reply) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, reply.message};
    };
    for (const char* method : {"/a.A/Send", "/b.B/Send"}) {
      SendRoute route{method, {*ParseHttpUrl("http://127.0.0.1"), {}, {}}, {}, method};
      route.target.url.port = at.port;
      options.routes.push_back(std::move(route));
    }
    queue = *ParcelQueue::Open({}, RealClock());
    sender.emplace(std::move(options), *queue, client, loop, RealClock());
  }
  Status Push(char route, const std::string& body) { return queue->Push(route + body, 10); }

  IoLoop loop;
  Receiver receiver;
  std::optional<GrpcServer> server;
  HttpClient client{loop};
  std::unique_ptr<ParcelQueue> queue;
  std::optional<ParcelSender> sender;
};

TEST(ParcelSenderGrpc, DeliversInOrderToTheMethodOfEachRoute) {
  SenderWithServer world({});
  ASSERT_TRUE(world.Push('\0', "one").ok() && world.Push('\1', "two").ok());
  EXPECT_TRUE(world.sender->Finish(RealClock().Now() + seconds(20)).ok());
  EXPECT_THAT(world.receiver.Came(), ElementsAre("/a.A/Send ann one", "/b.B/Send ann two"));
  ParcelSender::Stats stats;
  world.sender->stats(stats);
  EXPECT_EQ(stats.routes[0].delivered, 9u);
  EXPECT_EQ(stats.routes[0].rejected, 1u);
  EXPECT_EQ(stats.requests["OK"], 2u);
}

TEST(ParcelSenderGrpc, TriesAgainWhatMayBeTakenLaterAndGivesUpTheRest) {
  SenderWithServer world({GrpcAnswer::Failure(GrpcCode::kUnavailable, "starting"),
                          GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "busy", milliseconds(30)),
                          GrpcAnswer::Ok(""), GrpcAnswer::Failure(GrpcCode::kInvalidArgument, "never")});
  ASSERT_TRUE(world.Push('\0', "one").ok() && world.Push('\0', "two").ok());
  const Status end = world.sender->Finish(RealClock().Now() + seconds(20));
  EXPECT_EQ(end.code, Code::kDataLoss);
  EXPECT_THAT(end.detail, HasSubstr("never"));
  EXPECT_THAT(world.receiver.Came(), ElementsAre("/a.A/Send ann one", "/a.A/Send ann one",
                                                 "/a.A/Send ann one", "/a.A/Send ann two"));
  ParcelSender::Stats stats;
  world.sender->stats(stats);
  EXPECT_EQ(stats.retries, 2u);
  EXPECT_EQ(stats.refused, 1u);
  EXPECT_EQ(stats.requests["UNAVAILABLE"] + stats.requests["RESOURCE_EXHAUSTED"] +
                stats.requests["INVALID_ARGUMENT"],
            3u);
}

TEST(ParcelSenderGrpc, KeepsWhatCannotBeDelivered) {
  SenderWithServer world({});
  world.server.reset();
  ASSERT_TRUE(world.Push('\0', "one").ok());
  EXPECT_EQ(world.sender->Finish(RealClock().Now() + milliseconds(200)).code, Code::kTimeout);
  EXPECT_EQ(world.queue->stats().parcels, 1u);
}

}  // namespace
}  // namespace gpulens
