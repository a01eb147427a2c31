// The receiver from the socket to sinks that accept everything, are full, or hang.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ingest/receiver_testing.h"
#include "net/io_loop.h"
#include "net/testing/test_client.h"
#include "plugins/receivers/remote_write/remote_write.h"
#include "wire/remote_write/otlp_metrics_text_testing.h"
#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {
namespace {

using namespace remote_write_in_testing;
using ::gpulens::testing::Answer;
using ::gpulens::testing::TestClient;
using ::testing::HasSubstr;

constexpr char kFirst[] = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n";
constexpr char kSecond[] =
    "Content-Type: application/x-protobuf;proto=io.prometheus.write.v2.Request\r\nContent-Encoding: "
    "snappy\r\n";

class RemoteWriteReceiverTest : public receiver_testing::IngestTest {
 protected:
  RemoteWriteReceiverTest() : IngestTest("remote_write") {
    ingest_options_.unwanted = {"go_*"};
    ingest_options_.identity.stated = AttributeSet({{"k8s.cluster.name", "c1"}});
    options_.http.at = {"remote_write", {"127.0.0.1:0"}};
  }
  ~RemoteWriteReceiverTest() override {
    Close([this] { http_ = nullptr; });
  }
  void Serve() {
    ingest_options_.max_request = options_.http.max_request;
    OpenIngest();
    auto opened = RemoteWriteHttp::Open(options_, env_, *ingest_);
    ASSERT_TRUE(opened.ok()) << opened.error().detail;
    http_ = *std::move(opened);
  }
  static std::string Post(const std::string& body, const std::string& fields) {
    return "POST /api/v1/write HTTP/1.1\r\nHost: x\r\n" + fields +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  Answer SendRaw(const std::string& body, const std::string& fields) {
    TestClient client(http_->addresses().at(0));
    client.Send(Post(body, fields));
    return client.Read();
  }
  Answer Send(const std::string& request, const std::string& fields) {
    std::string packed;
    SnappyPack(request, packed);
    return SendRaw(packed, fields);
  }
  static std::string Written(const Answer& answer) {
    std::string out;
    for (const char* kind : {"Samples", "Histograms", "Exemplars"})
      out += answer.Header("X-Prometheus-Remote-Write-" + std::string(kind) + "-Written") + " ";
    return out;
  }
  ReceiverStats::OfSignal Stats() const {
    ReceiverStats stats;
    ingest_->ReadStats(stats);
    return stats.transports.at(0).signals[0];
  }

  RemoteWriteHttp::Options options_;
  std::unique_ptr<RemoteWriteHttp> http_;
  const std::string one_ = First().Series({{"__name__", "up"}, {"job", "j"}}, Sample(1)).bytes();
};

TEST_F(RemoteWriteReceiverTest, ForwardsBothVersionsWithConfiguredAttributes) {
  Serve();
  const Answer first = Send(one_, kFirst);
  EXPECT_EQ(first.status, 204);
  EXPECT_EQ(first.body, "");
  EXPECT_EQ(Written(first), "1 0 0 ");
  Second second;
  const std::string exemplar = second.Exemplar({{"trace_id", "x"}}, 1, kMs);
  second.Series({{"__name__", "up"}, {"job", "j"}}, Sample(1) + exemplar)
      .Series({{"__name__", "h"}}, Message(3, Histogram().Bytes()));
  const Answer answer = Send(second.bytes(), kSecond);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(Written(answer), "1 1 1 ");
  const auto received = sinks_.received();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0]->signal, OtlpSignal::kMetrics);
  EXPECT_EQ(received[1]->items, 2u);
  EXPECT_THAT(OtlpMetricsText::Of(received[0]->bytes),
              HasSubstr("[service.name=j, k8s.cluster.name=c1]\n (gpulens.remote_write)\n  up gauge"));
  EXPECT_EQ(Stats().accepted, 3u);
  EXPECT_EQ(Stats().requests.at("204"), 2u);
}

TEST_F(RemoteWriteReceiverTest, ContentTypeSelectsTheVersion) {
  Serve();
  const auto status = [this](const std::string& type, const std::string& packing) {
    return Send(one_, type + packing).status;
  };
  const std::string snappy = "Content-Encoding: snappy\r\n";
  EXPECT_EQ(status("Content-Type: application/x-protobuf;proto=prometheus.WriteRequest\r\n", snappy), 204);
  EXPECT_EQ(
      status("Content-Type: Application/X-Protobuf ; charset=x; proto = \"prometheus.WriteRequest\"\r\n",
             snappy),
      204);
  EXPECT_EQ(status("", ""), 204) << "as older senders do";
  EXPECT_EQ(sinks_.received().size(), 3u);
  // Read as 2.0 it is an empty request.
  EXPECT_EQ(Written(Send(one_, kSecond)), "0 0 0 ");
  EXPECT_EQ(sinks_.received().size(), 3u);
  EXPECT_EQ(status("Content-Type: application/x-protobuf;proto=io.prometheus.write.v3.Request\r\n", snappy),
            415);
  EXPECT_EQ(status("Content-Type: application/json\r\n", snappy), 415);
  const Answer zstd = Send(one_, "Content-Type: application/x-protobuf\r\nContent-Encoding: zstd\r\n");
  EXPECT_EQ(zstd.status, 415);
  EXPECT_EQ(zstd.Header("Accept-Encoding"), "snappy");
  EXPECT_EQ(Stats().requests.at("415"), 3u);
}

