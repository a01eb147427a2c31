// A summary of a million records over three days, four models and two engines: with roll-ups, with a scan,
// and as plain SQL queries the same file.
#include <cmath>

#include <benchmark/benchmark.h>

#include "base/testing/temp_folder.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary_testing.h"

namespace gpulens::telemetry {
namespace {

constexpr int kRecords = 1'000'000, kBatch = 1'000;
constexpr double kBegin = 1'700'000'000, kSeconds = 3 * 86'400;

// The same in each run, and never twice the same value.
double Chance(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(state >> 11) * 0x1p-53;
}

RecordRow Call(int i, uint64_t& state) {
  constexpr const char* kModels[] = {"llama-3.1-8b", "llama-3.1-70b", "qwen3:8b", "mixtral-8x7b"};
  constexpr const char* kEngines[] = {"vllm", "sglang"};
  RecordRow row;
  RecordNumbers& n = row.numbers;
  n.timestamp = kBegin + i * (kSeconds / kRecords);
  row.text(TextColumn::kModel) = kModels[i % 4];
  row.text(TextColumn::kEngine) = kEngines[i / 4 % 2];
  n.prompt_tokens = 500 + i % 1000;
  n.completion_tokens = 100 + i % 300;
  n.total_tokens = n.prompt_tokens + n.completion_tokens;
  n.latency_seconds = 0.3 * std::exp(1.5 * Chance(state));
  n.ttft = 0.03 * std::exp(2 * Chance(state));
  n.energy_joules = 100 * n.latency_seconds * (1 + 0.2 * Chance(state));
  n.mean_itl_ms = 10 + 20 * Chance(state);
  n.median_itl_ms = n.mean_itl_ms * 0.95;
  n.p95_itl_ms = n.mean_itl_ms * 1.6;
  n.cost_usd = 1e-4 * Chance(state);
  n.gpu_utilization_pct = 100 * Chance(state);
  n.throughput_tok_per_sec = static_cast<double>(n.completion_tokens) / n.latency_seconds;
  return row;
}

class MillionRecords {
 public:
  static const sqlite::Database& Of(bool rolled_up) {
    static const MillionRecords with(true), without(false);
    return (rolled_up ? with : without).file_->database();
  }

 private:
  explicit MillionRecords(bool rolled_up) {
    file_.emplace(folder_.path() + "/telemetry.db", rolled_up ? &rollups_ : nullptr);
    uint64_t state = 1;
    std::vector<RecordRow> rows(kBatch);
    for (int i = 0; i < kRecords; ++i) {
      rows[static_cast<size_t>(i % kBatch)] = Call(i, state);
      if (i % kBatch == kBatch - 1) file_->Insert(rows);
    }
  }
  testing::TempFolder folder_;
  RollupWriter rollups_;
  std::optional<WrittenFile> file_;
};

Query QueryOf(GroupBy by, double since) {
  Query query;
  query.by = by;
  if (since > 0)
    query.since =
        std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::duration<double>(since)));
  return query;
}

void Summary(benchmark::State& state, bool rolled_up, GroupBy by, double since) {
  const sqlite::Database& database = MillionRecords::Of(rolled_up);
  uint64_t calls = 0;
  for (auto _ : state) {
    calls = 0;
    auto groups = Summarize(database, QueryOf(by, since));
    for (const InferenceSummary& group : *groups) calls += group.calls;
  }
  state.counters["calls"] = static_cast<double>(calls);
  state.SetLabel("records/1e6");
}

// Not on a minute, an hour or a day: all edges are read row by row.
constexpr double kSince = kBegin + 1.37 * 86'400 + 17.3;

void RolledUpAll(benchmark::State& state) { Summary(state, true, GroupBy::kAll, 0); }
void RolledUpByModel(benchmark::State& state) { Summary(state, true, GroupBy::kModel, 0); }
void RolledUpAllSince(benchmark::State& state) { Summary(state, true, GroupBy::kAll, kSince); }
void RolledUpByModelSince(benchmark::State& state) { Summary(state, true, GroupBy::kModel, kSince); }
void RolledUpByHour(benchmark::State& state) { Summary(state, true, GroupBy::kHour, 0); }
void RolledUpByMinute(benchmark::State& state) { Summary(state, true, GroupBy::kMinute, 0); }
void ScanAll(benchmark::State& state) { Summary(state, false, GroupBy::kAll, 0); }
void ScanByModelSince(benchmark::State& state) { Summary(state, false, GroupBy::kModel, kSince); }
BENCHMARK(RolledUpAll)->Unit(benchmark::kMillisecond);
BENCHMARK(RolledUpByModel)->Unit(benchmark::kMillisecond);
BENCHMARK(RolledUpAllSince)->Unit(benchmark::kMillisecond);
BENCHMARK(RolledUpByModelSince)->Unit(benchmark::kMillisecond);
BENCHMARK(RolledUpByHour)->Unit(benchmark::kMillisecond);
BENCHMARK(RolledUpByMinute)->Unit(benchmark::kMillisecond);
BENCHMARK(ScanAll)->Unit(benchmark::kMillisecond);
BENCHMARK(ScanByModelSince)->Unit(benchmark::kMillisecond);

// The same in SQL: sums and means, no percentiles.
void PlainSqlByModel(benchmark::State& state) {
  const sqlite::Database& database = MillionRecords::Of(false);
  for (auto _ : state) {
    auto rows = database.Prepare(
        "SELECT model_id, count(*), sum(total_tokens), sum(prompt_tokens), sum(completion_tokens),"
        " sum(latency_seconds), avg(latency_seconds), sum(cost_usd), avg(nullif(ttft, 0)), "
        "sum(energy_joules),"
        " avg(nullif(gpu_utilization_pct, 0)), avg(nullif(throughput_tok_per_sec, 0)),"
        " sum(energy_joules) / sum(completion_tokens), avg(nullif(mean_itl_ms, 0)),"
        " avg(nullif(median_itl_ms, 0)), avg(nullif(p95_itl_ms, 0)) FROM telemetry GROUP BY model_id");
    benchmark::DoNotOptimize(rows->Execute().ok());
  }
}
BENCHMARK(PlainSqlByModel)->Unit(benchmark::kMillisecond);

// What the roll-ups add to an insert, of 1,000 rows at once.
void InsertBatch(benchmark::State& state, bool rolled_up) {
  testing::TempFolder folder;
  RollupWriter rollups;
  WrittenFile file(folder.path() + "/telemetry.db", rolled_up ? &rollups : nullptr);
  uint64_t chance = 1;
  std::vector<RecordRow> rows(kBatch);
  int at = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (RecordRow& row : rows) row = Call(at++, chance);
    state.ResumeTiming();
    file.Insert(rows);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
void InsertRolledUp(benchmark::State& state) { InsertBatch(state, true); }
void InsertAlone(benchmark::State& state) { InsertBatch(state, false); }
BENCHMARK(InsertRolledUp)->Unit(benchmark::kMillisecond)->Iterations(300);
BENCHMARK(InsertAlone)->Unit(benchmark::kMillisecond)->Iterations(300);

}  // namespace
}  // namespace gpulens::telemetry
