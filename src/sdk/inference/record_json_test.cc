#include "sdk/inference/record_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "base/files.h"

namespace gpulens::sdk {
namespace {

using telemetry::kNoCount, telemetry::TextColumn;
using ::testing::HasSubstr;

std::string WhyNot(std::string_view json) {
  const auto record = ReadRecordJson(json);
  if (record) return "it is read";
  EXPECT_EQ(record.error().code, Code::kInvalidArgument);
  return record.error().detail;
}

TEST(RecordJson, OmittedMembersAreUnknown) {
  const auto record = ReadRecordJson(
      R"({"model_id": "llama", "engine": "vllm", "timestamp": 1763690820.1234567, "prompt_tokens": 512,
          "cached_prompt_tokens": 500, "completion_tokens": 0, "latency_seconds": 0.5, "cost_usd": 0,
          "gpu_utilization_pct": 75, "mean_itl_ms": 12.5, "gpu_temperature_c": -2, "ttft": null,
          "is_streaming": true, "is_warmup": 1, "outcome": "error", "error_type": "timeout",
          "metadata": "{\"a\": 1}"})");
  ASSERT_TRUE(record.ok()) << record.error().detail;
  const telemetry::RecordNumbers& n = record->numbers;
  EXPECT_EQ(n.timestamp, 1763690820.1234567) << "to the last bit";
  EXPECT_EQ(n.prompt_tokens, 512);
  EXPECT_EQ(n.completion_tokens, 0) << "a measured 0 is one";
  EXPECT_EQ(n.cost_usd, 0);
  EXPECT_EQ(n.gpu_temperature_c, -2);
  EXPECT_EQ(n.mean_itl_ms, 12.5);
  EXPECT_EQ(n.is_streaming, 1);
  EXPECT_EQ(n.is_warmup, 1);
  EXPECT_EQ(n.outcome, static_cast<int64_t>(Outcome::kError));
  EXPECT_TRUE(std::isnan(n.ttft) && std::isnan(n.energy_joules));
  EXPECT_EQ(n.itl_count, kNoCount);
  // Derived values.
  EXPECT_EQ(n.total_tokens, 512);
  EXPECT_EQ(n.prompt_tokens_evaluated, 12);
  EXPECT_EQ(n.throughput_tok_per_sec, 0);
  EXPECT_EQ(n.token_counting_version, kTokensCounted);
  const telemetry::RecordRow row = record->row();
  EXPECT_EQ(row.text(TextColumn::kModel), "llama");
  EXPECT_EQ(row.text(TextColumn::kMetadata), R"({"a": 1})");
  EXPECT_EQ(row.text(TextColumn::kErrorType), "timeout");
  EXPECT_EQ(row.text(TextColumn::kAgent), "");
}

TEST(RecordJson, ExportedRowIsKeptUnchanged) {
  // Bits 4 and 6: prompt and completion tokens.
  const auto ours = ReadRecordJson(
      R"({"id": 7, "model_id": "m", "prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 5,
          "latency_seconds": 0.0, "cached_prompt_tokens": null, "itl_count": 0, "measured": 80})");
  ASSERT_TRUE(ours.ok()) << ours.error().detail;
  EXPECT_EQ(ours->numbers.prompt_tokens, 9);
  EXPECT_EQ(ours->numbers.completion_tokens, 0);
  EXPECT_EQ(ours->numbers.total_tokens, kNoCount) << "it was not measured, and nothing is computed";
  EXPECT_TRUE(std::isnan(ours->numbers.latency_seconds));
  EXPECT_EQ(ours->numbers.itl_count, 0) << "not one that `measured` tells of";
  EXPECT_EQ(ours->numbers.token_counting_version, kNoCount);
  for (const char* text :
       {R"({"id": 7, "prompt_tokens": 9, "completion_tokens": 0, "ttft": 0.0})",
        R"({"measured": null, "prompt_tokens": 9, "completion_tokens": 0, "ttft": 0.0})"}) {
    const auto foreign = ReadRecordJson(text);
    ASSERT_TRUE(foreign.ok());
    EXPECT_EQ(foreign->numbers.prompt_tokens, 9);
    EXPECT_EQ(foreign->numbers.completion_tokens, kNoCount) << "another program's 0 is not known";
    EXPECT_TRUE(std::isnan(foreign->numbers.ttft));
  }
}

