#include "cli/bench/load_run.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gpulens {
namespace {

constexpr int64_t kMs = 1'000'000;

// A request with 10 tokens: the first after `ttft`, then one each `itl` milliseconds.
LoadRequest Answered(uint64_t number, int64_t due, int64_t ttft, int64_t itl) {
  LoadRequest request;
  request.number = number;
  request.due_ns = due * kMs;
  request.sent_ns = due * kMs;
  request.first_ns = (due + ttft) * kMs;
  request.last_ns = request.done_ns = (due + ttft + 9 * itl) * kMs;
  request.chunks = 10;
  request.completion_tokens = 10;
  request.prompt_tokens = 100;
  return request;
}

TEST(LoadSummary, ExcludesWarmUp) {
  LoadRecord record;
  record.requests = {Answered(0, 0, 5000, 500), Answered(1, 1000, 100, 20), Answered(2, 1000, 300, 20)};
  record.gap_seconds = {0.02, 0.02};
  const LoadSummary summary = Summarize(record, 1, 2);
  EXPECT_EQ(summary.ok, 2);
  EXPECT_DOUBLE_EQ(summary.ttft.mean, 0.2);
  EXPECT_DOUBLE_EQ(summary.ttft.max, 0.3);
  EXPECT_DOUBLE_EQ(summary.tpot.mean, 0.02);
  EXPECT_DOUBLE_EQ(summary.e2e.max, 0.48);
  EXPECT_DOUBLE_EQ(summary.elapsed_seconds, 0.48);
  EXPECT_EQ(summary.completion_tokens, 20);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second, 20 / 0.48);
  EXPECT_DOUBLE_EQ(summary.total_tokens_per_second, 220 / 0.48);
  EXPECT_FALSE(summary.cached_tokens_known);
  EXPECT_TRUE(std::isnan(summary.good_ratio)) << "no target, nothing to keep";
}

TEST(LoadSummary, ExcludesErrorsFromLatency) {
  LoadRecord record;
  record.requests = {Answered(0, 0, 100, 20), Answered(1, 0, 1, 1), Answered(2, 0, 1, 1)};
  record.requests[1].outcome = LoadRequest::Outcome::kError;
  record.requests[2].outcome = LoadRequest::Outcome::kCancelled;
  const LoadSummary summary = Summarize(record, 0, 1, {.ttft = 0.5});
  EXPECT_EQ(summary.ok, 1);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(summary.cancelled, 1);
  EXPECT_EQ(summary.ttft.n, 1);
  EXPECT_EQ(summary.completion_tokens, 10);
  EXPECT_DOUBLE_EQ(summary.good_ratio, 1.0 / 3) << "a failure keeps no target";
}

TEST(LoadSummary, GoodRequestMeetsAllTargets) {
  LoadRecord record;
  record.requests = {Answered(0, 0, 100, 20), Answered(1, 0, 600, 20), Answered(2, 0, 100, 60)};
  EXPECT_DOUBLE_EQ(Summarize(record, 0, 1, {.ttft = 0.5}).good_ratio, 2.0 / 3);
  EXPECT_DOUBLE_EQ(Summarize(record, 0, 1, {.ttft = 0.5, .itl = 0.05}).good_ratio, 1.0 / 3);
  EXPECT_DOUBLE_EQ(Summarize(record, 0, 1, {.e2e = 0.7}).good_ratio, 2.0 / 3);
  EXPECT_DOUBLE_EQ(Summarize(record, 0, 1, {.e2e = 0.7}).good_per_second, 2 / 0.78);
  LoadRequest one = Answered(3, 0, 100, 0);
  one.completion_tokens = one.chunks = 1;
  record.requests = {one};
  EXPECT_EQ(Summarize(record, 0, 1, {.itl = 0.001}).good_ratio, 1) << "one token has no time between tokens";
}

TEST(LoadSummary, LatencyCountsFromDueTime) {
  LoadRecord record;
  LoadRequest late = Answered(0, 0, 400, 20);
  late.sent_ns = 300 * kMs;
  record.requests = {late};
  const LoadSummary summary = Summarize(record, 0, 1);
  EXPECT_DOUBLE_EQ(summary.ttft.mean, 0.4);
  EXPECT_DOUBLE_EQ(summary.late.mean, 0.3);
}

TEST(LoadSummary, CountsEventsWithoutUsage) {
  LoadRecord record;
  LoadRequest request = Answered(0, 0, 100, 20);
  request.completion_tokens.reset();
  request.prompt_tokens.reset();
  request.chunks = 7;
  record.requests = {request, Answered(1, 0, 100, 20)};
  record.requests[1].chunks = 5;
  const LoadSummary summary = Summarize(record, 0, 1);
  EXPECT_EQ(summary.completion_tokens, 17);
  EXPECT_EQ(summary.without_usage, 1);
  EXPECT_EQ(summary.chunks, 5);
  EXPECT_EQ(summary.tokens_of_chunks, 10);
}

TEST(LoadSummary, DetectsSteadyRate) {
  LoadRecord record;
  int64_t at = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    at += i < 30 ? 100 - static_cast<int64_t>(i) * 3 : 10;
    record.requests.push_back(Answered(i, at, 0, 0));
  }
  const auto since = Summarize(record, 0, 4).steady_since;
  ASSERT_TRUE(since);
  EXPECT_EQ(*since, 70) << "steps of 10: the windows 30-60 and 40-70 are alike";
  record.requests.resize(60);
  EXPECT_FALSE(Summarize(record, 0, 4).steady_since);
  EXPECT_TRUE(Summarize(record, 0, 4).steady_validated);
  EXPECT_FALSE(Summarize(record, 0, 20).steady_validated) << "three steps are too few";
}

TEST(LoadSummary, EmptyRecordHasNoFigures) {
  const LoadSummary summary = Summarize({}, 0, 1, {.ttft = 1});
  EXPECT_EQ(summary.ok, 0);
  EXPECT_EQ(summary.ttft.n, 0);
  EXPECT_TRUE(std::isnan(summary.elapsed_seconds));
  EXPECT_TRUE(std::isnan(summary.requests_per_second));
  EXPECT_FALSE(summary.prompt_tokens_known);
}

}  // namespace
}  // namespace gpulens
