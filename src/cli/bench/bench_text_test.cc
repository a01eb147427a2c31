#include "cli/bench/bench_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadPlan Plan() {
  LoadPlan plan;
  plan.url = *ParseHttpUrl("http://a:1/v1/chat/completions");
  plan.model = "llama";
  plan.requests = 2000;
  plan.concurrency = 32;
  return plan;
}

LoadSummary Summary() {
  LoadSummary summary;
  summary.ok = 1990;
  summary.errors = 10;
  summary.prompt_tokens = 254'720;
  summary.prompt_tokens_known = true;
  summary.completion_tokens = 250'112;
  summary.elapsed_seconds = 61.2;
  summary.requests_per_second = 32.52;
  summary.output_tokens_per_second = 4086.8;
  summary.total_tokens_per_second = 8249;
  const double ttft[] = {0.1, 0.2, 0.3};
  summary.ttft = summary.e2e = Describe(ttft);
  return summary;
}

std::string TextOf(const LoadRecord& record, const LoadSummary& summary, const LoadPlan& plan = Plan()) {
  return ResultText({plan, record, summary, BenchEnergy()});
}
std::string JsonOf(const LoadRecord& record, const LoadSummary& summary) {
  return ResultJson({Plan(), record, summary, BenchEnergy()});
}

TEST(BenchText, FormatsResult) {
  LoadRecord record;
  record.errors["HTTP 429"] = {10, "slow\x1b[2J down"};
  LoadSummary summary = Summary();
  summary.steady_since = 160;
  const std::string text = TextOf(record, summary);
  EXPECT_THAT(text, HasSubstr("llama at http://a:1/v1/chat/completions: 32 at a time, 2,000 requests\n"));
  EXPECT_THAT(text, HasSubstr("1,990 answered, 10 failed, 0 cancelled in 61.2 s: 32.5 requests/s\n"));
  EXPECT_THAT(text, HasSubstr("10 × HTTP 429: slow\\x1b[2J down\n"));
  EXPECT_THAT(text, HasSubstr("254,720 in, 250,112 out: 4087 tokens/s out, 8249 in all\n"));
  EXPECT_THAT(text, HasSubstr("  TTFT             200       200"));
  EXPECT_THAT(text, HasSubstr("steady       since request 160\n"));
  EXPECT_THAT(text, Not(HasSubstr("goodput"))) << "there was no target";
  EXPECT_THAT(text, Not(HasSubstr("ITL"))) << "there were no gaps";
  EXPECT_THAT(text, Not(HasSubstr("note")));
  EXPECT_THAT(TextOf(record, Summary()), HasSubstr("steady       unknown"));
}

TEST(BenchText, AddsNotes) {
  LoadRecord record;
  record.stopped = record.gaps_cut = true;
  LoadSummary summary = Summary();
  summary.steady_validated = true;
  summary.without_usage = 5;
  summary.chunks = 100;
  summary.tokens_of_chunks = 250;
  summary.good_ratio = 0.5;
  summary.good_per_second = 16;
  const double late[] = {0.1};
  summary.late = Describe(late);
  LoadPlan plan = Plan();
  plan.rate = 40;
  const std::string text = TextOf(record, summary, plan);
  EXPECT_THAT(text, HasSubstr("stopped early, the figures are partial"));
  EXPECT_THAT(text, HasSubstr("no token counts for 5 requests"));
  EXPECT_THAT(text, HasSubstr("2.50 tokens arrived per event"));
  EXPECT_THAT(text, HasSubstr("16.0 requests/s, 50.0 % met every target"));
  EXPECT_THAT(text, HasSubstr("waited to be sent, p99 100 ms"));
  EXPECT_THAT(text, HasSubstr("steady       never"));
}

TEST(BenchText, ShowsDashesForUnknownValues) {
  const std::string text = TextOf({}, {});
  EXPECT_THAT(text, HasSubstr("in – s: – requests/s"));
  EXPECT_THAT(text, HasSubstr("– in, 0 out: – tokens/s out, – in all"));
}

TEST(BenchText, JsonHasNullForUnknownValues) {
  LoadRecord record;
  record.errors["timeout"].count = 10;
  const auto json = JsonDocument::Parse(JsonOf(record, Summary()));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->Text("/schema"), "gpulens.bench_serve/1");
  EXPECT_EQ(json->Whole("/ok"), 1990);
  EXPECT_EQ(json->Whole("/errors_by_kind/timeout"), 10);
  EXPECT_NEAR(*json->Number("/ttft_seconds/p50"), 0.2, 1e-9);
  EXPECT_EQ(json->Number("/itl_seconds/p50"), std::nullopt);
  EXPECT_THAT(JsonOf(record, {}), HasSubstr("\"itl_seconds\":null"));
  EXPECT_THAT(JsonOf(record, {}), HasSubstr("\"elapsed_seconds\":null"));
}

TEST(BenchText, ReportsStoreAndLostRecords) {
  const LoadPlan plan = Plan();
  const LoadRecord record;
  const LoadSummary summary = Summary();
  const BenchEnergy energy;
  BenchStored stored{.path = "/tmp/t\n.db", .batch_id = "bench-1", .stored = 1990};
  EXPECT_THAT(
      ResultText({plan, record, summary, energy, stored}),
      HasSubstr(
          "  stored       1990 records: gpulens telemetry stats --db /tmp/t\\x0a.db --batch bench-1\n"));
  EXPECT_THAT(TextOf(record, summary), Not(HasSubstr("stored")));
  stored.lost = 10, stored.status = {Code::kIo, "disk full"};
  EXPECT_THAT(ResultText({plan, record, summary, energy, stored}),
              HasSubstr("  note         10 records are lost: disk full\n"));
  const auto json = JsonDocument::Parse(ResultJson({plan, record, summary, energy, stored}));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->Text("/store/path"), "/tmp/t\n.db");
  EXPECT_EQ(json->Text("/store/batch_id"), "bench-1");
  EXPECT_EQ(json->Whole("/store/stored"), 1990u);
  EXPECT_EQ(json->Whole("/store/lost"), 10u);
  EXPECT_EQ(json->Text("/store/reason"), "disk full");
}

TEST(BenchText, FormatsProgress) {
  EXPECT_EQ(ProgressText(Plan(), {.ended = 1128,
                                  .in_flight = 32,
                                  .errors = 0,
                                  .output_tokens = 41'200,
                                  .elapsed_seconds = 100,
                                  .first_token_seconds = 0.388}),
            "  1,128/2,000  56 %  77 s left   32 in flight   412 tok/s   TTFT 388 ms   errors 0");
  EXPECT_THAT(ProgressText(Plan(), {}), HasSubstr("– s left"));
}

}  // namespace
}  // namespace gpulens