TEST(RecordJson, NamesInvalidMembers) {
  EXPECT_EQ(WhyNot(R"({"latency": 1})"), "\"latency\" is not a column of a record");
  EXPECT_EQ(WhyNot(R"({"\u001b[2J": 1})"), "\"\\x1b[2J\" is not a column of a record");
  EXPECT_LT(WhyNot("{\"" + std::string(9'000, 'x') + "\": 1}").size(), 200u);
  EXPECT_EQ(WhyNot(R"({"model_id": 7})"), "\"model_id\" must be a string or null");
  EXPECT_EQ(WhyNot(R"({"ttft": "1"})"), "\"ttft\" must be a number that a double can hold, or null");
  EXPECT_EQ(WhyNot(R"({"ttft": 1e999})"), "\"ttft\" must be a number that a double can hold, or null");
  EXPECT_EQ(WhyNot(R"({"prompt_tokens": 1.5})"), "\"prompt_tokens\" must be an integer or null");
  EXPECT_EQ(WhyNot(R"({"prompt_tokens": -1})"), "\"prompt_tokens\" is negative");
  EXPECT_EQ(WhyNot(R"({"is_warmup": "yes"})"), "\"is_warmup\" must be true, false, an integer or null");
  EXPECT_EQ(WhyNot(R"({"outcome": "bad"})"), R"("outcome" must be "ok", "error" or "cancelled")");
  EXPECT_EQ(WhyNot(R"({"ttft": -1})"), "a record cannot have a negative duration or energy");
  EXPECT_EQ(WhyNot(R"({"timestamp": 1e18})"), "a record cannot have a time outside the years 1970 to 9999");
  EXPECT_EQ(WhyNot(R"({"metadata": "[]"})"), "\"metadata\" must be the text of a JSON object");
  EXPECT_THAT(WhyNot(R"({"metadata": "{a}"})"), HasSubstr("JSON object: invalid JSON at byte 1"));
  EXPECT_EQ(WhyNot("[]"), "a record must be a JSON object");
  EXPECT_THAT(WhyNot("{} {}"), HasSubstr("invalid JSON at byte 3"));
  const std::string padding(kMostRecordBytes - 1, ' ');
  EXPECT_EQ(WhyNot("{}" + padding), "a record of 65537 bytes; at most 65536 are read");
  EXPECT_TRUE(ReadRecordJson("{}" + padding.substr(1)).ok());
}

// A sum that no number can hold is not known, and nothing overflows.
TEST(RecordJson, AcceptsTheLargestCounts) {
  const auto record =
      ReadRecordJson(R"({"prompt_tokens": 9223372036854775807, "completion_tokens": 9223372036854775807})");
  ASSERT_TRUE(record.ok()) << record.error().detail;
  EXPECT_EQ(record->numbers.prompt_tokens, INT64_MAX);
  EXPECT_EQ(record->numbers.total_tokens, kNoCount);
}

TEST(RecordJson, ReadsTheCorpus) {
  std::map<std::string, int> seen;
  const std::string folder = GPULENS_SOURCE_DIR "/src/sdk/inference/testdata/record_json_corpus";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename();
    const auto text = ReadFile(file.path(), 1 << 20);
    ASSERT_TRUE(text.ok()) << name;
    const bool good = name.starts_with("good_");
    ++seen[good ? "good" : "bad"];
    EXPECT_EQ(ReadRecordJson(*text).ok(), good) << name;
  }
  EXPECT_GE(seen["good"], 10);
  EXPECT_GE(seen["bad"], 30);
}

}  // namespace
}  // namespace gpulens::sdk
