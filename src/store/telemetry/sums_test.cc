#include "store/telemetry/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpulens::telemetry {
namespace {

std::string BytesOf(const CallSums& sums) {
  std::string bytes;
  sums.AppendBytes(bytes);
  return bytes;
}

RecordRow Call(double latency) {
  RecordRow row;
  row.numbers.latency_seconds = latency;
  row.numbers.completion_tokens = 7;
  row.numbers.throughput_tok_per_sec = 7 / latency;
  return row;
}

TEST(Sums, BytesAreTakenAsTheSumsWouldBe) {
  CallSums a, b, both;
  for (double latency : {0.5, 1.5}) a.Add(Call(latency)), both.Add(Call(latency));
  b.Add(Call(4)), both.Add(Call(4));
  ASSERT_TRUE(a.MergeBytes(BytesOf(b)).ok());
  EXPECT_EQ(BytesOf(a), BytesOf(both));
  const InferenceSummary summary = a.Summary("k");
  EXPECT_EQ(summary.key, "k");
  EXPECT_EQ(summary.calls, 3u);
  EXPECT_EQ(summary.latency_seconds.max, 4);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second, 21.0 / 6);
}

TEST(Sums, BadBytesLeaveNothing) {
  const std::filesystem::path folder =
      std::string(GPULENS_SOURCE_DIR) + "/src/store/telemetry/testdata/sums_corpus";
  int bad = 0, good = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::stringstream bytes;
    bytes << std::ifstream(entry.path()).rdbuf();
    CallSums sums;
    sums.Add(Call(1));
    const std::string before = BytesOf(sums);
    const Status status = sums.MergeBytes(bytes.str());
    if (entry.path().filename().string().starts_with("good_")) {
      EXPECT_TRUE(status.ok()) << entry.path();
      EXPECT_EQ(sums.count(CallCount::kCalls), 2u) << entry.path();
      ++good;
      continue;
    }
    EXPECT_EQ(status.code, Code::kDataLoss) << entry.path();
    EXPECT_EQ(BytesOf(sums), before) << entry.path();
    ++bad;
  }
  EXPECT_EQ(bad, 13);
  EXPECT_EQ(good, 2);
}

}  // namespace
}  // namespace gpulens::telemetry
