#include "agent/api/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "net/testing/test_client.h"
#include "wire/packing.h"

namespace gpulens {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::Fetch;
using ::testing::HasSubstr;

class ApiServerTest : public ::testing::Test {
 protected:
  ApiServerTest() {
    loop_.Start();
    api_.Add("/api/echo", [](const ApiRequest& request) -> Result<std::string> {
      const std::string* text = request.Find("text");
      return text ? "{\"text\":\"" + *text + "\"}" : "{}";
    });
    api_.Add("/api/fails", [](const ApiRequest& request) -> Result<std::string> {
      const std::string* code = request.Find("code");
      if (*code == "400") return Status{Code::kInvalidArgument, "a \"wrong\" value"};
      if (*code == "404") return Status{Code::kUnavailable, "not here"};
      if (*code == "413") return Status{Code::kExhausted, "too much"};
      return Status{Code::kIo, "broken"};
    });
    api_.Add("/api/waits", [this](const ApiRequest&) -> Result<std::string> {
      most_ = std::max(most_.load(), ++running_);
      while (wait_) testing::ShortPause();
      --running_;
      return std::string("[]");
    });
    http_ = std::make_unique<HttpServer>(loop_, server_, HttpServer::Options{});
    at_ = *http_->Listen(*ParseListenAddress("127.0.0.1:0"));
  }
  ~ApiServerTest() override {
    wait_ = false;
    http_ = nullptr;
    workers_.Stop();
    loop_.Stop();
  }

  IoLoop loop_;
  Workers workers_{2, 100};
  Api api_;
  ApiServer server_{api_, workers_};
  std::unique_ptr<HttpServer> http_;
  Endpoint at_;
  std::atomic<bool> wait_{false};
  std::atomic<int> running_{0}, most_{0};
};

TEST_F(ApiServerTest, AnswersWithJson) {
  Answer answer = Fetch(at_, "GET", "/api/echo?text=a%20b");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"text\":\"a b\"}");
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
  EXPECT_EQ(answer.Header("Cache-Control"), "no-store");
}

TEST_F(ApiServerTest, PacksWhatIsLong) {
  const std::string text(5000, 'x');
  Answer packed = Fetch(at_, "GET", "/api/echo?text=" + text, "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.Header("Content-Encoding"), "gzip");
  EXPECT_LT(packed.body.size(), 200u);
  std::string out;
  ASSERT_TRUE(Gunzip(packed.body, 1 << 20, out));
  EXPECT_EQ(out, Fetch(at_, "GET", "/api/echo?text=" + text).body);
  EXPECT_EQ(Fetch(at_, "GET", "/api/echo", "Accept-Encoding: gzip\r\n").Header("Content-Encoding"), "");
}

TEST_F(ApiServerTest, ErrorsHaveStatusAndReason) {
  EXPECT_EQ(Fetch(at_, "GET", "/api/fails?code=400").status, 400);
  EXPECT_EQ(Fetch(at_, "GET", "/api/fails?code=400").body, "{\"error\":\"a \\\"wrong\\\" value\"}\n");
  EXPECT_EQ(Fetch(at_, "GET", "/api/fails?code=404").status, 404);
  EXPECT_EQ(Fetch(at_, "GET", "/api/fails?code=413").status, 413);
  EXPECT_EQ(Fetch(at_, "GET", "/api/fails?code=io").status, 500);
  EXPECT_EQ(Fetch(at_, "GET", "/api/none").status, 404);
  EXPECT_EQ(Fetch(at_, "GET", "/api/echo?text=%zz").status, 400);
  EXPECT_EQ(Fetch(at_, "GET", "/api/echo?text=%ff").status, 400) << "not UTF-8";
  std::string many = "/api/echo?";
  for (int i = 0; i < 65; ++i) many += "a=1&";
  EXPECT_EQ(Fetch(at_, "GET", many).status, 400);
}

// One request at a time, so that collectors keep a worker; at most so many wait, others are refused.
TEST_F(ApiServerTest, OneAtATimeAndFewWait) {
  wait_ = true;
  std::atomic<int> good{0}, busy{0};
  std::vector<std::thread> clients;
  for (size_t i = 0; i < ApiServer::kMostWaiting + 10; ++i) {
    clients.emplace_back([&] {
      const int status = Fetch(at_, "GET", "/api/waits").status;
      if (status == 200) ++good;
      if (status == 503) ++busy;
    });
  }
  EXPECT_TRUE(Eventually([&] { return busy >= 8; }));
  std::atomic<bool> collected{false};
  ASSERT_TRUE(workers_.Post([&] { collected = true; }));
  EXPECT_TRUE(Eventually([&] { return collected.load(); })) << "a collector's job is done meanwhile";
  wait_ = false;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good + busy, static_cast<int>(ApiServer::kMostWaiting + 10));
  EXPECT_EQ(most_, 1);
}

TEST_F(ApiServerTest, ServesTheControlSocket) {
  std::atomic<bool> done{false};
  ASSERT_TRUE(server_.Get("/api/echo?text=x", [&](Result<std::string> page) {
    EXPECT_EQ(*page, "{\"text\":\"x\"}");
    done = true;
  }));
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  done = false;
  ASSERT_TRUE(server_.Get("/api/none", [&](Result<std::string> page) {
    EXPECT_EQ(page.error().code, Code::kUnavailable);
    done = true;
  }));
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
}

// The workers have stopped: each request is answered.
TEST_F(ApiServerTest, RefusesAfterTheWorkersStopped) {
  workers_.Stop();
  EXPECT_FALSE(server_.Get("/api/echo", [](Result<std::string>) {}));
  EXPECT_EQ(Fetch(at_, "GET", "/api/echo").status, 503);
}

}  // namespace
}  // namespace gpulens
