// The receiver over HTTP, from the socket to a sink that hangs, is full, or accepts everything.

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/process.h"
#include "ingest/otlp_ingest.h"
#include "ingest/receiver_testing.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/testing/test_client.h"
#include "plugins/receiver.h"
#include "plugins/receivers/otlp/otlp.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_in_testing.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using namespace otlp_in_testing;
using ::gpulens::testing::Answer;
using ::gpulens::testing::Eventually;
using ::gpulens::testing::TestClient;

class OtlpReceiverTest : public receiver_testing::IngestTest {
 protected:
  OtlpReceiverTest() : IngestTest("otlp/http") {
    ingest_options_.unwanted = {"go_*"};
    ingest_options_.identity.stated = AttributeSet({{"k8s.cluster.name", "c1"}});
  }
  ~OtlpReceiverTest() override {
    Close([this] { http_ = nullptr; });
  }
  void Serve() {
    OpenIngest();
    OtlpHttp::Options http;
    http.at = {"otlp", {"127.0.0.1:0"}};
    http.max_arriving = max_arriving_;
    http.max_request = ingest_options_.max_request;
    auto opened = OtlpHttp::Open(http, env_, *ingest_);
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    http_ = *std::move(opened);
    at_ = http_->addresses().at(0);
  }
  static std::string Post(const std::string& path, const std::string& body,
                          const std::string& fields = "Content-Type: application/x-protobuf\r\n") {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  Answer Send(const std::string& path, const std::string& body,
              const std::string& fields = "Content-Type: application/x-protobuf\r\n") {
    TestClient client(at_);
    client.Send(Post(path, body, fields));
    return client.Read();
  }
  ReceiverStats::Transport Stats() const {
    ReceiverStats stats;
    ingest_->ReadStats(stats);
    return stats.transports.at(0);
  }

  std::unique_ptr<OtlpHttp> http_;
  Endpoint at_;
  size_t max_arriving_ = 32u << 20;
  const std::string point_ = Request("", In(2, Gauge("m", In(1, Point("")))));
};

TEST_F(OtlpReceiverTest, ForwardsAllSignalsWithConfiguredAttributes) {
  Serve();
  EXPECT_EQ(Send("/v1/metrics", point_).status, 200);
  EXPECT_EQ(Send("/v1/logs", Request("", In(2, In(5, Text(1, "line"))))).status, 200);
  EXPECT_EQ(Send("/v1/traces", Request("", In(2, Text(5, "span")))).status, 200);
  const auto received = sinks_.received();
  ASSERT_EQ(received.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(static_cast<size_t>(received[i]->signal), i);
    EXPECT_EQ(received[i]->items, 1u);
    EXPECT_NE(received[i]->bytes.find(Pair("k8s.cluster.name", "c1")), std::string::npos);
  }
  EXPECT_EQ(Stats().signals[0].accepted, 1u);
  EXPECT_EQ(Stats().signals[2].requests.at("200"), 1u);
  EXPECT_GT(Stats().received_bytes, point_.size());
}

TEST_F(OtlpReceiverTest, AcceptsCompressedAndJsonBodies) {
  Serve();
  std::string packed;
  GzipCompressor().Compress(point_, packed);
  EXPECT_EQ(Send("/v1/metrics", packed, "Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n")
                .status,
            200);
  ZstdCompressor().Compress(point_, packed);
  EXPECT_EQ(Send("/v1/metrics", packed, "Content-Type: application/x-protobuf\r\nContent-Encoding: zstd\r\n")
                .status,
            200);
  const std::string json =
      R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"7"}]}}]}]}]})";
  const Answer answer = Send("/v1/metrics", json, "Content-Type: application/json; charset=utf-8\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
  EXPECT_EQ(answer.body, "{}");
  ASSERT_EQ(sinks_.received().size(), 3u);
  EXPECT_EQ(sinks_.received()[0]->bytes, sinks_.received()[1]->bytes);
}

