#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>

#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/testing/scripted_server.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const EnricherSpec cloud_enricher;

namespace {

class CloudEnricherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    env_.io = &loop_;
    env_.http = &client_;
    env_.root = "/nonexistent";
  }
  void TearDown() override {
    loop_.Call([this] { enricher_.reset(); });
    loop_.Stop();
  }
  Status Create(const std::string& provider, const std::string& endpoint) {
    Config config;
    config.Set("provider", provider, {});
    config.Set("endpoint", endpoint, {});
    auto made = cloud_enricher.create(config, env_);
    if (!made) return made.error();
    enricher_ = *std::move(made);
    return Ok();
  }
  Status Look() {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Status> answer;
    loop_.Call([&] {
      enricher_->Fetch(RealClock().Now(), [&](Status status) {
        std::lock_guard lock(mutex);
        answer = std::move(status);
        came.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    came.wait_for(lock, std::chrono::seconds(30), [&] { return answer.has_value(); });
    return answer.value_or(Status{Code::kTimeout, "no answer"});
  }

  IoLoop loop_;
  HttpClient client_{loop_};
  Env env_;
  std::unique_ptr<Enricher> enricher_;
};

TEST_F(CloudEnricherTest, KeepsTheResourceThroughAnOutage) {
  std::string body = R"({"compute":{"location":"eastus","vmId":"02aa","vmSize":"ND96"}})";
  int status = 200;
  testing::ScriptedServer server([&](int, int, const std::string&) {
    return testing::ScriptedServer::Turn{.answer = "HTTP/1.1 " + std::to_string(status) +
                                                   " X\r\nContent-Length: " + std::to_string(body.size()) +
                                                   "\r\n\r\n" + body};
  });
  ASSERT_TRUE(Create("azure", server.Url("")));
  EXPECT_TRUE(enricher_->Resource().empty());
  const uint64_t before = enricher_->generation();
  ASSERT_TRUE(Look());
  const AttributeSet expected({{"cloud.provider", "azure"},
                               {"cloud.platform", "azure_vm"},
                               {"cloud.region", "eastus"},
                               {"host.id", "02aa"},
                               {"host.type", "ND96"}});
  EXPECT_EQ(enricher_->Resource(), expected);
  const uint64_t known = enricher_->generation();
  EXPECT_NE(known, before);
  status = 503;
  EXPECT_FALSE(Look());
  EXPECT_EQ(enricher_->Resource(), expected);
  status = 200;
  ASSERT_TRUE(Look());
  EXPECT_EQ(enricher_->generation(), known) << "the same answer changes nothing";
  EXPECT_TRUE(enricher_->Describe(Entity("gpu", {})).empty());
}

TEST_F(CloudEnricherTest, SendsNoRequestOutsideAKnownCloud) {
  EXPECT_EQ(Create("auto", "http://127.0.0.1:9").code, Code::kUnavailable);
  Config config;
  config.Set("provider", std::string("auto"), {});
  EXPECT_EQ(cloud_enricher.probe(config, env_).at(0).kind, Finding::kNotHere);
}

}  // namespace
}  // namespace gpulens
