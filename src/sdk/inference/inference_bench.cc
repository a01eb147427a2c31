// Cost of recording a call for its caller, and throughput into the file compared with raw SQLite.
#include <benchmark/benchmark.h>
#include <gpulens/inference.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/schema.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;

struct Folder {
  Folder() { CHECK(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/gpulens-bench-XXXXXX";
};

InferenceRecord Typical(int64_t i) {
  InferenceRecord record{.model = "llama-3.1-8b-instruct", .engine = "vllm", .agent = "chat"};
  record.time = std::chrono::system_clock::time_point(1'700'000'000s + std::chrono::milliseconds(i));
  record.prompt_tokens = 512 + i % 100, record.completion_tokens = 128 + i % 30;
  record.latency_seconds = 0.5 + static_cast<double>(i % 97) / 1000, record.ttft_seconds = 0.08;
  record.energy_joules = 40 + static_cast<double>(i % 13), record.power_watts = 310;
  record.itl_seconds = {.n = 127,
                        .sum = 0.4,
                        .mean = 0.0031,
                        .std = 0.001,
                        .min = 0.002,
                        .p50 = 0.003,
                        .p90 = 0.004,
                        .p95 = 0.005,
                        .p99 = 0.007,
                        .max = 0.01};
  return record;
}

double ThreadNanoseconds() {
  timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) * 1e9 + static_cast<double>(at.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Results of rounds: the best one is a property of the code, the median one of the machine.
void Report(benchmark::State& state, const std::vector<double>& nanoseconds) {
  state.counters["best_ns"] = *std::min_element(nanoseconds.begin(), nanoseconds.end());
  state.counters["median_ns"] = Median(nanoseconds);
}

InferenceStore StoreOf(const Folder& folder) {
  auto store =
      InferenceStore::Open(folder.path + "/telemetry.db", {.flush_interval = 1h, .flush_records = 1 << 14});
  CHECK(store.ok());
  return std::move(*store);
}

// CPU time of a caller. The argument: records in a burst, before the writer has its turn: as many as wake it,
// and half of the queue. It writes meanwhile what was given, so that a burst finds the memory as in a
// program.
void BM_RecordCall(benchmark::State& state) {
  const Folder folder;
  InferenceStore store = StoreOf(folder);
  const InferenceRecord record = Typical(7);
  std::vector<double> rounds;
  for (auto _ : state) {
    const double begun = ThreadNanoseconds();
    for (int64_t i = 0; i < state.range(0); ++i) store.Record(record);
    rounds.push_back((ThreadNanoseconds() - begun) / static_cast<double>(state.range(0)));
    state.PauseTiming();
    CHECK(store.Flush(60s).ok());
    state.ResumeTiming();
  }
  CHECK(store.health().dropped == 0);
  Report(state, rounds);
}
BENCHMARK(BM_RecordCall)->Arg(1024)->Iterations(100);
BENCHMARK(BM_RecordCall)->Arg(8192)->Iterations(16);

// CPU time of a call while eight threads record at once.
void BM_RecordCallContended(benchmark::State& state) {
  constexpr int64_t kThreads = 8, kEach = 2000;
  const Folder folder;
  InferenceStore store = StoreOf(folder);
  std::vector<double> rounds;
  for (auto _ : state) {
    std::atomic<int64_t> here = 0;
    std::array<double, kThreads> took{};
    std::vector<std::thread> threads;
    for (double& mine : took) {
      threads.emplace_back([&] {
        const InferenceRecord record = Typical(7);
        for (++here; here < kThreads;) std::this_thread::yield();
        const double begun = ThreadNanoseconds();
        for (int64_t i = 0; i < kEach; ++i) store.Record(record);
        mine = ThreadNanoseconds() - begun;
      });
    }
    for (std::thread& thread : threads) thread.join();
    rounds.push_back(std::accumulate(took.begin(), took.end(), 0.0) / (kThreads * kEach));
    state.PauseTiming();
    CHECK(store.Flush(60s).ok());
    state.ResumeTiming();
  }
  CHECK(store.health().dropped == 0);
  Report(state, rounds);
}
BENCHMARK(BM_RecordCallContended)->Iterations(16);

constexpr size_t kAtOnce = 1000;

// One writer of rows after the other, each into a file of its own.
class Ours {
 public:
  Ours() {
    auto writer = telemetry::FileWriter::Open(
        {.path = folder_.path + "/telemetry.db", .retention = {}, .rollup = nullptr});
    CHECK(writer.ok());
    writer_ = std::move(*writer);
  }
  void Write(std::span<const telemetry::RecordRow> rows) { CHECK(writer_->Write(rows, 0).ok()); }

 private:
  const Folder folder_;
  std::unique_ptr<telemetry::FileWriter> writer_;
};

// The same values into the same table with the same indexes, by a statement prepared once.
class Raw {
 public:
  Raw() {
    auto database = telemetry::OpenToWrite(folder_.path + "/telemetry.db", nullptr);
    CHECK(database.ok());
    database_.emplace(std::move(*database));
    std::string sql = "INSERT INTO telemetry VALUES(NULL";
    for (size_t i = 0; i < telemetry::RecordColumns().size() + 2; ++i) sql += ",?";
    auto insert = database_->Prepare(sql + ")");
    CHECK(insert.ok());
    insert_.emplace(std::move(*insert));
  }
  void Write(std::span<const telemetry::RecordRow> rows) {
    CHECK(database_->Run("BEGIN IMMEDIATE").ok());
    for (const telemetry::RecordRow& row : rows) Insert(row);
    CHECK(database_->Run("COMMIT").ok());
  }

 private:
  void Insert(const telemetry::RecordRow& row) {
    sqlite3_stmt* raw = insert_->handle();
    int at = 0;
    for (const telemetry::RecordColumn& column : telemetry::RecordColumns()) {
      ++at;
      if (const auto* real = std::get_if<double telemetry::RecordNumbers::*>(&column.at)) {
        const double value = row.numbers.*(*real);
        sqlite3_bind_double(raw, at, value == value ? value : 0);
      } else if (const auto* whole = std::get_if<int64_t telemetry::RecordNumbers::*>(&column.at)) {
        sqlite3_bind_int64(raw, at, row.numbers.*(*whole) < 0 ? 0 : row.numbers.*(*whole));
      } else {
        const std::string_view text = row.text(*std::get_if<telemetry::TextColumn>(&column.at));
        sqlite3_bind_text(raw, at, text.data() ? text.data() : "", static_cast<int>(text.size()),
                          SQLITE_STATIC);
      }
    }
    sqlite3_bind_text(raw, at + 1, "ok", 2, SQLITE_STATIC);
    sqlite3_bind_int64(raw, at + 2, -1);
    CHECK(sqlite3_step(raw) == SQLITE_DONE);
    sqlite3_reset(raw);
  }

  const Folder folder_;
  std::optional<sqlite::Database> database_;
  std::optional<sqlite::Statement> insert_;  // ends before its database
};

// 1,000 rows a transaction, in turn, so that the machine meets both: the median of how many times raw
// SQLite's rate ours is, by CPU time, and both rates.
void BM_InsertCalls(benchmark::State& state) {
  Ours ours;
  Raw raw;
  int64_t next = 0;
  std::vector<telemetry::RecordRow> rows;
  const auto measure = [&](auto& writer) {
    const double begun = ThreadNanoseconds();
    writer.Write(rows);
    return (ThreadNanoseconds() - begun) / static_cast<double>(rows.size());
  };
  std::vector<double> ratios, of_ours, of_raw;
  for (auto _ : state) {
    rows.clear();
    while (rows.size() < kAtOnce) rows.push_back(telemetry::FromRecord(Typical(next++)));
    const bool turned = next / static_cast<int64_t>(kAtOnce) % 2 == 1;
    if (turned) of_raw.push_back(measure(raw));
    of_ours.push_back(measure(ours));
    if (!turned) of_raw.push_back(measure(raw));
    ratios.push_back(of_raw.back() / of_ours.back());
  }
  state.counters["ratio"] = Median(ratios);
  state.counters["ours_ns"] = Median(of_ours);
  state.counters["raw_ns"] = Median(of_raw);
}
BENCHMARK(BM_InsertCalls)->Unit(benchmark::kMillisecond)->Iterations(100);

}  // namespace
}  // namespace gpulens
