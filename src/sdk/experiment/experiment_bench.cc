// Cost of logging a point for its caller, and throughput into the file compared with raw SQLite.
#include <benchmark/benchmark.h>
#include <gpulens/experiment.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "store/experiments/run_writer.h"

namespace gpulens {
namespace {

using namespace experiments;
using namespace std::chrono_literals;

struct Folder {
  Folder() { CHECK(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/gpulens-bench-XXXXXX";
};

// In bursts that fit into the queue; writing is not timed.
void BM_LogMetric(benchmark::State& state) {
  Folder folder;
  ExperimentOptions options;
  options.db = folder.path + "/experiments.db";
  options.queue_points = size_t{1} << 16;
  auto run = Experiment::Start("bench", options);
  CHECK(run.ok());
  int64_t step = 0;
  for (auto _ : state) {
    run->LogMetric("loss", 0.5, step);
    if (++step % (1 << 15) == 0) {
      state.PauseTiming();
      CHECK(run->Flush(20s).ok());
      state.ResumeTiming();
    }
  }
  CHECK(run->health().dropped == 0);
}
BENCHMARK(BM_LogMetric);

// Four metrics each step, as a training loop has them.
constexpr int64_t kPoints = 100'000, kKeys = 4;

void BM_InsertOurs(benchmark::State& state) {
  Folder folder;
  auto writer = RunWriter::Open(folder.path + "/experiments.db");
  CHECK(writer.ok());
  const ProcessObserver here = HereAndNow();
  experiments::RunStart start;
  start.run.name = "bench", start.run.started_ns = here.now_ns;
  start.process = ThisProcess(here);
  CHECK((*writer)->Begin(start, here).ok());
  RunBatch batch;
  batch.keys = {"loss", "accuracy", "grad_norm", "lr"};
  int64_t step = 0;
  for (auto _ : state) {
    batch.points.clear();
    for (int64_t i = 0; i < kPoints / kKeys; ++i, ++step) {
      for (uint32_t key = 0; key < kKeys; ++key) batch.points.push_back({key, step, step, 0.5});
    }
    CHECK((*writer)->Write(batch, PointSource::kProgram).ok());
  }
  state.SetItemsProcessed(state.iterations() * kPoints);
}
BENCHMARK(BM_InsertOurs)->Unit(benchmark::kMillisecond);

// The same rows into the same table by hand, without a summary of each metric.
void BM_InsertRawSqlite(benchmark::State& state) {
  Folder folder;
  sqlite3* database = nullptr;
  CHECK(::sqlite3_open((folder.path + "/raw.db").c_str(), &database) == SQLITE_OK);
  auto run = [&](const char* sql) {
    CHECK(::sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  };
  run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
      "CREATE TABLE point(metric_id INTEGER NOT NULL, step INTEGER NOT NULL, unix_ns INTEGER NOT NULL, n "
      "INTEGER NOT"
      " NULL, value REAL, PRIMARY KEY(metric_id, step, unix_ns, n)) WITHOUT ROWID");
  sqlite3_stmt* insert = nullptr;
  CHECK(::sqlite3_prepare_v2(database, "INSERT INTO point VALUES(?,?,?,?,?)", -1, &insert, nullptr) ==
        SQLITE_OK);
  int64_t step = 0, n = 0;
  for (auto _ : state) {
    run("BEGIN IMMEDIATE");
    for (int64_t i = 0; i < kPoints / kKeys; ++i, ++step) {
      for (int key = 0; key < kKeys; ++key) {
        ::sqlite3_bind_int64(insert, 1, key);
        ::sqlite3_bind_int64(insert, 2, step);
        ::sqlite3_bind_int64(insert, 3, step);
        ::sqlite3_bind_int64(insert, 4, ++n);
        ::sqlite3_bind_double(insert, 5, 0.5);
        CHECK(::sqlite3_step(insert) == SQLITE_DONE);
        ::sqlite3_reset(insert);
      }
    }
    run("COMMIT");
  }
  ::sqlite3_finalize(insert);
  ::sqlite3_close(database);
  state.SetItemsProcessed(state.iterations() * kPoints);
}
BENCHMARK(BM_InsertRawSqlite)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens
