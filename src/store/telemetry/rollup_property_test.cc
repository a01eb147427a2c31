// Random writes, deletions and queries: a summary with roll-ups equals one of the rows.
#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/testing/temp_folder.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary_testing.h"

namespace gpulens::telemetry {
namespace {

using std::chrono::system_clock;

constexpr double kBegin = 1'700'000'000;
constexpr const char* kNames[] = {"", "a", "b"};

// Three days; often whole minutes, where the edges are.
rc::Gen<double> Times() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 3 * 86'400 * 4), rc::gen::inRange(0, 3)),
                      [](const std::pair<int, int>& at) {
                        const double time = kBegin + at.first / 4.0;
                        return at.second == 0 ? std::floor(time / 60) * 60 : time;
                      });
}

RecordRow AnyCall() {
  RecordRow row;
  RecordNumbers& n = row.numbers;
  n.timestamp = *Times();
  row.text(TextColumn::kModel) = kNames[*rc::gen::inRange(0, 3)];
  row.text(TextColumn::kEngine) = kNames[*rc::gen::inRange(0, 2)];
  n.is_warmup = *rc::gen::inRange(0, 4) == 0;
  n.outcome = *rc::gen::inRange(0, 3);
  const auto maybe = [](double& value) {
    const int ticks = *rc::gen::inRange(-5'000, 100'000);
    if (ticks >= 0) value = ticks / 1e3;
  };
  for (double* value : {&n.latency_seconds, &n.ttft, &n.energy_joules, &n.mean_itl_ms, &n.gpu_utilization_pct,
                        &n.prefill_energy_joules, &n.throughput_tok_per_sec, &n.power_watts})
    maybe(*value);
  if (*rc::gen::inRange(0, 3) > 0) n.completion_tokens = *rc::gen::inRange(0, 1000);
  if (*rc::gen::inRange(0, 3) > 0) n.prompt_tokens = *rc::gen::inRange(0, 1000);
  return row;
}

