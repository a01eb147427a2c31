// The receiver over gRPC, from a client's call to sinks that accept everything, are full, or fail.

#include "plugins/receivers/otlp/otlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "ingest/receiver_testing.h"
#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_in_testing.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kMetrics[] = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
constexpr char kLogs[] = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
constexpr char kTraces[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

class OtlpGrpcTest : public receiver_testing::IngestTest {
 protected:
  OtlpGrpcTest() : IngestTest("otlp/grpc") { grpc_options_.at = {"otlp", {"127.0.0.1:0"}}; }
  ~OtlpGrpcTest() override {
    channel_ = nullptr;
    Close([this] { grpc_ = nullptr; });
  }
  void Serve() {
    OpenIngest();
    auto opened = OtlpGrpc::Open(grpc_options_, env_, *ingest_);
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    grpc_ = *std::move(opened);
    GrpcTarget target;
    target.url = *ParseHttpUrl("http://127.0.0.1");
    target.url.port = grpc_->addresses().at(0).port;
    channel_ = client_.Open(target);
  }
  std::future<GrpcReply> Begin(const char* path, std::string message, bool gzip = false) {
    auto came = std::make_shared<std::promise<GrpcReply>>();
    GrpcCall call{path, {},      std::make_shared<const std::string>(std::move(message)),
                  gzip, nullptr, seconds(20)};
    loop_.Call([&] {
      channel_->Call(std::move(call), [came](GrpcReply& reply) { came->set_value(std::move(reply)); });
    });
    return came->get_future();
  }
  GrpcReply Call(const char* path, std::string message, bool gzip = false) {
    return Begin(path, std::move(message), gzip).get();
  }
  ReceiverStats::OfSignal Stats(OtlpSignal signal = OtlpSignal::kMetrics) const {
    ReceiverStats stats;
    ingest_->ReadStats(stats);
    return stats.transports.at(0).signals[static_cast<size_t>(signal)];
  }

  OtlpGrpc::Options grpc_options_;
  std::unique_ptr<OtlpGrpc> grpc_;
  GrpcClient client_{loop_};
  std::unique_ptr<GrpcChannel> channel_;
  const std::string point_ = Request("", In(2, Gauge("m", In(1, Point("")))));
};

TEST_F(OtlpGrpcTest, AnswersAllServicesAfterTheSinks) {
  Serve();
  sinks_.Hold();
  auto waiting = Begin(kMetrics, point_);
  ASSERT_TRUE(sinks_.Await(1));
  EXPECT_TRUE(Stats().requests.empty()) << "not yet";
  sinks_.LetGo();
  const GrpcReply reply = waiting.get();
  EXPECT_EQ(reply.code, GrpcCode::kOk) << reply.message;
  EXPECT_EQ(reply.answer, "") << "an empty response says that all of it was accepted";
  EXPECT_EQ(Call(kLogs, Request("", In(2, In(5, Text(1, "line"))))).code, GrpcCode::kOk);
  EXPECT_EQ(Call(kTraces, Request("", In(2, Text(5, "span")))).code, GrpcCode::kOk);
  const auto received = sinks_.received();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0]->signal, OtlpSignal::kMetrics);
  EXPECT_EQ(received[1]->signal, OtlpSignal::kLogs);
  EXPECT_EQ(received[2]->signal, OtlpSignal::kTraces);
  EXPECT_EQ(received[0]->bytes, point_);
  EXPECT_EQ(Stats().requests.at("OK"), 1u);
  EXPECT_EQ(Stats(OtlpSignal::kTraces).accepted, 1u);
}

TEST_F(OtlpGrpcTest, BadPointsAreAPartialSuccess) {
  Serve();
  const std::string bad = In(1, Point(In(7, Pair("\xff", "v"))));
  const GrpcReply reply = Call(kMetrics, Request("", In(2, Gauge("m", In(1, Point("")) + bad))));
  EXPECT_EQ(reply.code, GrpcCode::kOk);
  const auto partial = ReadOtlpAnswer(reply.answer);
  ASSERT_TRUE(partial.has_value());
  EXPECT_EQ(partial->rejected, 1);
  EXPECT_EQ(partial->message, "a text is not valid UTF-8");
  EXPECT_EQ(Stats().accepted, 1u);
  EXPECT_EQ(Stats().rejected, 1u);
}

