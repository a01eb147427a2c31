#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/testing/temp_folder.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary_testing.h"

namespace gpulens::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

RecordRow Call(double time, std::string_view model, std::string_view engine = "vllm") {
  RecordRow row;
  row.numbers.timestamp = time;
  row.text(TextColumn::kModel) = model;
  row.text(TextColumn::kEngine) = engine;
  return row;
}

class SummarizeTest : public ::testing::Test {
 protected:
  InferenceSummary All(Query query = {}) {
    query.by = GroupBy::kAll;
    auto out = Summarize(file_.database(), query);
    EXPECT_TRUE(out) << out.error().detail;
    EXPECT_EQ(out->size(), 1u);
    return out->front();
  }
  std::vector<std::string> Keys(const Query& query) {
    auto out = Summarize(file_.database(), query);
    EXPECT_TRUE(out) << out.error().detail;
    std::vector<std::string> keys;
    for (const auto& each : *out) keys.push_back(each.key + "=" + std::to_string(each.calls));
    return keys;
  }
  void Insert(const std::vector<RecordRow>& rows) { file_.Insert(rows); }

  testing::TempFolder folder_;
  WrittenFile file_{folder_.path() + "/t.db", nullptr};
};

TEST_F(SummarizeTest, AnEmptyFileHasAnEmptySummary) {
  const InferenceSummary all = All();
  EXPECT_EQ(all.calls, 0u);
  EXPECT_EQ(all.latency_seconds.n, 0u);
  EXPECT_THAT(all.latency_seconds.p95, IsNan());
  EXPECT_THAT(all.joules_per_output_token, IsNan());
  EXPECT_THAT(Keys({.by = GroupBy::kModel}), ElementsAre());
}

TEST_F(SummarizeTest, UnmeasuredValuesDoNotDiluteMeans) {
  std::vector<RecordRow> rows(10, Call(1, "m"));
  rows[3].numbers.mean_itl_ms = 20;
  Insert(rows);
  EXPECT_EQ(All().calls, 10u);
  EXPECT_EQ(All().itl_seconds.n, 1u);
  EXPECT_DOUBLE_EQ(All().itl_seconds.mean, 0.02);
}

TEST_F(SummarizeTest, AMeasuredZeroCounts) {
  std::vector<RecordRow> rows(2, Call(1, "m"));
  rows[0].numbers.gpu_utilization_pct = 0;
  rows[1].numbers.gpu_utilization_pct = 50;
  Insert(rows);
  EXPECT_EQ(All().gpu_utilization_ratio.n, 2u);
  EXPECT_DOUBLE_EQ(All().gpu_utilization_ratio.mean, 0.25);
}

TEST_F(SummarizeTest, RatiosAreOfTheSumsOfThoseThatHaveBoth) {
  std::vector<RecordRow> rows(3, Call(1, "m"));
  rows[0].numbers.energy_joules = 10, rows[0].numbers.completion_tokens = 1000;
  rows[1].numbers.energy_joules = 1, rows[1].numbers.completion_tokens = 1;
  rows[2].numbers.completion_tokens = 5000;
  Insert(rows);
  const InferenceSummary all = All();
  EXPECT_DOUBLE_EQ(all.joules_per_output_token, 11.0 / 1001);
  EXPECT_DOUBLE_EQ(all.output_tokens_per_second_per_watt, 1001.0 / 11);
  EXPECT_THAT(all.output_tokens_per_second, IsNan());
  EXPECT_EQ(all.completion_tokens, 6001u);
  EXPECT_DOUBLE_EQ(all.energy_joules.sum, 11);
}

TEST_F(SummarizeTest, ThroughputPerWattIsOfTheSumsToo) {
  std::vector<RecordRow> rows(4, Call(1, "m"));
  const auto set = [&](size_t i, int64_t tokens, double seconds, double watts) {
    RecordNumbers& n = rows[i].numbers;
    n.completion_tokens = tokens, n.latency_seconds = seconds, n.power_watts = watts;
  };
  set(0, 1000, 10, 100);
  set(1, 1, 1, 300);
  set(2, 100, 2, 500);
  rows[2].numbers.energy_joules = 400;  // a measured energy wins over watts times seconds
  set(3, 5000, 1, kNotMeasured);
  Insert(rows);
  const InferenceSummary all = All();
  EXPECT_DOUBLE_EQ(all.output_tokens_per_second_per_watt, 1101.0 / (1000 + 300 + 400));
  EXPECT_DOUBLE_EQ(all.joules_per_output_token, 4) << "watts alone are no measured energy";
  EXPECT_DOUBLE_EQ(all.call_means.tokens_per_second_per_watt, (1.0 + 1.0 / 300 + 0.1) / 3);
}