void ExpectNear(double a, double b) {
  RC_ASSERT((std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-9 * (1 + std::abs(a)));
}

void ExpectSame(const Distribution& a, const Distribution& b) {
  RC_ASSERT(a.n == b.n);
  ExpectNear(a.sum, b.sum);
  ExpectNear(a.mean, b.mean);
  ExpectNear(a.std, b.std);
  // Exactly: counts of buckets do not round.
  for (auto member :
       {&Distribution::min, &Distribution::p50, &Distribution::p95, &Distribution::p99, &Distribution::max})
    RC_ASSERT(((a.*member == b.*member) || (std::isnan(a.*member) && std::isnan(b.*member))));
}

void ExpectSame(const std::vector<InferenceSummary>& a, const std::vector<InferenceSummary>& b) {
  RC_ASSERT(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    RC_ASSERT(a[i].key == b[i].key);
    RC_ASSERT(a[i].calls == b[i].calls);
    RC_ASSERT(a[i].errors == b[i].errors);
    RC_ASSERT(a[i].cancelled == b[i].cancelled);
    RC_ASSERT(a[i].completion_tokens == b[i].completion_tokens);
    RC_ASSERT(a[i].total_tokens == b[i].total_tokens);
    ExpectSame(a[i].latency_seconds, b[i].latency_seconds);
    ExpectSame(a[i].ttft_seconds, b[i].ttft_seconds);
    ExpectSame(a[i].energy_joules, b[i].energy_joules);
    ExpectSame(a[i].itl_seconds, b[i].itl_seconds);
    ExpectSame(a[i].gpu_utilization_ratio, b[i].gpu_utilization_ratio);
    ExpectNear(a[i].joules_per_output_token, b[i].joules_per_output_token);
    ExpectNear(a[i].output_tokens_per_second, b[i].output_tokens_per_second);
    ExpectNear(a[i].output_tokens_per_second_per_watt, b[i].output_tokens_per_second_per_watt);
    ExpectNear(a[i].joules_per_token, b[i].joules_per_token);
    ExpectNear(a[i].prefill_energy_joules, b[i].prefill_energy_joules);
    ExpectNear(a[i].call_means.tokens_per_second, b[i].call_means.tokens_per_second);
  }
}

Query AnyQuery() {
  const auto at = [](double seconds) {
    return system_clock::time_point(
        std::chrono::duration_cast<system_clock::duration>(std::chrono::duration<double>(seconds)));
  };
  Query query;
  if (*rc::gen::inRange(0, 3) > 0) query.since = at(*Times());
  if (*rc::gen::inRange(0, 3) > 0) query.until = at(*Times());
  query.by = static_cast<GroupBy>(*rc::gen::inRange(0, 8));
  query.warmup = *rc::gen::inRange(0, 2) == 1;
  if (*rc::gen::inRange(0, 4) == 0) query.model = "a";
  if (*rc::gen::inRange(0, 4) == 0) query.engine = "a";
  if (*rc::gen::inRange(0, 8) == 0) query.agent = "a";
  return query;
}

// Two files with equal rows, one with roll-ups.
struct Pair {
  testing::TempFolder folder;
  RollupWriter rollups;
  WrittenFile with{folder.path() + "/with.db", &rollups};
  WrittenFile without{folder.path() + "/without.db", nullptr};

  void Insert(const std::vector<RecordRow>& rows) {
    with.Insert(rows);
    without.Insert(rows);
  }
  void Run(const std::string& sql) const {
    CHECK(with.database().Run(sql).ok());
    CHECK(without.database().Run(sql).ok());
  }
  void CatchUp() {
    auto transaction = sqlite::Transaction::Begin(with.database());
    CHECK(transaction);
    CHECK(rollups.CatchUp(with.database(), 10'000));
    CHECK(transaction->Commit().ok());
  }
  void Forget(double time) {
    auto transaction = sqlite::Transaction::Begin(with.database());
    CHECK(transaction);
    CHECK(rollups.Forget(with.database(), time).ok());
    const std::string sql = std::isfinite(time) ? " WHERE timestamp<" + std::to_string(time) : "";
    CHECK(with.database().Run("DELETE FROM telemetry" + sql).ok());
    CHECK(transaction->Commit().ok());
    CHECK(without.database().Run("DELETE FROM telemetry" + sql).ok());
  }
  int64_t Number(const char* sql) const { return *with.database().Number(sql); }
};

RC_GTEST_PROP(RollupProperty, AnswersAreThoseOfTheRows, ()) {
  Pair files;
  const int steps = *rc::gen::inRange(1, 7);
  for (int step = 0; step < steps; ++step) {
    std::vector<RecordRow> rows;
    for (int i = *rc::gen::inRange(0, 30); i > 0; --i) rows.push_back(AnyCall());
    files.Insert(rows);
    switch (*rc::gen::inRange(0, 8)) {
      case 0: files.Forget(*Times()); break;
      case 1: files.Forget(std::numeric_limits<double>::infinity()); break;
      case 2: files.Run("DELETE FROM telemetry WHERE id % 3 = 0"); break;
      case 3: files.Run("UPDATE telemetry SET latency_seconds = latency_seconds * 2 WHERE id % 5 = 0"); break;
      default: files.CatchUp();
    }
  }
  for (int i = 0; i < 6; ++i) {
    const Query query = AnyQuery();
    auto rolled = Summarize(files.with.database(), query),
         scanned = Summarize(files.without.database(), query);
    RC_ASSERT(bool(rolled));
    RC_ASSERT(bool(scanned));
    ExpectSame(*rolled, *scanned);
  }
}

std::vector<RecordRow> Calls(int n, double from) {
  std::vector<RecordRow> rows(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    RecordRow& row = rows[static_cast<size_t>(i)];
    row.numbers.timestamp = from + i;
    row.numbers.latency_seconds = 1;
    row.text(TextColumn::kModel) = "m";
  }
  return rows;
}

TEST(Rollup, TheWriterRollsUpWhenEnoughWait) {
  Pair files;
  for (int batch = 0; batch < 5; ++batch) files.Insert(Calls(1024, kBegin + batch * 1024));
  EXPECT_EQ(files.Number("SELECT covered FROM telemetry_rollup_state"), 4096);
  EXPECT_GT(files.Number("SELECT count(*) FROM telemetry_rollup WHERE span=60"), 60);
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5120u);
}

TEST(Rollup, RowsOfOtherProgramsAreRolledUp) {
  Pair files;
  files.Insert(Calls(10, kBegin));
  files.Run("INSERT INTO telemetry(timestamp, model_id, latency_seconds) VALUES(1700000000, 'm', 9)");
  for (int batch = 0; batch < 5; ++batch) files.Insert(Calls(1024, kBegin + batch * 1024));
  EXPECT_GT(files.Number("SELECT covered FROM telemetry_rollup_state"), 4096);
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5131u);
  EXPECT_EQ(Summarize(files.with.database(), {})->front().latency_seconds.max, 9);
}

TEST(Rollup, ARowWithoutATimeIsStillACall) {
  Pair files;
  files.Insert(Calls(10, kBegin));
  files.Run("INSERT INTO telemetry(timestamp, model_id) VALUES(-5, 'm'), ('yesterday', 'm')");
  files.CatchUp();
  EXPECT_EQ(files.Number("SELECT stale FROM telemetry_rollup_state"), 2);
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 12u);
  files.Insert(Calls(5000, kBegin));
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5012u);
}

