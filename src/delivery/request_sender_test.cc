#include "delivery/request_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/hash.h"
#include "base/parse.h"
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

// The first byte of a record is its route, the second its key; the rest is the body.
Status Prepare(LogRecord& record, SendParts& parts, bool& alone) {
  if (record.bytes.size() < 2 || record.bytes[0] > 1) return Ok();
  SendPart& part = parts.list.emplace_back();
  part.route = static_cast<size_t>(record.bytes[0]);
  part.key = static_cast<unsigned char>(record.bytes[1]);
  part.items = record.items;
  alone = record.bytes[1] == '!';
  part.body = std::make_shared<const std::string>(record.bytes.substr(2));
  return Ok();
}

class RequestSenderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_.Start();
    log_ = RequestLog::Open({.owner = "test"}, RealClock());
    // Keeps the log's reader known while no sender has it.
    Attach();
  }

  static std::string Answer(std::string_view status, std::string_view fields = "") {
    return "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(fields) + "Content-Length: 0\r\n\r\n";
  }

  void Attach() {
    reader_.reset();  // one of the name at a time
    reader_ = log_->Attach("test", {}, sender_ ? sender_->waker() : nullptr);
  }
  void Start(const std::string& url, Duration timeout = seconds(20)) {
    Configure({url}, timeout);
    Start();
  }
  void Start() {
    reader_.reset();
    sender_ = std::make_unique<RequestSender>(std::make_shared<const SendSetup>(made_), client_, loop_,
                                              RealClock());
    Attach();
    sender_->Add(reader_, RequestSender::kOwn);
  }
  void Configure(const std::vector<std::string>& urls, Duration timeout = seconds(20)) {
    SendSetup& setup = made_ = {};
    setup.name = "test";
    setup.timeout = timeout;
    setup.backoff = {.initial = milliseconds(1), .cap = milliseconds(5)};
    setup.signals = {"metrics", "logs"};
    for (size_t i = 0; i < 2; ++i) setup.routes.push_back({i, "X-Route: " + setup.signals[i] + "\r\n"});
    for (const std::string& url : urls) {
      SendEndpoint& endpoint = setup.endpoints.emplace_back();
      endpoint.name = url;
      endpoint.hash = StableHash(url);
      for (const std::string& name : setup.signals)
        endpoint.targets.push_back({*ParseHttpUrl(url + "/" + name), {}, {}});
    }
    setup.prepare = &Prepare;
    setup.access = [this](size_t, size_t) -> Result<SendAccess> {
      std::lock_guard lock(mutex_);
      if (!inaccessible_.ok()) return inaccessible_;
      return SendAccess{"X-Key: k\r\n", nullptr};
    };
    setup.validate = [](const HttpReply& reply, size_t) -> SendOutcome {
      if (reply.failure == HttpFailure::kNone)
        return {SendOutcome::kTaken, reply.status == 206 ? 2u : 0u, "some"};
      return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, reply.detail};
    };
  }

  void Push(char route, const std::string& body, uint32_t items = 3, char key = 'k') {
    ASSERT_TRUE(log_->Append(std::string(1, route) + key + body, items).ok());
  }
  uint64_t Waiting() { return reader_->stats().records; }

  // Waits until the sender's numbers are so; false after long enough.
  bool Until(const std::function<bool(const RequestSender::Stats&)>& holds) {
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
  std::shared_ptr<RequestLog> log_;
  std::shared_ptr<LogReader> reader_;
  SendSetup made_;
  RequestSender::Stats stats_;
  std::unique_ptr<RequestSender> sender_;
};