TEST_F(RemoteWriteReceiverTest, PermanentErrorsAre400AndTheRestIsWritten) {
  Serve();
  EXPECT_EQ(SendRaw("no snappy", kFirst).status, 400);
  std::string cut;
  SnappyPack(one_ + one_ + one_, cut);
  EXPECT_EQ(SendRaw(cut.substr(0, cut.size() - 3), kFirst).status, 400);
  EXPECT_EQ(Send(one_.substr(0, one_.size() - 2), kFirst).status, 400);
  EXPECT_TRUE(sinks_.received().empty());
  First mixed;
  mixed.Series({{"__name__", "good"}}, Sample(1))
      .Series({{"x", "y"}}, Sample(2))
      .Series({{"__name__", "go_x"}}, Sample(3));
  const Answer partial = Send(mixed.bytes(), kFirst);
  EXPECT_EQ(partial.status, 400);
  EXPECT_EQ(partial.body, "1 of 3 samples were not written: a series has no __name__ (1)\n");
  EXPECT_EQ(Written(partial), "2 0 0 ");
  ASSERT_EQ(sinks_.received().size(), 1u);
  EXPECT_THAT(OtlpMetricsText::Of(sinks_.received()[0]->bytes), HasSubstr("  good gauge"));
  EXPECT_EQ(Stats().accepted, 1u);
  EXPECT_EQ(Stats().rejected, 1u);
  EXPECT_EQ(Stats().filtered, 1u);
  TestClient get(http_->addresses().at(0));
  get.Send("GET /api/v1/write HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(get.Read().status, 405);
}

TEST_F(RemoteWriteReceiverTest, LargeBodiesCompressedOrNotAre413) {
  options_.http.max_request = 64 << 10;
  Serve();
  EXPECT_EQ(SendRaw(std::string(70'000, 'x'), kFirst).status, 413);
  // A block of a few bytes that claims to be a gigabyte, and one that is too large.
  const Answer bomb = SendRaw(std::string("\xff\xff\xff\xff\x03\x00", 6), kFirst);
  EXPECT_EQ(bomb.status, 413);
  EXPECT_EQ(bomb.body, "the request has more than 65536 bytes\n");
  EXPECT_EQ(Send(std::string(100'000, '\0'), kFirst).status, 413);
  Second grows;
  for (int i = 0; i < 100; ++i)
    grows.Series({{"__name__", "x"}, {"text", std::string(2000, 't')}}, Sample(1));
  EXPECT_EQ(Send(grows.bytes(), kSecond).status, 413);
  EXPECT_TRUE(sinks_.received().empty());
  EXPECT_EQ(Send(one_, kFirst).status, 204);
}

TEST_F(RemoteWriteReceiverTest, FullSinksSendARetryDelay) {
  Serve();
  sinks_.Answer({Code::kExhausted, "the queue of sinks.otlp is full"});
  const Answer full = Send(one_, kFirst);
  EXPECT_EQ(full.status, 503) << "which every sender tries again";
  EXPECT_EQ(full.Header("Retry-After"), "1");
  EXPECT_EQ(full.body, "the queue of sinks.otlp is full\n");
  EXPECT_EQ(Written(full), "0 0 0 ");
  sinks_.Answer({Code::kIo, "disk"});
  EXPECT_EQ(Send(one_, kFirst).status, 503);
  EXPECT_EQ(Stats().refused, 2u);
  EXPECT_EQ(Stats().accepted, 0u);
}

TEST_F(RemoteWriteReceiverTest, StatusOfBackPressureMayBe429) {
  options_.busy_status = 429;
  options_.http.max_arriving = 20'000;
  Serve();
  sinks_.Answer({Code::kExhausted, "full"});
  const Answer full = Send(one_, kFirst);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.Header("Retry-After"), "1");
  sinks_.Answer({Code::kIo, "disk"});
  EXPECT_EQ(Send(one_, kFirst).status, 503);
  EXPECT_EQ(SendRaw(std::string(30'000, 'x'), kFirst).status, 429) << "what the server says by itself, too";
}

TEST_F(RemoteWriteReceiverTest, RefusalOfTheServerHasTheSameStatus) {
  options_.http.max_arriving = 20'000;
  Serve();
  const Answer busy = SendRaw(std::string(30'000, 'x'), kFirst);
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.Header("Retry-After"), "1");
}

TEST_F(RemoteWriteReceiverTest, WritesAfterTheSinks) {
  Serve();
  sinks_.Hold();
  TestClient client(http_->addresses().at(0));
  std::string packed;
  SnappyPack(one_, packed);
  client.Send(Post(packed, kFirst));
  ASSERT_TRUE(sinks_.Await(1));
  EXPECT_TRUE(Stats().requests.empty());
  sinks_.LetGo();
  EXPECT_EQ(client.Read().status, 204);
}

TEST_F(RemoteWriteReceiverTest, MetadataAloneIsARequest) {
  Serve();
  EXPECT_EQ(Send(First().Metadata(1, "x", "Help.", "seconds").bytes(), kFirst).status, 204);
  EXPECT_TRUE(sinks_.received().empty());
  EXPECT_EQ(Send(First().Series({{"__name__", "x_total"}}, Sample(1)).bytes(), kFirst).status, 204);
  ASSERT_EQ(sinks_.received().size(), 1u);
  EXPECT_THAT(OtlpMetricsText::Of(sinks_.received()[0]->bytes),
              HasSubstr("x_total \"Help.\" s sum cumulative monotonic"));
}

TEST_F(RemoteWriteReceiverTest, RefusesOtherMachinesByDefault) {
  Serve();
  RemoteWriteHttp::Options open = options_;
  open.http.at.listen = {"0.0.0.0:0"};
  auto refused = RemoteWriteHttp::Open(open, env_, *ingest_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().detail, HasSubstr("receivers.remote_write.insecure"));
}

}  // namespace
}  // namespace gpulens