TEST_F(OtlpReceiverTest, RefusesMalformedBodiesWithAMessage) {
  Serve();
  const Answer broken = Send("/v1/metrics", "\x0a\x7f");
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(broken.Header("Content-Type"), "application/x-protobuf");
  EXPECT_EQ(ReadOtlpError(broken.body), "the request is not a protobuf message");
  EXPECT_EQ(Send("/v1/logs", "{\"resourceLogs\":", "Content-Type: application/json\r\n").status, 400);
  EXPECT_EQ(Send("/v1/metrics", point_, "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(
      Send("/v1/metrics", point_, "Content-Type: application/x-protobuf\r\nContent-Encoding: br\r\n").status,
      415);
  std::string packed;
  GzipCompressor().Compress(point_, packed);
  packed.resize(packed.size() / 2);
  EXPECT_EQ(Send("/v1/metrics", packed, "Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n")
                .status,
            400);
  EXPECT_EQ(Send("/v1/profiles", "").status, 404);
  TestClient client(at_);
  client.Send("GET /v1/metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().status, 405);
  EXPECT_TRUE(sinks_.received().empty());
}

TEST_F(OtlpReceiverTest, RefusesLargeBodiesCompressedOrNot) {
  ingest_options_.max_request = 64 << 10;
  Serve();
  const std::string large = Request("", In(2, Gauge(std::string(70'000, 'm'), In(1, Point("")))));
  const Answer refused = Send("/v1/metrics", large);
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.Header("Content-Type"), "application/x-protobuf");
  EXPECT_EQ(ReadOtlpError(refused.body), "The request body is too large.");
  std::string packed;
  GzipCompressor().Compress(large, packed);
  ASSERT_LT(packed.size(), 1000u);
  EXPECT_EQ(Send("/v1/metrics", packed, "Content-Type: application/x-protobuf\r\nContent-Encoding: gzip\r\n")
                .status,
            413);
  EXPECT_EQ(Send("/v1/metrics", "", "Content-Type: application/x-protobuf\r\n").status, 200);
}

// Refusals of the server itself are google.rpc.Status in the encoding of the request, too.
TEST_F(OtlpReceiverTest, RefusalsOfTheServerAreMessages) {
  ingest_options_.max_request = 64 << 10;
  max_arriving_ = 20'000;
  Serve();
  const std::string json = "Content-Type: application/json\r\n";
  const Answer large = Send("/v1/logs", std::string(70'000, ' '), json);
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.Header("Content-Type"), "application/json");
  EXPECT_EQ(large.body, R"({"code":3,"message":"The request body is too large."})");
  const Answer busy = Send("/v1/metrics", std::string(30'000, ' '));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.Header("Retry-After"), "1");
  EXPECT_EQ(ReadOtlpError(busy.body), "Too many requests are arriving at once. Try again.");
  EXPECT_EQ(Send("/v1/metrics", std::string(30'000, ' '), json).body,
            R"({"code":8,"message":"Too many requests are arriving at once. Try again."})");
  TestClient get(at_);
  get.Send("GET /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n");
  const Answer wrong = get.Read();
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.body, R"({"code":12,"message":"/v1/metrics allows POST, OPTIONS"})");
  EXPECT_EQ(wrong.Header("Allow"), "POST, OPTIONS");
  // Malformed requests, and those of unknown paths, have no encoding.
  TestClient broken(at_);
  broken.Send("POST /v1/metrics HTTP/9.9\r\n\r\n");
  EXPECT_EQ(broken.Read().Header("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_EQ(Send("/v1/profiles", "").Header("Content-Type"), "text/plain; charset=utf-8");
}

TEST_F(OtlpReceiverTest, BadPointsAreAPartialSuccess) {
  Serve();
  const std::string bad = In(1, Point(In(7, Pair("\xff", "v"))));
  const Answer answer = Send("/v1/metrics", Request("", In(2, Gauge("m", In(1, Point("")) + bad)) +
                                                            In(2, Gauge("go_x", In(1, Point(""))))));
  EXPECT_EQ(answer.status, 200);
  const auto partial = ReadOtlpAnswer(answer.body);
  ASSERT_TRUE(partial.has_value());
  EXPECT_EQ(partial->rejected, 1);
  EXPECT_EQ(partial->message, "a text is not valid UTF-8");
  EXPECT_EQ(Stats().signals[0].accepted, 1u);
  EXPECT_EQ(Stats().signals[0].rejected, 1u);
  EXPECT_EQ(Stats().signals[0].filtered, 1u);
}

TEST_F(OtlpReceiverTest, AnswersAfterTheSinks) {
  Serve();
  sinks_.Hold();
  TestClient client(at_);
  client.Send(Post("/v1/metrics", point_));
  ASSERT_TRUE(sinks_.Await(1));
  EXPECT_EQ(Stats().signals[0].accepted, 0u);
  EXPECT_TRUE(Stats().signals[0].requests.empty());
  sinks_.LetGo();
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(Stats().signals[0].accepted, 1u);
}

TEST_F(OtlpReceiverTest, FullSinksSendARetryDelay) {
  Serve();
  sinks_.Answer({Code::kExhausted, "the queue of sinks.otlp is full"});
  const Answer full = Send("/v1/metrics", point_);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.Header("Retry-After"), "1");
  EXPECT_EQ(ReadOtlpError(full.body), "the queue of sinks.otlp is full");
  sinks_.Answer({Code::kIo, "disk"});
  EXPECT_EQ(Send("/v1/metrics", point_).status, 503);
  EXPECT_EQ(Stats().signals[0].refused, 2u);
  EXPECT_EQ(Stats().signals[0].accepted, 0u);
}

TEST_F(OtlpReceiverTest, HangingSinkTimesOutAndMemoryStaysBounded) {
  ingest_options_.max_waiting = 8 << 10;
  ingest_options_.batch.items = 1;
  Serve();
  sinks_.Hold();
  std::vector<TestClient> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back(at_);
    clients.back().Send(Post("/v1/metrics", point_));
  }
  // The sink holds some, all others are answered with 429.
  ASSERT_TRUE(sinks_.Await(8));
  size_t held = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto codes = Stats().signals[0].requests;
    const auto refused = codes.find("429");
    held = sinks_.received().size();
    return refused != codes.end() && refused->second + held == 40;
  }));
  EXPECT_LE(held, 8u);
  sinks_.LetGo();
}

TEST_F(OtlpReceiverTest, LargeRequestsAreSplitAndAnsweredOnce) {
  std::string points;
  for (int i = 0; i < 2500; ++i) points += In(1, Point("", i));
  Serve();
  EXPECT_EQ(Send("/v1/metrics", Request("", In(2, Gauge("m", points)))).status, 200);
  std::vector<uint32_t> items;
  for (const auto& received : sinks_.received()) items.push_back(received->items);
  EXPECT_EQ(items, (std::vector<uint32_t>{1000, 1000, 500}));
  EXPECT_EQ(Stats().signals[0].accepted, 2500u);
}

TEST_F(OtlpReceiverTest, MergesConcurrentRequests) {
  ingest_options_.batch_wait = std::chrono::seconds(10);
  ingest_options_.batch.items = 20;
  Serve();
  std::vector<TestClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(at_);
    clients.back().Send(Post("/v1/metrics", point_));
  }
  for (TestClient& client : clients) EXPECT_EQ(client.Read().status, 200);
  ASSERT_EQ(sinks_.received().size(), 1u);
  EXPECT_EQ(sinks_.received()[0]->items, 20u);
}

TEST_F(OtlpReceiverTest, ReportsTheMemoryLimit) {
  ingest_options_.memory.limit = 1;
  ingest_options_.memory.share = 1;
  ingest_options_.memory.spike = 0;
  Serve();
  const Answer answer = Send("/v1/traces", Request("", In(2, Text(5, "span"))));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(ReadOtlpError(answer.body), "the memory limit is reached");
}

TEST_F(OtlpReceiverTest, AcceptsNothingAfterTheEnd) {
  Serve();
  ingest_->Finish();
  const Answer answer = Send("/v1/metrics", point_);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.Header("Retry-After"), "1");
}

TEST_F(OtlpReceiverTest, RefusesOtherMachinesByDefault) {
  Serve();
  OtlpHttp::Options open;
  open.at = {"otlp", {"0.0.0.0:0"}};
  auto refused = OtlpHttp::Open(open, env_, *ingest_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_NE(refused.error().detail.find("insecure"), std::string::npos);
  open.at.insecure = true;
  EXPECT_TRUE(OtlpHttp::Open(open, env_, *ingest_).ok());
}

TEST(MemoryLimiter, SoftLimitIsTheShareWithoutTheSpike) {
  ManualClock clock;
  uint64_t used = 50;
  MemoryLimiter limiter({.limit = 100, .share = 0.8, .spike = 0.25}, clock, [&] { return used; });
  EXPECT_EQ(limiter.soft_limit(), 55u);
  EXPECT_TRUE(limiter.HasRoom());
  used = 56;
  EXPECT_TRUE(limiter.HasRoom()) << "looks ten times a second at most";
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(limiter.HasRoom());
  used = 55;
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_TRUE(limiter.HasRoom());
  EXPECT_TRUE(MemoryLimiter({}, clock, [] { return UINT64_MAX; }).HasRoom());
  EXPECT_GT(ResidentBytes(0, true), 1u << 20);
}

}  // namespace
}  // namespace gpulens
