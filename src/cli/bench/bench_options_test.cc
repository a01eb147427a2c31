#include "cli/bench/bench_command.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens {
namespace {

BenchPlan PlanOf(const BenchOptions& options) {
  auto plan = MakeBenchPlan(options);
  EXPECT_TRUE(plan) << plan.status().detail;
  return plan ? std::move(*plan) : BenchPlan{};
}

std::string TargetOf(const std::string& url, bool completions = false) {
  BenchOptions options;
  options.url = url;
  options.completions = completions;
  return PlanOf(options).load.url.target;
}

TEST(BenchOptions, AcceptsServerApiOrEndpointUrl) {
  for (const char* url : {"http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/",
                          "http://a:1/v1/chat/completions", "http://a:1/v1/completions"}) {
    EXPECT_EQ(TargetOf(url), "/v1/chat/completions") << url;
    EXPECT_EQ(TargetOf(url, true), "/v1/completions") << url;
  }
  EXPECT_EQ(TargetOf("http://a:1/openai/v1"), "/openai/v1/chat/completions");
  BenchOptions options;
  options.url = "http://a:1/openai/v1/chat/completions";
  EXPECT_EQ(PlanOf(options).models.target, "/openai/v1/models");
}

TEST(BenchOptions, DefaultLengthAndWarmUp) {
  BenchOptions options;
  options.url = "http://a:1";
  EXPECT_EQ(PlanOf(options).load.requests, 200);
  EXPECT_EQ(PlanOf(options).load.concurrency, 8);
  EXPECT_EQ(PlanOf(options).load.warmup, 8);
  options.load.requests = 10;
  EXPECT_EQ(PlanOf(options).load.warmup, 0) << "ten requests are too few to leave eight out";
  options.load.requests = 0;
  options.duration = "2s";
  EXPECT_EQ(PlanOf(options).load.requests, 0);
  EXPECT_EQ(PlanOf(options).load.duration, std::chrono::seconds(2));
  options.load.rate = 5;
  EXPECT_EQ(PlanOf(options).load.concurrency, 1000);
  EXPECT_EQ(PlanOf(options).load.warmup, 0);
  options.warmup = 3;
  EXPECT_EQ(PlanOf(options).load.warmup, 3);
}

TEST(BenchOptions, ErrorsNameTheOption) {
  const auto refused = [](auto change, const char* expected) {
    BenchOptions options;
    options.url = "http://a:1";
    change(options);
    const auto plan = MakeBenchPlan(options);
    ASSERT_FALSE(plan) << expected;
    EXPECT_EQ(plan.status().code, Code::kInvalidArgument);
    EXPECT_THAT(plan.status().detail, ::testing::HasSubstr(expected));
  };
  refused([](BenchOptions& o) { o.url = "gpu7"; }, "gpu7");
  refused([](BenchOptions& o) { o.targets = {"ttft"}; }, "--slo ttft: expected ttft=TIME");
  refused([](BenchOptions& o) { o.targets = {"ttfb=1s"}; }, "--slo ttfb=1s");
  refused([](BenchOptions& o) { o.targets = {"itl=soon"}; }, "\"soon\"");
  refused([](BenchOptions& o) { o.duration = "-1s"; }, "--duration");
  refused([](BenchOptions& o) { o.timeout = "0"; }, "--timeout");
  refused([](BenchOptions& o) { o.headers = {"no colon"}; }, "Name: value");
  refused([](BenchOptions& o) { o.headers = {"Content-Length: 3"}; }, "--header");
  refused([](BenchOptions& o) { o.api_key_variable = "GPULENS_NO_SUCH_KEY"; }, "the variable is not set");
  refused([](BenchOptions& o) { o.load.requests = 5, o.warmup = 5; }, "--warmup");
}

TEST(BenchOptions, KeysAndTargetsReachThePlan) {
  ::setenv("GPULENS_TEST_KEY", "sk-1", 1);
  BenchOptions options;
  options.url = "http://user:word@a:1";
  options.api_key_variable = "GPULENS_TEST_KEY";
  options.headers = {"X-Team: nlp"};
  options.targets = {"ttft=500ms", "e2e=10s"};
  const BenchPlan plan = PlanOf(options);
  ::unsetenv("GPULENS_TEST_KEY");
  EXPECT_THAT(plan.load.headers, ::testing::HasSubstr("Authorization: Bearer sk-1\r\n"));
  EXPECT_THAT(plan.load.headers, ::testing::HasSubstr("Authorization: Basic "));
  EXPECT_THAT(plan.load.headers, ::testing::HasSubstr("X-Team: nlp\r\n"));
  EXPECT_EQ(plan.targets.ttft, 0.5);
  EXPECT_EQ(plan.targets.e2e, 10);
  EXPECT_FALSE(plan.targets.itl);
}

}  // namespace
}  // namespace gpulens
