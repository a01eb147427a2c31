#include "plugins/sinks/otlp/otlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/packing.h"

namespace gpulens {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

GrpcReply Reply(GrpcCode code, HttpFailure failure = HttpFailure::kNone, int http_status = 200) {
  GrpcReply reply;
  reply.code = code;
  reply.failure = failure;
  reply.http_status = http_status;
  reply.message = "why";
  return reply;
}

TEST(OtlpGrpc, RetriesTheCodesOfTheSpecification) {
  for (GrpcCode code : {GrpcCode::kCancelled, GrpcCode::kDeadlineExceeded, GrpcCode::kAborted,
                        GrpcCode::kOutOfRange, GrpcCode::kUnavailable, GrpcCode::kDataLoss})
    EXPECT_EQ(ClassifyOtlpReply(Reply(code)).kind, SendOutcome::kAgain) << GrpcCodeName(code);
  for (GrpcCode code :
       {GrpcCode::kUnknown, GrpcCode::kInvalidArgument, GrpcCode::kNotFound, GrpcCode::kAlreadyExists,
        GrpcCode::kPermissionDenied, GrpcCode::kFailedPrecondition, GrpcCode::kUnimplemented,
        GrpcCode::kInternal, GrpcCode::kUnauthenticated, GrpcCode::kResourceExhausted})
    EXPECT_EQ(ClassifyOtlpReply(Reply(code)).kind, SendOutcome::kRefused) << GrpcCodeName(code);
  GrpcReply full = Reply(GrpcCode::kResourceExhausted);
  full.details = MakeGrpcDetails(full.code, "", seconds(3));
  EXPECT_EQ(ClassifyOtlpReply(full).kind, SendOutcome::kAgain);
  EXPECT_THAT(ClassifyOtlpReply(full).detail, HasSubstr("RESOURCE_EXHAUSTED: why"));
}

TEST(OtlpGrpc, RetriesWithoutAStatus) {
  for (HttpFailure failure :
       {HttpFailure::kConnect, HttpFailure::kTls, HttpFailure::kTimeout, HttpFailure::kProtocol})
    EXPECT_EQ(ClassifyOtlpReply(Reply(GrpcCode::kInternal, failure, 0)).kind, SendOutcome::kAgain);
  EXPECT_EQ(ClassifyOtlpReply(Reply(GrpcCode::kUnavailable, HttpFailure::kStatus, 503)).kind,
            SendOutcome::kAgain);
  EXPECT_EQ(ClassifyOtlpReply(Reply(GrpcCode::kUnimplemented, HttpFailure::kStatus, 404)).kind,
            SendOutcome::kRefused);
  EXPECT_EQ(ClassifyOtlpReply(Reply(GrpcCode::kUnauthenticated, HttpFailure::kAuth, 401)).kind,
            SendOutcome::kRefused);
}

TEST(OtlpGrpc, CountsRejectedPoints) {
  GrpcReply reply = Reply(GrpcCode::kOk);
  EXPECT_EQ(ClassifyOtlpReply(reply).rejected, 0u);
  reply.answer = "\x0a\x07\x08\x03\x12\x03old";
  const SendOutcome outcome = ClassifyOtlpReply(reply);
  EXPECT_EQ(outcome.kind, SendOutcome::kTaken);
  EXPECT_EQ(outcome.rejected, 3u);
  EXPECT_EQ(outcome.detail, "old");
}

TEST(OtlpGrpc, EveryRouteIsACallOfItsSignal) {
  SendPlan setup;
  setup.routes = OtlpRoutes();
  MakeOtlpCalls(setup);
  constexpr std::string_view kCalls[] = {"MetricsService/Export", "LogsService/Export",
                                         "TraceService/Export"};
  for (size_t route = 0; route < setup.routes.size(); ++route) {
    EXPECT_THAT(setup.routes[route].grpc_method, HasSubstr(kCalls[OtlpEncodingOf(route).signal]));
    EXPECT_EQ(setup.routes[route].headers, "");
  }
  EXPECT_FALSE(setup.routes[NumberOf({0, 0, false})].gzip);
  EXPECT_TRUE(setup.routes[NumberOf({1, 1, false})].gzip);
}

// A queue that was filled with another `protocol` or `compression` is sent nevertheless.
TEST(OtlpGrpc, OtherEncodingsOfTheQueueAreRewritten) {
  const std::string json = R"({"resourceMetrics":[{"schemaUrl":"x"}]})", protobuf = "\x0a\x03\x1a\x01x";
  std::string gzip, zstd;
  GzipCompressor().Compress(json, gzip);
  ZstdCompressor().Compress(protobuf, zstd);
  struct {
    size_t route;
    std::string body;
  } const cases[] = {
      {NumberOf({0, 0, true}), json}, {NumberOf({0, 1, true}), gzip}, {NumberOf({0, 2, false}), zstd}};
  for (const auto& each : cases) {
    SendPart part{each.route, {}, std::make_shared<const std::string>(each.body)};
    EXPECT_TRUE(ReworkForOtlpCall(part).ok());
    EXPECT_EQ(part.route, NumberOf({0, 0, false}));
    EXPECT_EQ(*part.body, protobuf);
  }
  SendPart part{NumberOf({1, 1, false}), {}, std::make_shared<const std::string>("as it is")};
  EXPECT_TRUE(ReworkForOtlpCall(part).ok());
  EXPECT_EQ(part.route, NumberOf({1, 1, false}));
  EXPECT_EQ(*part.body, "as it is");
  part.route = NumberOf({0, 2, true});
  EXPECT_FALSE(ReworkForOtlpCall(part).ok()) << "damaged";
}

}  // namespace
}  // namespace gpulens
