#include "proxy/proxy_records.h"

#include <gtest/gtest.h>

#include <chrono>

#include "store/charges/charge_testing.h"

namespace gpulens::proxy {
namespace {

ChargeRecord Settled() {
  ChargeRecord record = TestCharge(2);
  record.attempts.clear();
  record.usage = {};
  record.usage[LlmClass::kInput] = 100;
  record.usage[LlmClass::kInputCached] = 40;
  record.usage[LlmClass::kInputImage] = 7;
  record.usage[LlmClass::kOutput] = 20;
  record.usage[LlmClass::kOutputReasoning] = 5;
  record.usage.input_known = record.usage.output_known = true;
  record.list_pico = record.charged_pico = 1'250'000'000;
  return record;
}

TEST(ProxyRecordsTest, HasWhatTheRequestUsedAndCost) {
  const ChargeRecord record = Settled();
  std::string room;
  const InferenceRecord made = RecordOf(record, true, room);
  EXPECT_EQ(made.model, "model-2026");
  EXPECT_EQ(made.engine, "openai");
  EXPECT_EQ(made.agent, record.key);
  EXPECT_EQ(std::chrono::duration_cast<std::chrono::nanoseconds>(made.time.time_since_epoch()).count(),
            record.dispatch_unix_ns);
  EXPECT_TRUE(made.streaming);
  EXPECT_EQ(made.outcome, Outcome::kOk);
  EXPECT_EQ(made.prompt_tokens, 147);
  EXPECT_EQ(made.cached_prompt_tokens, 40);
  EXPECT_EQ(made.prompt_tokens_evaluated, 107);
  EXPECT_EQ(made.completion_tokens, 25);
  EXPECT_DOUBLE_EQ(made.latency_seconds, 0.0005);
  EXPECT_DOUBLE_EQ(made.ttft_seconds, 0.0001);
  EXPECT_EQ(made.itl_seconds.n, 49u);
  EXPECT_DOUBLE_EQ(made.itl_seconds.mean, 0.0003 / 49);
  EXPECT_DOUBLE_EQ(made.cost_usd, 0.00125);
  EXPECT_EQ(made.metadata_json,
            "{\"request_id\":\"" + RequestIdText(record.id) +
                "\",\"key\":\"key-2\",\"tenant\":\"tenant-2\",\"profile\":\"managed\",\"region\":\"eu-1\","
                "\"operation\":\"chat\",\"tier\":\"standard\",\"model_requested\":\"model-latest\","
                "\"counted_by\":\"usage\",\"charged_pico\":1250000000,\"list_pico\":1250000000,"
                "\"status\":200}");
}

TEST(ProxyRecordsTest, WhatIsNotKnownIsAbsent) {
  std::string room;
  ChargeRecord record = Settled();
  record.usage = {};
  record.usage[LlmClass::kInput] = 10;
  record.usage.input_known = true;
  record.ttft_ns.reset();
  record.itl_count = record.itl_sum_ns = 0;
  InferenceRecord made = RecordOf(record, false, room);
  EXPECT_EQ(made.prompt_tokens, 10);
  EXPECT_FALSE(made.cached_prompt_tokens) << "none was named";
  EXPECT_FALSE(made.prompt_tokens_evaluated);
  EXPECT_FALSE(made.completion_tokens) << "the provider did not count them";
  EXPECT_NE(made.ttft_seconds, made.ttft_seconds);
  EXPECT_EQ(made.itl_seconds.n, 0u);

  record.list_pico = record.charged_pico = 0;
  record.price_row = -1;
  made = RecordOf(record, false, room);
  EXPECT_NE(made.cost_usd, made.cost_usd) << "it has no price";
  record.profile = "subscription";
  EXPECT_EQ(RecordOf(record, false, room).cost_usd, 0);
  record.profile = "byoc";
  made = RecordOf(record, false, room);
  EXPECT_NE(made.cost_usd, made.cost_usd) << "the ledger has it";

  record = Settled();
  record.counted_by = CountedBy::kNothing;
  record.usage = {};
  record.list_pico = record.charged_pico = 0;
  made = RecordOf(record, false, room);
  EXPECT_FALSE(made.prompt_tokens);
  EXPECT_FALSE(made.completion_tokens);
  EXPECT_EQ(made.cost_usd, 0) << "nothing was used";

  record = Settled();  // of bytes
  record.counted_by = CountedBy::kCalibrated;
  record.usage.input_known = record.usage.output_known = false;
  made = RecordOf(record, false, room);
  EXPECT_EQ(made.prompt_tokens, 147);
  EXPECT_EQ(made.completion_tokens, 25);
}

TEST(ProxyRecordsTest, OutcomesAndErrorsHaveNames) {
  std::string room;
  ChargeRecord record = Settled();
  record.outcome = ChargeOutcome::kCancelled;
  InferenceRecord made = RecordOf(record, true, room);
  EXPECT_EQ(made.outcome, Outcome::kCancelled);
  EXPECT_EQ(made.error_type, "");
  record.outcome = ChargeOutcome::kUpstreamFailed;
  record.status = 502;
  record.attempts = {{"openai", "timeout", 0, 0, 0}};
  made = RecordOf(record, true, room);
  EXPECT_EQ(made.outcome, Outcome::kError);
  EXPECT_EQ(made.error_type, "timeout");
  record.outcome = ChargeOutcome::kComplete;
  record.status = 400;
  record.attempts = {{"openai", "ok", 0, 0, 0}};
  made = RecordOf(record, true, room);
  EXPECT_EQ(made.outcome, Outcome::kError);
  EXPECT_EQ(made.error_type, "http_error");
  record.outcome = ChargeOutcome::kRefused;
  EXPECT_EQ(RecordOf(record, true, room).error_type, "refused");
}

}  // namespace
}  // namespace gpulens::proxy
