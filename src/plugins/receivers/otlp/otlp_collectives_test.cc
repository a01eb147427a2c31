// Batches of collectives at the port of OTLP: passed to the collector that joins them, or refused.

#include <gtest/gtest.h>

#include "collectives/batch_codec.h"
#include "collectives/batch_queue.h"
#include "ingest/receiver_testing.h"
#include "net/testing/test_client.h"
#include "plugins/receivers/otlp/otlp.h"

namespace gpulens {
namespace {

using ::gpulens::testing::Answer;
using ::gpulens::testing::TestClient;

class OtlpCollectivesTest : public receiver_testing::IngestTest {
 protected:
  OtlpCollectivesTest() : IngestTest("otlp/http") {
    env_.collectives = &queue_;
    OpenIngest();
    OtlpHttp::Options http;
    http.at = {"otlp", {"127.0.0.1:0"}};
    auto opened = OtlpHttp::Open(http, env_, *ingest_);
    if (opened.ok()) http_ = *std::move(opened);
    collectives::Batch batch;
    batch.number = 7;
    batch.processes.push_back({"node-1", "", "", "", 5, collectives::ProcessState::kRuns, {}});
    collectives::EncodeBatch(batch, body_);
  }
  ~OtlpCollectivesTest() override {
    Close([this] { http_ = nullptr; });
  }
  Answer Send(const std::string& body, const std::string& type = "application/x-gpulens-collectives",
              const std::string& fields = "") {
    TestClient client(http_->addresses().at(0));
    client.Send("POST /v1/collectives HTTP/1.1\r\nHost: x\r\nContent-Type: " + type + "\r\n" + fields +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.Read();
  }

  collectives::BatchQueue queue_{1000};
  std::unique_ptr<OtlpHttp> http_;
  std::string body_;
};

TEST_F(OtlpCollectivesTest, PassesBatchesToWhoJoinsThem) {
  ASSERT_TRUE(http_);
  const Answer none = Send(body_);
  EXPECT_EQ(none.status, 503);
  EXPECT_NE(none.body.find("collectors.nccl.collectives.role"), std::string::npos) << none.body;
  EXPECT_EQ(none.Header("Retry-After"), "5");
  queue_.AddConsumer();
  EXPECT_EQ(Send(body_).status, 204);
  const auto batches = queue_.Take();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].number, 7u);
  EXPECT_EQ(batches[0].processes.at(0).host, "node-1");
  EXPECT_TRUE(sinks_.received().empty()) << "they are no telemetry";
  queue_.SetWantedLinks({5, 6});
  const Answer answer = Send(body_);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "5\n6\n");
  queue_.RemoveConsumer();
  EXPECT_EQ(Send(body_).status, 503);
}

TEST_F(OtlpCollectivesTest, RefusesWhatIsNoBatchAndWhatDoesNotFit) {
  ASSERT_TRUE(http_);
  queue_.AddConsumer();
  EXPECT_EQ(Send("x").status, 400);
  EXPECT_EQ(Send(body_.substr(0, body_.size() - 1)).status, 400);
  EXPECT_EQ(Send(body_, "application/json").status, 415);
  EXPECT_EQ(Send(body_, "application/x-gpulens-collectives", "Content-Encoding: gzip\r\n").status, 415);
  int taken = 0;
  while (taken < 1000 && Send(body_).status == 204) ++taken;
  EXPECT_EQ(static_cast<size_t>(taken), 1000 / body_.size());
  const Answer full = Send(body_);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.Header("Retry-After"), "5");
  EXPECT_EQ(queue_.refused(), 2u);
}

}  // namespace
}  // namespace gpulens
