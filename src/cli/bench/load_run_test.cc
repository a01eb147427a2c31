#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <condition_variable>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "cli/bench/load_run.h"
#include "net/testing/scripted_server.h"

namespace gpulens {

namespace {

std::string PromptOf(const LoadPlan& plan, uint64_t number) {
  const auto body = JsonDocument::Parse(RequestBody(plan, number));
  EXPECT_TRUE(body);
  return body->Text(plan.chat ? "/messages/0/content" : "/prompt").value_or("");
}

TEST(LoadPlan, PromptsDifferAndRepeat) {
  LoadPlan plan;
  plan.model = "a\"b";
  plan.prompt_words = 16;
  std::set<std::string> prompts;
  for (uint64_t i = 0; i < 100; ++i) {
    const std::string prompt = PromptOf(plan, i);
    EXPECT_EQ(std::ranges::count(prompt, ' '), 15);
    EXPECT_EQ(prompt, PromptOf(plan, i));
    prompts.insert(prompt.substr(0, prompt.find(' ')));
  }
  EXPECT_EQ(prompts.size(), 100) << "they differ from the first token on";
  LoadPlan other = plan;
  other.seed = 2;
  EXPECT_NE(PromptOf(plan, 3), PromptOf(other, 3));
}

TEST(LoadPlan, PromptsSharePrefix) {
  LoadPlan plan;
  plan.chat = false;
  plan.prompt_words = 20;
  plan.shared_words = 15;
  const std::string a = PromptOf(plan, 1), b = PromptOf(plan, 2);
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  EXPECT_EQ(std::count(a.begin(), differ, ' '), 15);
  plan.shared_words = 50;
  EXPECT_EQ(PromptOf(plan, 1), PromptOf(plan, 2)) << "all of it, and no more than all";
}

TEST(LoadPlan, BodyFollowsPlan) {
  LoadPlan plan;
  plan.model = "m";
  plan.max_tokens = 7;
  plan.ignore_eos = true;
  const std::string body = RequestBody(plan, 0);
  EXPECT_THAT(body, ::testing::HasSubstr(R"("max_tokens":7)"));
  EXPECT_THAT(body, ::testing::HasSubstr(R"("ignore_eos":true)"));
  EXPECT_THAT(body, ::testing::HasSubstr(R"("stream_options":{"include_usage":true})"));
  plan.stream = plan.ignore_eos = false;
  EXPECT_THAT(RequestBody(plan, 0), ::testing::Not(::testing::HasSubstr("stream")));
  EXPECT_THAT(RequestBody(plan, 0), ::testing::Not(::testing::HasSubstr("eos")));
}

TEST(LoadPlan, ArrivalsAreAPoissonProcessOfTheRate) {
  ArrivalTimes times(200, 7);
  double sum = 0, squares = 0;
  constexpr int kTimes = 20'000;
  for (int i = 0; i < kTimes; ++i) {
    const double seconds = std::chrono::duration<double>(times.Next()).count();
    ASSERT_GE(seconds, 0);
    sum += seconds;
    squares += seconds * seconds;
  }
  const double mean = sum / kTimes;
  EXPECT_NEAR(mean, 0.005, 0.0002);
  EXPECT_NEAR(squares / kTimes - mean * mean, mean * mean, 0.1 * mean * mean) << "its deviation is its mean";
}

using testing::Answer200;
using testing::ScriptedServer;
using Turn = ScriptedServer::Turn;

constexpr std::string_view kToken = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n";
constexpr std::string_view kEnd = "data: [DONE]\n\n";

std::string Streamed(std::string_view end = kEnd) {
  std::string body = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
  for (int i = 0; i < 3; ++i) body += kToken;
  return Answer200(body + std::string(kUsage) + std::string(end), "Content-Type: text/event-stream\r\n");
}

// Runs a load against a scripted server.
class LoadRunTest : public ::testing::Test {
 protected:
  void SetUp() override { loop_.Start(); }
  void TearDown() override {
    loop_.Call([this] { run_.reset(); });
  }