// RESOURCE_EXHAUSTED without a RetryInfo would be read as "never again".
TEST_F(OtlpGrpcTest, FullSinksSendARetryDelay) {
  Serve();
  sinks_.Answer({Code::kExhausted, "the queue of sinks.otlp is full"});
  const GrpcReply full = Call(kMetrics, point_);
  EXPECT_EQ(full.code, GrpcCode::kResourceExhausted);
  EXPECT_EQ(full.message, "the queue of sinks.otlp is full");
  EXPECT_EQ(ReadGrpcRetryInfo(full.details), Duration(seconds(1)));
  sinks_.Answer({Code::kIo, "disk"});
  const GrpcReply failed = Call(kMetrics, point_);
  EXPECT_EQ(failed.code, GrpcCode::kUnavailable);
  EXPECT_EQ(ReadGrpcRetryInfo(failed.details), Duration(seconds(1)));
  EXPECT_EQ(Stats().refused, 2u);
  EXPECT_EQ(Stats().requests.at("RESOURCE_EXHAUSTED"), 1u);
  sinks_.Answer(Ok());
  EXPECT_EQ(Call(kMetrics, point_).code, GrpcCode::kOk) << "the connection is as good as before";
}

TEST_F(OtlpGrpcTest, UnknownMethodsAreUnimplemented) {
  Serve();
  EXPECT_EQ(Call("/opentelemetry.proto.collector.metrics.v1.MetricsService/Import", point_).code,
            GrpcCode::kUnimplemented);
  EXPECT_EQ(Call("/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export", point_).code,
            GrpcCode::kUnimplemented);
  EXPECT_TRUE(sinks_.received().empty());
}

TEST_F(OtlpGrpcTest, UnpacksGzip) {
  Serve();
  std::string packed;
  GzipCompressor().Compress(point_, packed);
  EXPECT_EQ(Call(kMetrics, packed, true).code, GrpcCode::kOk);
  ASSERT_EQ(sinks_.received().size(), 1u);
  EXPECT_EQ(sinks_.received()[0]->bytes, point_);
  packed.resize(packed.size() / 2);
  EXPECT_NE(Call(kMetrics, packed, true).code, GrpcCode::kOk);
  EXPECT_EQ(sinks_.received().size(), 1u);
}

TEST_F(OtlpGrpcTest, RefusesLargeAndMalformedMessages) {
  ingest_options_.max_request = grpc_options_.max_request = 64 << 10;
  Serve();
  const std::string large = Request("", In(2, Gauge(std::string(70'000, 'm'), In(1, Point("")))));
  const GrpcReply refused = Call(kMetrics, large);
  EXPECT_EQ(refused.code, GrpcCode::kResourceExhausted);
  EXPECT_FALSE(ReadGrpcRetryInfo(refused.details).has_value()) << "it will not fit another time";
  std::string packed;
  GzipCompressor().Compress(large, packed);
  ASSERT_LT(packed.size(), 1000u);
  EXPECT_EQ(Call(kMetrics, packed, true).code, GrpcCode::kResourceExhausted);
  const GrpcReply broken = Call(kMetrics, "\x0a\x7f");
  EXPECT_EQ(broken.code, GrpcCode::kInvalidArgument);
  EXPECT_THAT(broken.message, HasSubstr("not a protobuf message"));
  EXPECT_EQ(Call(kMetrics, "").code, GrpcCode::kOk) << "nothing is a request, too";
  EXPECT_TRUE(sinks_.received().empty());
}

TEST_F(OtlpGrpcTest, AnswersManyCallsOfOneConnection) {
  Serve();
  std::vector<std::future<GrpcReply>> calls;
  for (int i = 0; i < 50; ++i) calls.push_back(Begin(kMetrics, point_));
  for (auto& call : calls) EXPECT_EQ(call.get().code, GrpcCode::kOk);
  EXPECT_EQ(Stats().accepted, 50u);
}

TEST_F(OtlpGrpcTest, AcceptsNothingAfterTheEnd) {
  Serve();
  ingest_->Finish();
  const GrpcReply reply = Call(kMetrics, point_);
  EXPECT_EQ(reply.code, GrpcCode::kUnavailable);
  EXPECT_EQ(ReadGrpcRetryInfo(reply.details), Duration(seconds(1)));
}

}  // namespace
}  // namespace gpulens
