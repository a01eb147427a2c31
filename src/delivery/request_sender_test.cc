#include "delivery/parcel_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/testing/scripted_server.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedServer;
using Turn = ScriptedServer::Turn;

class ParcelSenderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    queue_ = *ParcelQueue::Open({}, RealClock());
  }

  static std::string Answer(std::string_view status, std::string_view fields = "") {
    return "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(fields) + "Content-Length: 0\r\n\r\n";
  }

  void Start(const std::string& url, Duration timeout = seconds(20)) {
    Options(url, timeout);
    Start();
  }
  void Start() {
    sender_ = std::make_unique<ParcelSender>(std::move(made_), *queue_, client_, loop_, RealClock());
  }
  void Options(const std::string& url, Duration timeout = seconds(20)) {
    ParcelSender::Options& options = made_;
    options.name = "test";
    options.timeout = timeout;
    options.backoff = {.initial = milliseconds(1), .cap = milliseconds(5)};
    for (const char* name : {"metrics", "logs"}) {
      auto parsed = ParseHttpUrl(url + "/" + name);
      options.routes.push_back({name, {*parsed, {}, {}}, "X-Route: " + std::string(name) + "\r\n"});
    }
    options.access = [this](size_t) -> Result<ParcelSender::Access> {
      std::lock_guard lock(mutex_);
      if (!inaccessible_.ok()) return inaccessible_;
      return ParcelSender::Access{"X-Key: k\r\n", nullptr};
    };
    options.judge = [](const HttpReply& reply) -> SendOutcome {
      if (reply.failure == HttpFailure::kNone)
        return {SendOutcome::kTaken, reply.status == 206 ? 2u : 0u, "some"};
      return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, reply.detail};
    };
  }

  void Push(char route, const std::string& body, uint32_t items = 3) {
    ASSERT_TRUE(queue_->Push(std::string(1, route) + body, items).ok());
  }

  // Waits until the sender's numbers are so; false after long enough.
  bool Until(const std::function<bool(const ParcelSender::Stats&)>& holds) {
    const Instant end = RealClock().Now() + seconds(20);
    do {
      sender_->stats(stats_);
      if (holds(stats_)) return true;
      std::this_thread::yield();
    } while (end - RealClock().Now() > Duration::zero());
    return false;
  }

  IoLoop loop_;
  HttpClient client_{loop_};
  std::mutex mutex_;
  Status inaccessible_;
  std::unique_ptr<ParcelQueue> queue_;
  ParcelSender::Options made_;
  ParcelSender::Stats stats_;
  std::unique_ptr<ParcelSender> sender_;
};

// A receiver of an older protocol: what waits is made anew for it, at once and without a word.
TEST_F(ParcelSenderTest, WhatIsMadeAnewIsSentAtOnce) {
  ScriptedServer server([](int, int, const std::string& head) {
    return Turn{Answer(head.find("/logs") != head.npos ? "415 No" : "206 Some", "X-Took: 1\r\n")};
  });
  bool old = false;
  Options(server.Url(""));
  made_.routes[0].target.limits.keep = made_.routes[1].target.limits.keep = "x-took";
  made_.judge = [&](const HttpReply& reply) -> SendOutcome {
    if (reply.status == 415) return old = true, SendOutcome{SendOutcome::kAnew, 0, "too new"};
    return {SendOutcome::kTaken, 0, "some", reply.kept == "x-took: 1\n" ? 1 : 0};
  };
  made_.rework = [&](size_t& route, std::shared_ptr<const std::string>& body) -> Status {
    if (old && *body == "bad") return {Code::kDataLoss, "cannot be told"};
    if (old && route == 1) route = 0, body = std::make_shared<const std::string>("older");
    return Ok();
  };
  Start();
  Push(1, "new");
  Push(1, "new");
  Push(1, "bad");
  ASSERT_TRUE(Until([](const auto& stats) { return stats.refused == 1; }));
  EXPECT_EQ(stats_.retries, 0u);
  EXPECT_EQ(stats_.routes[0].delivered, 2u);
  EXPECT_EQ(stats_.routes[0].rejected, 4u);
  EXPECT_EQ(stats_.routes[1].delivered + stats_.routes[1].rejected, 0u);
  EXPECT_EQ(stats_.requests["415"], 1u);
  EXPECT_EQ(stats_.requests["unsendable"], 1u);
  const std::vector<std::string> seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[0], AllOf(HasSubstr("POST /logs HTTP/1.1\r\n"), HasSubstr("Content-Length: 3\r\n")));
  for (size_t i : {1u, 2u})
    EXPECT_THAT(seen[i], AllOf(HasSubstr("POST /metrics HTTP/1.1\r\n"), HasSubstr("Content-Length: 5\r\n")));
}