// A receiver of an older protocol: what waits is made reworked for it, at once and without a word.
TEST_F(RequestSenderTest, AFreshRequestIsSentAtOnce) {
  ScriptedServer server([](int, int, const std::string& head) {
    return Turn{Answer(head.find("/logs") != head.npos ? "415 No" : "206 Some", "X-Took: 1\r\n")};
  });
  bool old = false;
  Configure({server.Url("")});
  for (HttpTarget& target : made_.endpoints[0].targets) target.limits.keep = "x-took";
  made_.validate = [&](const HttpReply& reply, size_t) -> SendOutcome {
    if (reply.status == 415) return old = true, SendOutcome{SendOutcome::kRework, 0, "too new"};
    return {SendOutcome::kTaken, 0, "some", reply.kept == "x-took: 1\n" ? 1 : 0};
  };
  made_.rework = [&](SendPart& part) -> Status {
    if (old && *part.body == "bad") return {Code::kDataLoss, "cannot be told"};
    if (old && part.route == 1) part.route = 0, part.body = std::make_shared<const std::string>("older");
    return Ok();
  };
  Start();
  Push(1, "new");
  Push(1, "new");
  Push(1, "bad");
  ASSERT_TRUE(Until([](const auto& stats) { return stats.refused == 1; }));
  EXPECT_EQ(stats_.retries, 0u);
  EXPECT_EQ(stats_.signals[0].delivered, 2u);
  EXPECT_EQ(stats_.signals[0].rejected, 4u);
  EXPECT_EQ(stats_.signals[1].delivered + stats_.signals[1].rejected, 0u);
  EXPECT_EQ(stats_.requests["415"], 1u);
  EXPECT_EQ(stats_.requests["unsendable"], 1u);
  const std::vector<std::string> seen = server.requests();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen[0], AllOf(HasSubstr("POST /logs HTTP/1.1\r\n"), HasSubstr("Content-Length: 3\r\n")));
  for (size_t i : {1u, 2u})
    EXPECT_THAT(seen[i], AllOf(HasSubstr("POST /metrics HTTP/1.1\r\n"), HasSubstr("Content-Length: 5\r\n")));
}

TEST_F(RequestSenderTest, DeliversInOrderOnItsRoutes) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  Start(server.Url(""));
  Push(0, "");
  Push(1, "");
  Push(0, "");
  ASSERT_TRUE(
      Until([](const auto& s) { return s.signals[0].delivered == 6 && s.signals[1].delivered == 3; }));
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

TEST_F(RequestSenderTest, TriesAgainWhatMayBeTakenLaterAndLosesWhatIsRefused) {
  int requests = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    switch (requests++) {
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
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 12; }));
  EXPECT_EQ(stats_.retries, 2u);
  EXPECT_EQ(stats_.refused, 1u);
  EXPECT_EQ(stats_.signals[0].rejected, 2u);
  EXPECT_EQ(stats_.requests["503"] + stats_.requests["429"] + stats_.requests["400"], 3u);
  EXPECT_EQ(Waiting(), 0u);
}

TEST_F(RequestSenderTest, AReceiverThatIsAwayLosesNothing) {
  Start("http://127.0.0.1:1");
  Push(0, "");
  ASSERT_TRUE(Until([](const auto& s) { return s.retries > 3; }));
  EXPECT_FALSE(stats_.up);
  EXPECT_GT(stats_.requests["connect"], 3u);
  Status status = sender_->Finish(RealClock().Now() + milliseconds(50));
  EXPECT_EQ(status.code, Code::kTimeout);
  EXPECT_THAT(status.detail, HasSubstr("3 points"));
  sender_.reset();
  Attach();
  EXPECT_EQ(Waiting(), 1u) << "it waits for the next sender";
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  Start(server.Url(""));
  EXPECT_TRUE(sender_->Finish(RealClock().Now() + seconds(20)).ok())
      << "what is left is delivered before the end";
  sender_.reset();
  Attach();
  EXPECT_EQ(Waiting(), 0u);
}

TEST_F(RequestSenderTest, TheEndDoesNotWaitForAnAnswerThatDoesNotCome) {
  std::atomic<int> requests = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    ++requests;
    return Turn{""};
  });
  Start(server.Url(""));
  Push(0, "");
  const Instant end = RealClock().Now() + seconds(20);
  while (requests == 0 && end - RealClock().Now() > Duration::zero()) std::this_thread::yield();
  EXPECT_EQ(sender_->Finish(RealClock().Now() + milliseconds(20)).code, Code::kTimeout);
  sender_.reset();
  Attach();
  EXPECT_EQ(Waiting(), 1u);
}

TEST_F(RequestSenderTest, ARecordThatHadToGoAloneDoesNotKeepTheLog) {
  Start("http://127.0.0.1:1");
  Push(0, "first");
  Push(0, "alone", 3, '!');
  ASSERT_TRUE(Until([](const auto& stats) { return stats.retries != 0; }));
  EXPECT_EQ(sender_->Finish(RealClock().Now()).code, Code::kTimeout);
  sender_.reset();
  reader_.reset();
  EXPECT_EQ(log_->attached(), 0u);
}