TEST_F(SummarizeTest, AllTokensOfABatchShareItsEnergy) {
  std::vector<RecordRow> rows(4, Call(1, "m"));
  for (RecordRow& row : rows) row.text(TextColumn::kBatch) = "b";
  rows[0].numbers.prompt_tokens = 5, rows[0].numbers.completion_tokens = 5, rows[0].numbers.energy_joules = 3;
  rows[1].numbers.prompt_tokens = 10, rows[1].numbers.energy_joules = 2;
  rows[2].numbers.energy_joules = 1;  // failed: no tokens, but it drew
  rows[3].numbers.completion_tokens = 1000;
  Insert(rows);
  const auto batches = Summarize(file_.database(), {.by = GroupBy::kBatch});
  ASSERT_TRUE(batches);
  EXPECT_DOUBLE_EQ(batches->front().joules_per_token, 6.0 / 20);
  rows.assign(1, Call(2, "m"));
  rows[0].text(TextColumn::kBatch) = "b";
  rows[0].numbers.energy_joules = -5'000'006, rows[0].numbers.completion_tokens = 1;  // as openjarvis records
  Insert(rows);
  EXPECT_DOUBLE_EQ(All().joules_per_token, 6.0 / 20);
  EXPECT_DOUBLE_EQ(All().energy_joules.sum, 6);
}

TEST_F(SummarizeTest, BothEndsOfTheTimeAreIncluded) {
  Insert({Call(1, "m"), Call(2, "m"), Call(3, "m")});
  EXPECT_EQ(All({.since = TimeOf(2), .until = TimeOf(2)}).calls, 1u);
  EXPECT_EQ(All({.since = TimeOf(2)}).calls, 2u);
  EXPECT_EQ(All({.until = TimeOf(1.5)}).calls, 1u);
  EXPECT_EQ(All({.since = TimeOf(4)}).calls, 0u);
}

TEST_F(SummarizeTest, ATimeOfTheFileIsFoundExactly) {
  double time = 1'763'856'000.123;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(SecondsOf(TimeOf(time)), time);
    time = std::nextafter(time, 2e9);
  }
  Insert({Call(time, "m")});
  EXPECT_EQ(All({.since = TimeOf(time), .until = TimeOf(time)}).calls, 1u);
}

TEST_F(SummarizeTest, WarmUpIsOmittedUnlessRequested) {
  std::vector<RecordRow> rows(5, Call(1, "m"));
  for (int i = 0; i < 3; ++i) rows[static_cast<size_t>(i)].numbers.is_warmup = 1;
  for (RecordRow& row : rows) row.text(TextColumn::kBatch) = "b";
  Insert(rows);
  EXPECT_EQ(All().calls, 2u);
  EXPECT_EQ(All({.warmup = true}).calls, 5u);
  EXPECT_THAT(Keys({.by = GroupBy::kBatch}), ElementsAre("b=2"));
}

TEST_F(SummarizeTest, GroupsAreInTheOrderOfCalls) {
  Insert({Call(1, "a", "vllm"), Call(2, "b", "vllm"), Call(61, "b", "sglang"), Call(7300, "b", "vllm")});
  EXPECT_THAT(Keys({.by = GroupBy::kModel}), ElementsAre("b=3", "a=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kEngine}), ElementsAre("vllm=3", "sglang=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kModel, .limit = 1}), ElementsAre("b=3"));
  EXPECT_THAT(Keys({.by = GroupBy::kModel, .engine = "sglang"}), ElementsAre("b=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kMinute}), ElementsAre("0=2", "60=1", "7260=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kHour}), ElementsAre("0=3", "7200=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kDay, .model = "a"}), ElementsAre("0=1"));
  EXPECT_THAT(Keys({.by = GroupBy::kAgent}), ElementsAre("=4"));
  EXPECT_THAT(Keys({.by = GroupBy::kBatch}), ElementsAre());
}

