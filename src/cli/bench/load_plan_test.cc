#include "cli/bench/load_plan.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace gpulens {
namespace {

std::string PromptOf(const LoadPlan& plan, uint64_t number) {
  const auto body = JsonDocument::Parse(RequestBody(plan, number));
  EXPECT_TRUE(body);
  return body->Text(plan.chat ? "/messages/0/content" : "/prompt").value_or("");
}

TEST(LoadPlan, EveryRequestHasItsOwnPromptAndTheSameOneNextTime) {
  LoadPlan plan;
  plan.model = "a\"b";
  plan.prompt_words = 16;
  std::set<std::string> prompts;
  for (uint64_t i = 0; i < 100; ++i) {
    const std::string prompt = PromptOf(plan, i);
    EXPECT_EQ(std::count(prompt.begin(), prompt.end(), ' '), 15);
    EXPECT_EQ(prompt, PromptOf(plan, i));
    prompts.insert(prompt.substr(0, prompt.find(' ')));
  }
  EXPECT_EQ(prompts.size(), 100) << "they differ from the first token on";
  LoadPlan other = plan;
  other.seed = 2;
  EXPECT_NE(PromptOf(plan, 3), PromptOf(other, 3));
}

TEST(LoadPlan, PromptsMayShareTheirBeginning) {
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

TEST(LoadPlan, TheBodyAsksForWhatThePlanSays) {
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

}  // namespace
}  // namespace gpulens