TEST_F(RequestSenderTest, WithoutAccessARequestWaits) {
  inaccessible_ = {Code::kUnavailable, "no token"};
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("204 None")}; });
  Start(server.Url(""));
  Push(0, "");
  ASSERT_TRUE(Until([](const auto& s) { return s.requests.contains("access"); }));
  {
    std::lock_guard lock(mutex_);
    inaccessible_ = {};
  }
  EXPECT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 3; }));
}

TEST_F(RequestSenderTest, RecordsThatAreNotForThisReceiverAreLetGo) {
  ScriptedServer server([&](int, int, const std::string&) { return Turn{Answer("200 OK")}; });
  ASSERT_TRUE(log_->Append("", 1).ok());
  Push(9, "");
  Push(1, "");
  Start(server.Url(""));
  EXPECT_TRUE(Until([](const auto& s) { return s.signals[1].delivered == 3; }));
  EXPECT_EQ(stats_.requests["200"], 1u);
}

// A server that counts requests and answers with `status`.
struct Recorder {
  Recorder()
      : server([this](int, int, const std::string& head) {
          ++requests;
          return Turn{Answer(status.load(), head)};
        }) {}
  static std::string Answer(int status, const std::string&) {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: 0\r\n\r\n";
  }
  std::atomic<int> requests = 0, status = 200;
  ScriptedServer server;
};

TEST_F(RequestSenderTest, GoesToTheNextEndpointWhileOneIsAway) {
  Recorder second;
  Configure({"http://127.0.0.1:1", second.server.Url("")});
  Start();
  for (int i = 0; i < 20; ++i) Push(0, "x");
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 60; }));
  EXPECT_EQ(second.requests, 20);
  EXPECT_GT(stats_.requests["connect"], 0u);
  EXPECT_EQ(stats_.refused, 0u);
}

TEST_F(RequestSenderTest, GoesBackToTheFirstEndpoint) {
  Recorder first, second;
  first.status = 503;
  Configure({first.server.Url(""), second.server.Url("")});
  Start();
  for (int i = 0; i < 5; ++i) Push(0, "x");
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 15; }));
  first.status = 200;
  uint64_t delivered = 15;
  const auto push = [&] {
    Push(0, "x");
    delivered += 3;
    return Until([&](const auto& s) { return s.signals[0].delivered == delivered; });
  };
  // It gets requests again when its wait is over.
  const int requests = first.requests;
  for (int i = 0; i < 10'000 && first.requests == requests; ++i) ASSERT_TRUE(push());
  const int before = second.requests;
  ASSERT_TRUE(push());
  EXPECT_EQ(second.requests, before);
}

TEST_F(RequestSenderTest, EachKeyHasItsEndpointAndMovesWhileThatIsAway) {
  Recorder servers[3];
  std::vector<std::string> urls;
  for (Recorder& server : servers) urls.push_back(server.server.Url(""));
  Configure(urls);
  made_.by_hash = true;
  made_.in_flight = 2;
  Start();
  for (int key = 0; key < 90; ++key) Push(0, "x", 1, static_cast<char>(key));
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 90; }));
  int share[3];
  for (size_t i = 0; i < 3; ++i) {
    share[i] = servers[i].requests;
    EXPECT_GT(share[i], 12) << i;
  }
  servers[1].status = 503;
  for (int key = 0; key < 90; ++key) Push(0, "x", 1, static_cast<char>(key));
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 180; }));
  EXPECT_EQ(servers[0].requests + servers[2].requests, 180 - share[1]);
  EXPECT_GE(servers[0].requests, 2 * share[0]) << "its own keys stay";
  EXPECT_GE(servers[2].requests, 2 * share[2]);
}

// Requests of one key never overtake each other, also when some of them have to be tried again.
TEST_F(RequestSenderTest, SeveralAreUnderWayAndEachKeyStaysInOrder) {
  std::atomic<int> requests = 0;
  std::mutex mutex;
  std::map<char, std::vector<int>> taken;
  size_t all = 0;
  ScriptedServer server([&](int, int, const std::string& request) {
    if (++requests % 3 == 0) return Turn{Answer("503 Busy")};
    std::lock_guard lock(mutex);
    const std::string body = request.substr(request.find("\r\n\r\n") + 4);
    if (body.empty()) return Turn{Answer("400 No Body")};
    const int number = ParseInt<int>(body.substr(1)).value_or(-1);
    taken[body[0]].push_back(number);
    if (body[0] == '!') {
      EXPECT_GE(all, static_cast<size_t>(number)) << "all before it are done";
    }
    ++all;
    return Turn{Answer("200 OK")};
  });
  Configure({server.Url("")});
  made_.in_flight = 4;
  Start();
  for (int i = 0; i < 200; ++i) {
    const char key = i % 50 == 0 ? '!' : static_cast<char>('a' + i % 7);
    Push(0, key + std::to_string(i), 1, key);
  }
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 200; }));
  EXPECT_EQ(Waiting(), 0u);
  std::lock_guard lock(mutex);
  for (auto& [key, numbers] : taken) EXPECT_TRUE(std::ranges::is_sorted(numbers)) << key;
}