  LoadPlan PlanFor(const ScriptedServer& server) {
    LoadPlan plan;
    const auto url = ParseHttpUrl(server.Url("/v1/chat/completions"));
    CHECK(url.ok());
    plan.url = *url;
    plan.headers = "Content-Type: application/json\r\n";
    plan.model = "m";
    plan.requests = 20;
    plan.concurrency = 4;
    plan.timeout = std::chrono::seconds(20);
    return plan;
  }
  void Begin(LoadPlan plan, LoadObserver* observer = nullptr) {
    loop_.Call([&] {
      const auto done = [this] {
        std::lock_guard lock(mutex_);
        ++ends_;
        ended_.notify_one();
      };
      run_ = std::make_unique<LoadRun>(loop_, std::move(plan), done, observer);
      run_->Start();
    });
  }
  const LoadRecord& End() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, std::chrono::seconds(20), [this] { return ends_ > 0; }));
    lock.unlock();
    loop_.Call([] {});
    EXPECT_EQ(ends_, 1);
    return run_->record();
  }
  const LoadRecord& Run(LoadPlan plan) {
    Begin(std::move(plan));
    return End();
  }

  IoLoop loop_;
  std::unique_ptr<LoadRun> run_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int ends_ = 0;
};

TEST_F(LoadRunTest, ClosedLoopKeepsConcurrency) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Streamed(), .step = 7}; });
  const LoadRecord& record = Run(PlanFor(server));
  EXPECT_EQ(record.requests.size(), 20);
  EXPECT_EQ(server.requests().size(), 20);
  EXPECT_LE(server.connections(), 4);
  EXPECT_EQ(record.gap_seconds.size(), 40) << "three tokens each";
  for (const LoadRequest& request : record.requests) {
    EXPECT_EQ(request.outcome, LoadRequest::Outcome::kOk) << request.error;
    EXPECT_EQ(request.chunks, 3);
    EXPECT_EQ(request.completion_tokens, 3);
    EXPECT_EQ(request.prompt_tokens, 5);
    EXPECT_GE(request.first_ns, request.sent_ns);
    EXPECT_GE(request.last_ns, request.first_ns);
    EXPECT_GE(request.done_ns, request.last_ns);
  }
  const LoadSummary summary = Summarize(record, 4, 4);
  EXPECT_EQ(summary.ok, 16);
  EXPECT_EQ(summary.completion_tokens, 48);
}

TEST_F(LoadRunTest, OpenLoopTimesFromDueTime) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Streamed()}; });
  LoadPlan plan = PlanFor(server);
  plan.rate = 2000;
  plan.concurrency = 1;
  const LoadRecord& record = Run(plan);
  EXPECT_EQ(record.requests.size(), 20);
  for (const LoadRequest& request : record.requests) {
    EXPECT_EQ(request.outcome, LoadRequest::Outcome::kOk);
    EXPECT_GE(request.sent_ns, request.due_ns);
    EXPECT_GT(request.due_ns, 0);
  }
}

// Records the calls for each request.
struct Follower final : LoadObserver {
  std::map<uint64_t, std::string> calls;
  std::map<uint64_t, size_t> gaps;
  void OnSent(const LoadRequest& request) override { calls[request.number] += "sent "; }
  void OnFirstToken(const LoadRequest& request) override { calls[request.number] += "first "; }
  void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) override {
    calls[request.number] += "ended";
    gaps[request.number] = gap_seconds.size();
    EXPECT_GE(request.done_ns, request.sent_ns);
  }
};

TEST_F(LoadRunTest, ReportsEachRequestToObserver) {
  ScriptedServer server([](int, int, const std::string& request) {
    const bool third = request.find("\"3 ") != std::string::npos;
    return Turn{.answer = third ? Answer200("<html>") : Streamed(), .step = 7};
  });
  LoadPlan plan = PlanFor(server);
  plan.warmup = 5;
  Follower follower;
  Begin(plan, &follower);
  End();
  ASSERT_EQ(follower.calls.size(), 20);
  for (const auto& [number, calls] : follower.calls) {
    EXPECT_EQ(calls, number == 3 ? "sent ended" : "sent first ended") << number;
    EXPECT_EQ(follower.gaps[number], number == 3 ? 0 : 2) << "its own, also of the warm-up";
  }
}