TEST_F(SummarizeTest, FailuresAreCounted) {
  std::vector<RecordRow> rows(4, Call(1, "m"));
  rows[0].numbers.outcome = static_cast<int64_t>(Outcome::kError);
  rows[1].numbers.outcome = static_cast<int64_t>(Outcome::kCancelled);
  Insert(rows);
  EXPECT_EQ(All().errors, 1u);
  EXPECT_EQ(All().cancelled, 1u);
}

TEST_F(SummarizeTest, QuantilesAndMomentsOfAKnownSeries) {
  std::vector<RecordRow> rows;
  for (int i = 1; i <= 100; ++i) rows.push_back(Call(i, "m"));
  for (size_t i = 0; i < 100; ++i) rows[i].numbers.latency_seconds = static_cast<double>(i + 1);
  Insert(rows);
  const Distribution latency = All().latency_seconds;
  EXPECT_EQ(latency.n, 100u);
  EXPECT_EQ(latency.min, 1);
  EXPECT_EQ(latency.max, 100);
  EXPECT_DOUBLE_EQ(latency.mean, 50.5);
  EXPECT_NEAR(latency.std, 29.011, 0.001);
  EXPECT_NEAR(latency.p90, 90.1, 0.5);
  EXPECT_NEAR(latency.p99, 99.01, 0.6);
}

// The table as openjarvis first made it, and what its program wrote there.
class OldFile : public ::testing::Test {
 protected:
  sqlite::Database Open(const std::string& sql) {
    const std::string path = folder_.path() + "/old.db";
    {
      auto made = sqlite::Database::Open({.path = path});
      EXPECT_TRUE(made->Run(sql).ok());
    }
    auto read = OpenToRead(path);
    EXPECT_TRUE(read) << read.error().detail;
    return *std::move(read);
  }
  testing::TempFolder folder_;
};

TEST_F(OldFile, IsReadWithoutNewColumns) {
  const auto database = Open(
      "CREATE TABLE telemetry(id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, model_id TEXT NOT NULL, "
      "engine "
      "TEXT DEFAULT '', prompt_tokens INTEGER DEFAULT 0, completion_tokens INTEGER DEFAULT 0, total_tokens "
      "INTEGER DEFAULT 0, latency_seconds REAL DEFAULT 0, energy_joules REAL DEFAULT 0, mean_itl_ms REAL "
      "DEFAULT 0);"
      "INSERT INTO telemetry VALUES(1, 10, 'm1', 'a', 10, 5, 15, 1, 0, 20), (2, 20, 'm1', 'a', 20, 10, 30, "
      "NULL, "
      "4, 0), (3, 30, 'm2', NULL, 1, 1, 0, 2, 0, 0)");
  auto all = Summarize(database, {});
  ASSERT_TRUE(all) << all.error().detail;
  const InferenceSummary& sum = all->front();
  EXPECT_EQ(sum.calls, 3u);
  EXPECT_EQ(sum.total_tokens, 47u);  // 15 + 30, and 2 of a call without a total
  EXPECT_EQ(sum.latency_seconds.n, 2u);
  EXPECT_DOUBLE_EQ(sum.latency_seconds.mean, 1.5);
  EXPECT_DOUBLE_EQ(sum.joules_per_output_token, 0.4);
  EXPECT_EQ(sum.itl_seconds.n, 1u);
  EXPECT_EQ(sum.ttft_seconds.n, 0u);
  auto engines = Summarize(database, {.by = GroupBy::kEngine});
  ASSERT_EQ(engines->size(), 2u);
  EXPECT_EQ((*engines)[1].key, "");
  EXPECT_TRUE(Summarize(database, {.by = GroupBy::kBatch})->empty());
  EXPECT_EQ(Summarize(database, {.agent = "x"})->front().calls, 0u);
}

TEST_F(OldFile, RecordsComeOldestFirst) {
  const auto database = Open(
      "CREATE TABLE telemetry(id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, model_id TEXT NOT NULL);"
      "INSERT INTO telemetry VALUES(1, 30, 'c'), (2, 10, 'a'), (3, 20, 'b')");
  const auto models = [&](const Query& query) {
    std::string out;
    EXPECT_TRUE(EachRecord(database, query, [&](const InferenceRecord& record) {
                  out += record.model;
                  return true;
                }).ok());
    return out;
  };
  EXPECT_EQ(models({}), "abc");
  EXPECT_EQ(models({.limit = 2, .newest_first = true}), "cb");
  EXPECT_EQ(models({.since = TimeOf(20)}), "bc");
}

}  // namespace
}  // namespace gpulens::telemetry