TEST(Rollup, ABrokenOneCostsTimeNotTheAnswer) {
  Pair files;
  files.Insert(Calls(10, kBegin));
  files.CatchUp();
  ASSERT_TRUE(files.with.database().Run("UPDATE telemetry_rollup SET sums = x'0102'").ok());
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 10u);
}

TEST(Rollup, ABrokenOneDoesNotStopWriters) {
  Pair files;
  files.Insert(Calls(10, kBegin));
  files.CatchUp();
  ASSERT_TRUE(files.with.database().Run("UPDATE telemetry_rollup SET sums = x'0102'").ok());
  files.Insert(Calls(5000, kBegin));
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5010u);
  files.Insert(Calls(1, kBegin));
  EXPECT_EQ(files.Number("SELECT covered FROM telemetry_rollup_state WHERE stale = 0"), 5011);
  EXPECT_EQ(files.Number("SELECT count(*) FROM telemetry_rollup WHERE sums = x'0102'"), 0);
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5011u);
}

// A file of version 1 whose roll-ups lack two of the ratios.
TEST(Rollup, RollUpsOfVersionOneAreRebuilt) {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/t.db";
  RollupWriter rollups;
  {
    WrittenFile file(path, &rollups);
    std::vector<RecordRow> rows = Calls(100, kBegin);
    for (RecordRow& row : rows) row.numbers.completion_tokens = 50, row.numbers.power_watts = 100;
    file.Insert(rows);
    auto transaction = sqlite::Transaction::Begin(file.database());
    ASSERT_TRUE(rollups.CatchUp(file.database(), 1000));
    ASSERT_TRUE(transaction->Commit().ok());
    // The old bytes end two ratios, 32 bytes, earlier.
    ASSERT_TRUE(
        file.database()
            .Run("UPDATE telemetry_rollup SET sums = CAST(x'01' || substr(sums, 2, length(sums) - 33) AS "
                 "BLOB); PRAGMA user_version=1")
            .ok());
  }
  const auto right = [&] {
    auto database = OpenToRead(path);
    const auto all = Summarize(*database, {});
    return all && all->front().calls >= 100 && all->front().output_tokens_per_second_per_watt == 0.5;
  };
  EXPECT_TRUE(right()) << "by rows, as the roll-ups are of another version";
  // Opened for writing, with roll-ups or without.
  ASSERT_TRUE(OpenToWrite(path, nullptr));
  EXPECT_TRUE(right());
  RollupWriter next;
  WrittenFile file(path, &next);
  EXPECT_EQ(*file.database().Number("SELECT stale FROM telemetry_rollup_state"), 1);
  file.Insert(Calls(1, kBegin));
  EXPECT_EQ(*file.database().Number("SELECT stale FROM telemetry_rollup_state"), 0);
  auto transaction = sqlite::Transaction::Begin(file.database());
  ASSERT_TRUE(next.CatchUp(file.database(), 1000));
  ASSERT_TRUE(transaction->Commit().ok());
  EXPECT_EQ(
      *file.database().Number("SELECT count(*) FROM telemetry_rollup WHERE substr(sums, 1, 1) != x'02'"), 0);
  EXPECT_EQ(*file.database().Number("SELECT covered FROM telemetry_rollup_state"), 101);
  EXPECT_TRUE(right());
}

TEST(Rollup, RowsDeletedBeforeTheirRollUpAreNotCounted) {
  Pair files;
  files.Insert(Calls(100, kBegin));
  files.Forget(std::numeric_limits<double>::infinity());
  files.Insert(Calls(5000, kBegin));
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5000u);
  Pair others;
  others.Insert(Calls(100, kBegin));
  others.Run("DELETE FROM telemetry WHERE id < 50");
  others.Insert(Calls(5000, kBegin));
  EXPECT_EQ(Summarize(others.with.database(), {})->front().calls, 5051u);
  EXPECT_EQ(others.Number("SELECT covered FROM telemetry_rollup_state"), 5100);
}

TEST(Rollup, ABatchThatWasRolledBackIsNotCounted) {
  Pair files;
  for (int64_t id = 1; id <= 5000; ++id) files.rollups.Add(id, Calls(1, kBegin).front());
  files.rollups.Done(false);
  for (int batch = 0; batch < 5; ++batch) files.Insert(Calls(1024, kBegin));
  EXPECT_EQ(Summarize(files.with.database(), {})->front().calls, 5120u);
}

}  // namespace
}  // namespace gpulens::telemetry