// A reload: what is under way is waited for, nothing is sent twice, and what waits goes to the new receiver.
TEST_F(RequestSenderTest, AnUpdateLosesAndRepeatsNothing) {
  Recorder before, after;
  Configure({before.server.Url("")});
  made_.in_flight = 3;
  Start();
  for (int i = 0; i < 300; ++i) {
    Push(0, "x", 1, static_cast<char>(i));
    if (i % 60 != 30) continue;
    const int round = i / 60;
    Configure({round % 2 == 0 ? after.server.Url("") : before.server.Url("")});
    made_.in_flight = 1 + static_cast<uint32_t>(round);
    made_.format = round == 3 ? "another" : "";
    sender_->Update(std::make_shared<const SendSetup>(made_));
  }
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 300; }));
  EXPECT_TRUE(sender_->Finish(RealClock().Now() + seconds(20)).ok());
  EXPECT_EQ(before.requests + after.requests, 300);
  EXPECT_GT(after.requests, 0);
}

TEST_F(RequestSenderTest, ALogOfBeforeIsEmptiedFirst) {
  std::vector<std::string> order;
  std::mutex mutex;
  ScriptedServer server([&](int, int, const std::string& request) {
    std::lock_guard lock(mutex);
    order.push_back(request.substr(request.find("\r\n\r\n") + 4));
    return Turn{Answer("200 OK")};
  });
  auto older = RequestLog::Open({.owner = "test"}, RealClock());
  auto older_reader = older->Attach("test", {}, nullptr);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(older->Append(std::string(1, '\0') + "kold", 1).ok());
  for (int i = 0; i < 3; ++i) Push(0, "new", 1);
  Configure({server.Url("")});
  reader_.reset();
  made_.in_flight = 4;
  sender_ =
      std::make_unique<RequestSender>(std::make_shared<const SendSetup>(made_), client_, loop_, RealClock());
  sender_->Add(std::move(older_reader), RequestSender::kOwn);
  sender_->Add(log_->Attach("test", {}, sender_->waker()), RequestSender::kOwn);
  ASSERT_TRUE(Until([](const auto& s) { return s.signals[0].delivered == 6; }));
  std::lock_guard lock(mutex);
  EXPECT_THAT(order, ElementsAre("old", "old", "old", "new", "new", "new"));
}

// With a full disk, a record with a waiter is tried once, and its answer is the outcome.
TEST_F(RequestSenderTest, ReportsTheOutcomeOfASingleAttempt) {
  Recorder server;
  server.status = 503;
  Start(server.server.Url(""));
  std::mutex mutex;
  std::vector<Code> outcomes;
  auto append = [&] {
    return log_->Append(std::string(1, '\0') + "kx", 1, [&](const Status& status) {
      std::lock_guard lock(mutex);
      outcomes.push_back(status.code);
    });
  };
  auto count = [&] {
    std::lock_guard lock(mutex);
    return outcomes.size();
  };
  ASSERT_TRUE(append().ok());
  ASSERT_TRUE(Until([&](const auto&) { return count() == 1; }));
  server.status = 200;
  while (count() < 100'000) {
    const size_t want = count() + 1;
    ASSERT_TRUE(append().ok());
    ASSERT_TRUE(Until([&](const auto&) { return count() >= want; }));
    if (outcomes.back() == Code::kOk) break;
  }
  EXPECT_EQ(outcomes.front(), Code::kExhausted);
  EXPECT_EQ(outcomes.back(), Code::kOk);
  EXPECT_EQ(Waiting(), 0u);
}

TEST(IsRetryable, FollowsTheSpecificationOfOtlp) {
  for (int status : {429, 502, 503, 504}) EXPECT_TRUE(IsRetryable(status));
  for (int status : {400, 401, 403, 404, 413, 500, 501}) EXPECT_FALSE(IsRetryable(status));
}

}  // namespace
}  // namespace gpulens