TEST_F(LoadRunTest, EndsAfterDuration) {
  ScriptedServer server([](int, int, const std::string&) { return Turn{.answer = Streamed()}; });
  LoadPlan plan = PlanFor(server);
  plan.requests = 0;
  plan.duration = std::chrono::milliseconds(100);
  const LoadRecord& record = Run(plan);
  EXPECT_GT(record.requests.size(), 0);
  for (const LoadRequest& request : record.requests) EXPECT_LT(request.due_ns, 100'000'000);
  EXPECT_FALSE(record.stopped);
}

TEST_F(LoadRunTest, CountsErrorsByKind) {
  ScriptedServer server([](int, int, const std::string& request) {
    // A request's prompt ends with words; its number precedes them.
    const auto number = [&](int n) {
      return request.find("\"" + std::to_string(n) + " ") != std::string::npos;
    };
    if (number(0))
      return Turn{.answer =
                      "HTTP/1.1 429 Too Many Requests\r\nContent-Length: "
                      "28\r\n\r\n{\"error\":{\"message\":\"slow\"}}"};
    if (number(1)) return Turn{.answer = Answer200("data: {\"error\":{\"message\":\"oom\"}}\n\n")};
    if (number(2)) return Turn{.answer = Answer200("<html>")};
    if (number(3)) return Turn{.answer = Answer200("data: <html>\n\n")};
    if (number(4)) return Turn{.answer = Streamed("")};
    if (number(5)) return Turn{.answer = Answer200(std::string(kEnd))};
    if (number(6)) return Turn{.answer = Streamed().substr(0, 150), .close = true};
    return Turn{.answer = Streamed()};
  });
  const LoadRecord& record = Run(PlanFor(server));
  std::map<std::string, uint64_t> counts;
  for (const auto& [name, error] : record.errors) counts[name] = error.count;
  EXPECT_THAT(counts,
              ::testing::UnorderedElementsAre(std::pair("HTTP 429", 1u), std::pair("error in the answer", 2u),
                                              std::pair("no end mark", 2u), std::pair("no tokens", 1u),
                                              std::pair("protocol", 1u)));
  EXPECT_EQ(record.errors.at("HTTP 429").detail, "slow");
  EXPECT_EQ(record.requests.size(), 20);
}

TEST_F(LoadRunTest, WholeAnswerHasNoFirstToken) {
  ScriptedServer server([](int, int, const std::string&) {
    return Turn{
        .answer = Answer200(
            R"({"choices":[{"message":{"content":"aaa"}}],"usage":{"prompt_tokens":5,"completion_tokens":3}})")};
  });
  LoadPlan plan = PlanFor(server);
  plan.stream = false;
  const LoadSummary summary = Summarize(Run(plan), 0, 4);
  EXPECT_EQ(summary.ok, 20);
  EXPECT_EQ(summary.completion_tokens, 60);
  EXPECT_EQ(summary.ttft.n, 0);
  EXPECT_EQ(summary.e2e.n, 20);
}

TEST_F(LoadRunTest, CountsConnectionErrors) {
  LoadPlan plan;
  {
    ScriptedServer gone([](int, int, const std::string&) { return Turn{}; });
    plan = PlanFor(gone);
  }
  const LoadRecord& record = Run(plan);
  ASSERT_EQ(record.errors.count("connect"), 1);
  EXPECT_EQ(record.errors.at("connect").count, 20);
  EXPECT_THAT(record.errors.at("connect").detail, ::testing::HasSubstr("refused"));
}

TEST_F(LoadRunTest, StopCancelsRequestsInFlight) {
  std::mutex mutex;
  std::condition_variable came;
  int requests = 0;
  ScriptedServer server([&](int, int, const std::string&) {
    std::lock_guard lock(mutex);
    came.notify_one();
    if (++requests <= 3) return Turn{.answer = Streamed()};
    return Turn{.answer = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(kToken)};
  });
  LoadPlan plan = PlanFor(server);
  plan.concurrency = 2;
  Begin(plan);
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(came.wait_for(lock, std::chrono::seconds(20), [&] { return requests >= 5; }));
  }
  loop_.Call([this] {
    EXPECT_EQ(run_->progress().in_flight, 2);
    run_->Stop();
    run_->Stop();
  });
  const LoadRecord& record = End();
  EXPECT_TRUE(record.stopped);
  const LoadSummary summary = Summarize(record, 0, 2);
  EXPECT_EQ(summary.ok, 3);
  EXPECT_EQ(summary.cancelled, 2);
}

}  // namespace

}  // namespace gpulens