TEST_F(ParcelSenderTest, DeliversInOrderOnItsRoutes) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  Start(server.Url(""));
  Push(0, "");
  Push(1, "");
  Push(0, "");
  ASSERT_TRUE(Until([](const auto& s) { return s.routes[0].delivered == 6 && s.routes[1].delivered == 3; }));
  EXPECT_TRUE(sender_->Finish(RealClock().Now() + seconds(20)).ok());
  const std::vector<std::string> seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[0], HasSubstr("POST /metrics HTTP/1.1\r\n"));
  EXPECT_THAT(seen[0], HasSubstr("X-Key: k\r\nX-Route: metrics\r\n"));
  EXPECT_THAT(seen[1], HasSubstr("POST /logs HTTP/1.1\r\n"));
  EXPECT_THAT(seen[2], HasSubstr("POST /metrics HTTP/1.1\r\n"));
  sender_->stats(stats_);
  EXPECT_EQ(stats_.requests["200"], 3u);
  EXPECT_EQ(stats_.retries, 0u);
  EXPECT_TRUE(stats_.up);
  EXPECT_GT(stats_.last_success_unix_ns, 0);
}

TEST_F(ParcelSenderTest, TriesAgainWhatMayBeTakenLaterAndLosesWhatIsRefused) {
  int asked = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    switch (asked++) {
      case 0: return Turn{Answer("503 Busy", "Retry-After: 0\r\n")};
      case 1: return Turn{Answer("429 Slow")};
      case 2: return Turn{Answer("200 OK")};
      case 3: return Turn{Answer("400 Bad")};
      default: return Turn{Answer("206 Partly")};
    }
  });
  Start(server.Url(""));
  Push(0, "", 5);
  Push(0, "", 7);
  Push(0, "", 9);
  ASSERT_TRUE(Until([](const auto& s) { return s.routes[0].delivered == 12; }));
  EXPECT_EQ(stats_.retries, 2u);
  EXPECT_EQ(stats_.refused, 1u);
  EXPECT_EQ(stats_.routes[0].rejected, 2u);
  EXPECT_EQ(stats_.requests["503"] + stats_.requests["429"] + stats_.requests["400"], 3u);
  EXPECT_EQ(queue_->stats().parcels, 0u);
}

TEST_F(ParcelSenderTest, AReceiverThatIsAwayLosesNothing) {
  Start("http://127.0.0.1:1");
  Push(0, "");
  ASSERT_TRUE(Until([](const auto& s) { return s.retries > 3; }));
  EXPECT_FALSE(stats_.up);
  EXPECT_GT(stats_.requests["connect"], 3u);
  Status status = sender_->Finish(RealClock().Now() + milliseconds(50));
  EXPECT_EQ(status.code, Code::kTimeout);
  EXPECT_THAT(status.detail, HasSubstr("3 points"));
  EXPECT_EQ(queue_->stats().parcels, 1u) << "it waits for the next sender";
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  Start(server.Url(""));
  EXPECT_TRUE(sender_->Finish(RealClock().Now() + seconds(20)).ok())
      << "what is left is delivered before the end";
  EXPECT_EQ(queue_->stats().parcels, 0u);
}

TEST_F(ParcelSenderTest, TheEndDoesNotWaitForAnAnswerThatDoesNotCome) {
  std::atomic<int> asked = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    ++asked;
    return Turn{""};
  });
  Start(server.Url(""));
  Push(0, "");
  const Instant end = RealClock().Now() + seconds(20);
  while (asked == 0 && end - RealClock().Now() > Duration::zero()) std::this_thread::yield();
  EXPECT_EQ(sender_->Finish(RealClock().Now() + milliseconds(20)).code, Code::kTimeout);
  EXPECT_EQ(queue_->stats().parcels, 1u);
}

TEST_F(ParcelSenderTest, WithoutAccessItWaits) {
  inaccessible_ = {Code::kUnavailable, "no token"};
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("204 None")}; });
  Start(server.Url(""));
  Push(0, "");
  ASSERT_TRUE(Until([](const auto& s) { return s.requests.contains("access"); }));
  {
    std::lock_guard lock(mutex_);
    inaccessible_ = {};
  }
  EXPECT_TRUE(Until([](const auto& s) { return s.routes[0].delivered == 3; }));
}

TEST_F(ParcelSenderTest, ParcelsOfAnotherConfigurationAreLetGo) {
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  ASSERT_TRUE(queue_->Push("", 1).ok());
  Push(9, "");
  Push(1, "");
  Start(server.Url(""));
  EXPECT_TRUE(Until([](const auto& s) { return s.routes[1].delivered == 3; }));
  EXPECT_EQ(stats_.requests["200"], 1u);
}

TEST(IsRetryable, AsOtlpSays) {
  for (int status : {429, 502, 503, 504}) EXPECT_TRUE(IsRetryable(status));
  for (int status : {400, 401, 403, 404, 413, 500, 501}) EXPECT_FALSE(IsRetryable(status));
}

}  // namespace
}  // namespace gpulens
