#include <gpulens/inference.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "base/result.h"
#include "base/sanitizers.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temp_folder.h"
#include "sdk/inference/call.h"
#include "sdk/inference/core.h"
#include "store/telemetry/schema.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using telemetry::RecordRow, telemetry::TextColumn;
using testing::TempFolder;

std::vector<InferenceRecord> RecordsOf(const InferenceStore& store,
                                       std::vector<std::string>* models = nullptr) {
  std::vector<InferenceRecord> records;
  const Status status = store.Each({.warmup = true}, [&](const InferenceRecord& record) {
    records.push_back(record);
    if (models) models->emplace_back(record.model);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.detail;
  return records;
}

int64_t Query(const std::string& path, const std::string& sql) {
  auto database = sqlite::Database::Open({.path = path, .read_only = true});
  if (!database) return ADD_FAILURE() << database.error().detail, -1;
  auto number = database->Number(sql);
  return number ? *number : (ADD_FAILURE() << number.error().detail, -1);
}

struct InferenceStoreTest : ::testing::Test {
  TempFolder folder;
  std::string path = folder.path() + "/telemetry.db";

  InferenceStore Open(const StoreOptions& options = {}) {
    auto store = InferenceStore::Open(path, options);
    if (!store) throw std::runtime_error(store.error().detail);
    return std::move(*store);
  }
};

TEST_F(InferenceStoreTest, DistinguishesMeasuredAndUnknown) {
  InferenceStore store = Open();
  InferenceRecord given{.model = "llama", .engine = "vllm"};
  given.time = std::chrono::system_clock::time_point(1'700'000'000s);
  given.prompt_tokens = 512, given.cached_prompt_tokens = 500, given.completion_tokens = 0;
  given.latency_seconds = 0.5, given.cost_usd = 0, given.gpu_utilization_ratio = 0.75;
  given.warmup = true, given.outcome = Outcome::kError, given.error_type = "timeout";
  store.Record(given);
  std::vector<std::string> models;
  const auto records = RecordsOf(store, &models);
  ASSERT_EQ(records.size(), 1u);
  const InferenceRecord& kept = records[0];
  EXPECT_EQ(models[0], "llama");
  EXPECT_EQ(kept.time, given.time);
  EXPECT_EQ(kept.completion_tokens, 0) << "a measured 0 is one";
  EXPECT_EQ(kept.cost_usd, 0);
  EXPECT_TRUE(std::isnan(kept.ttft_seconds));
  EXPECT_EQ(kept.prompt_tokens_evaluated, 12);
  EXPECT_EQ(kept.total_tokens, 512);
  EXPECT_DOUBLE_EQ(kept.gpu_utilization_ratio, 0.75);
  EXPECT_EQ(kept.outcome, Outcome::kError);
  EXPECT_TRUE(kept.warmup);
  EXPECT_EQ(Query(path, "SELECT ttft = 0.0 AND error_type = 'timeout' FROM telemetry"), 1)
      << "as openjarvis' NOT NULL columns want it";
}

// The queue holds only known values: tests each field alone and all together, with short and long texts.
TEST_F(InferenceStoreTest, QueuesRecordsUnchanged) {
  InferenceStore store = Open();
  const std::string far(300, 'x');
  for (unsigned which = 0; which < 16; ++which) {
    InferenceRecord given{.model = "m",
                          .engine = which & 8 ? std::string_view(far) : "an engine of 23 bytes"};
    given.time = std::chrono::system_clock::time_point(std::chrono::seconds(1000 + which));
    given.mining_session_id = "of a session", given.energy_method = "counter", given.energy_vendor = "amd";
    given.prompt_tokens = which, given.consumer_seconds = 0.5, given.streaming = true;
    if (which & 1) given.itl_seconds = {.n = 3, .sum = 0.75, .mean = 0.25, .p50 = 0.125, .max = 0.5};
    if (which & 2) given.dram_energy_joules = 4 + which;
    if (which & 4) given.gpu_temperature_celsius = 40 + which;
    store.Record(given);
  }
  unsigned next = 0;
  const Status status = store.Each({}, [&](const InferenceRecord& kept) {
    const unsigned which = next++;
    EXPECT_EQ(kept.engine, which & 8 ? std::string_view(far) : "an engine of 23 bytes");
    EXPECT_EQ(kept.model, "m");
    EXPECT_EQ(kept.mining_session_id, "of a session");
    EXPECT_EQ(kept.energy_method, "counter");
    EXPECT_EQ(kept.energy_vendor, "amd");
    EXPECT_EQ(kept.prompt_tokens, which);
    EXPECT_EQ(kept.consumer_seconds, 0.5);
    EXPECT_TRUE(kept.streaming && !kept.warmup);
    EXPECT_EQ(kept.itl_seconds.n, which & 1 ? 3u : 0u);
    EXPECT_TRUE(which & 1 ? kept.itl_seconds.max == 0.5 : std::isnan(kept.itl_seconds.max));
    EXPECT_TRUE(which & 2 ? kept.dram_energy_joules == 4 + which : std::isnan(kept.dram_energy_joules));
    EXPECT_TRUE(which & 4 ? kept.gpu_temperature_celsius == 40 + which
                          : std::isnan(kept.gpu_temperature_celsius));
    EXPECT_TRUE(std::isnan(kept.energy_joules) && std::isnan(kept.power_watts));
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.detail;
  EXPECT_EQ(next, 16u);
}

// Every column, with a value of its own.
TEST_F(InferenceStoreTest, RoundTripsEachColumn) {
  InferenceStore store = Open();
  RecordRow row;
  std::vector<std::string> texts(telemetry::kTexts);
  double next = 0.1;
  for (const telemetry::RecordColumn& column : telemetry::RecordColumns()) {
    next += 1.7;
    if (const auto* real = std::get_if<double telemetry::RecordNumbers::*>(&column.at))
      row.numbers.*(*real) = next;
    else if (const auto* whole = std::get_if<int64_t telemetry::RecordNumbers::*>(&column.at))
      row.numbers.*(*whole) = static_cast<int64_t>(next);
    else texts[static_cast<size_t>(*std::get_if<TextColumn>(&column.at))] = "t" + std::to_string(next);
  }
  texts[static_cast<size_t>(TextColumn::kMetadata)] = R"({"a":1})";
  for (size_t i = 0; i < texts.size(); ++i) row.texts[i] = texts[i];
  store.core().Record(row);
  const Status status = store.core().Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare("SELECT * FROM telemetry"));
    ASSIGN_OR_RETURN(const bool there, select.Step());
    EXPECT_TRUE(there);
    const RecordRow read = telemetry::RowReader(select).Read();
    for (const telemetry::RecordColumn& column : telemetry::RecordColumns()) {
      if (const auto* real = std::get_if<double telemetry::RecordNumbers::*>(&column.at))
        EXPECT_EQ(read.numbers.*(*real), row.numbers.*(*real)) << column.name;
      else if (const auto* whole = std::get_if<int64_t telemetry::RecordNumbers::*>(&column.at))
        EXPECT_EQ(read.numbers.*(*whole), row.numbers.*(*whole)) << column.name;
      else
        EXPECT_EQ(read.text(*std::get_if<TextColumn>(&column.at)),
                  row.text(*std::get_if<TextColumn>(&column.at)));
    }
    return Ok();
  });
  EXPECT_TRUE(status.ok()) << status.detail;
}

TEST_F(InferenceStoreTest, RejectsOnlyAnInvalidRecord) {
  InferenceStore store = Open();
  for (int i = 0; i < 200; ++i) {
    if (i == 100) {
      InferenceRecord bad{.model = "bad"};
      bad.latency_seconds = std::numeric_limits<double>::infinity();
      store.Record(bad);
      store.Record({.model = "bad", .metadata_json = "{not json"});
      store.Record({.model = "\xff\xfe"});
    }
    store.Record({.model = "good"});
  }
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(store.health().stored, 200u);
  EXPECT_EQ(store.health().rejected, 3u);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), 200);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry_poison WHERE reason != '' AND json_valid(record)"),
            3);
}

// A row that violates a constraint added by the file's owner.
TEST_F(InferenceStoreTest, RejectsOnlyARowThatTheFileRefuses) {
  {
    auto database = telemetry::OpenToWrite(path, nullptr);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database
                    ->Run("CREATE TRIGGER no_bad BEFORE INSERT ON telemetry WHEN NEW.model_id='bad' BEGIN "
                          "SELECT RAISE(ABORT, 'bad is not wanted'); END")
                    .ok());
  }
  InferenceStore store = Open();
  for (int i = 0; i < 50; ++i) store.Record({.model = i == 25 ? "bad" : "good"});
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), 49);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry_poison WHERE reason LIKE '%bad is not wanted%'"), 1);
}

TEST_F(InferenceStoreTest, EightThreadsLoseNothingUncounted) {
  constexpr int kThreads = 8, kEach = 5000;
  InferenceStore store = Open({.queue_records = 1024, .flush_interval = 5ms});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&store, t] {
      const std::string model = "a model with a name of some length, of thread " + std::to_string(t);
      for (int i = 0; i < kEach; ++i) store.Record({.model = model, .prompt_tokens = i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Status flushed = store.Flush(60s);
  const StoreHealth health = store.health();
  ASSERT_EQ(flushed.code, health.dropped > 0 ? Code::kExhausted : Code::kOk) << flushed.detail;
  EXPECT_EQ(health.stored + health.dropped, uint64_t{kThreads} * kEach);
  EXPECT_EQ(health.queued, 0u);
  EXPECT_EQ(static_cast<uint64_t>(Query(path, "SELECT count(*) FROM telemetry")), health.stored);
  EXPECT_EQ(Query(path,
                  "SELECT count(*) FROM (SELECT 1 FROM telemetry GROUP BY model_id, prompt_tokens "
                  "HAVING count(*) > 1)"),
            0)
      << "a record was stored twice";
}

TEST_F(InferenceStoreTest, RecordsWaitWhileTheFileIsLocked) {
  InferenceStore store = Open({.queue_records = 4, .flush_interval = 10ms});
  auto other = sqlite::Database::Open({.path = path});
  ASSERT_TRUE(other.ok());
  {
    auto held = sqlite::Transaction::Begin(*other);
    ASSERT_TRUE(held.ok());
    for (int i = 0; i < 10; ++i) store.Record({.model = "m"});
    EXPECT_EQ(store.Flush(20ms).code, Code::kTimeout);
  }
  const Status flushed = store.Flush(30s);
  EXPECT_EQ(flushed.code, Code::kExhausted);
  EXPECT_NE(flushed.detail.find(": 6 records were dropped"), std::string::npos) << flushed.detail;
  EXPECT_TRUE(store.Flush(30s).ok()) << "none was dropped since";
  EXPECT_EQ(store.health().dropped, 6u);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), 4);
  ASSERT_TRUE(store.Close().ok());
  EXPECT_FALSE(store.Record({.model = "late"}));
  EXPECT_EQ(store.Close().code, Code::kExhausted) << "a record came after it was closed";
}

// Of rows that another program inserted or deleted, without a record of this one.
TEST_F(InferenceStoreTest, AnIdleStoreRenewsRollUps) {
  constexpr int64_t kRows = 50'000;
  static_cast<void>(Open());
  const auto change = [&](const std::string& sql) {
    auto other = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(other.ok() && other->Run(sql).ok());
  };
  change("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(kRows) +
         ") INSERT INTO telemetry(timestamp, model_id) SELECT 1.7e9 + i, 'm' FROM n");
  // Fewer rows than a chunk stay to be read one by one.
  const auto renewed = [&] {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    int64_t covered = 0;
    while (covered < kRows - 4096 && std::chrono::steady_clock::now() < deadline)
      covered = Query(path, "SELECT covered * (stale = 0) FROM telemetry_rollup_state");
    return covered >= kRows - 4096;
  };
  InferenceStore store = Open({.flush_interval = 10ms});
  EXPECT_TRUE(renewed());
  change("DELETE FROM telemetry WHERE id <= 1000");
  EXPECT_TRUE(renewed());
  const auto all = store.Summarize();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->front().calls, static_cast<uint64_t>(kRows) - 1000);
}

TEST_F(InferenceStoreTest, BlockStoresWhateverComes) {
  constexpr int kThreads = 4, kEach = 5000;
  InferenceStore store = Open({.queue_records = 64, .flush_interval = 1h, .when_full = WhenFull::kBlock});
  std::vector<std::thread> threads;
  std::atomic<int> taken = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) taken += store.Record({.model = "m", .prompt_tokens = i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kThreads * kEach);
  EXPECT_TRUE(store.Flush(60s).ok());
  EXPECT_EQ(store.health().dropped, 0u);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), kThreads * kEach);
}

// The last that find the queue full again after a write are followed by none that wakes the writer.
TEST_F(InferenceStoreTest, BlockStoresTheLastRecordsOfAll) {
  constexpr int kRounds = 300, kThreads = 6, kEach = 2;
  InferenceStore store = Open({.queue_records = 2, .flush_interval = 1h, .when_full = WhenFull::kBlock});
  std::atomic<int> taken = 0;
  for (int round = 1; round <= kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) taken += store.Record({.model = "m", .prompt_tokens = i});
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(taken, round * kThreads * kEach);
  }
}

// A destination whose writes fail, or last, for as long as a test wants.
class AwayDestination : public telemetry::RecordDestination {
 public:
  struct Server {
    std::atomic<bool> fails = false, hangs = false;
    std::atomic<uint64_t> written = 0;
  };
  explicit AwayDestination(std::shared_ptr<Server> server) : server_(std::move(server)) {}
  Result<telemetry::WriteCounts> Write(std::span<const RecordRow> rows, uint64_t) override {
    while (server_->hangs) std::this_thread::yield();
    if (server_->fails) return Status{Code::kUnavailable, "the server is away"};
    server_->written += rows.size();
    return telemetry::WriteCounts{.stored = rows.size()};
  }
  Status SetAside(std::string_view, std::string_view) override {
    return server_->fails ? Status{Code::kUnavailable, "the server is away"} : Ok();
  }
  Result<uint64_t> Clear() override { return uint64_t{0}; }
  Status Vacuum() override { return Ok(); }
  Status Close(uint64_t) override { return Ok(); }

 private:
  const std::shared_ptr<Server> server_;
};

struct BlockingRecorderTest : ::testing::Test {
  std::shared_ptr<AwayDestination::Server> server = std::make_shared<AwayDestination::Server>();

  std::unique_ptr<inference::CallRecorder> Start(Duration block_time) {
    auto recorder = inference::CallRecorder::Start({.name = "a server",
                                                    .queue_records = 8,
                                                    .block = true,
                                                    .block_time = block_time,
                                                    .flush_interval = 1ms},
                                                   std::make_unique<AwayDestination>(server));
    if (!recorder) throw std::runtime_error(recorder.error().detail);
    return *std::move(recorder);
  }
  static bool Fill(inference::CallRecorder& recorder, int count) {
    for (int i = 0; i < count; ++i)
      if (!recorder.Record(InferenceRecord{.model = "m"})) return false;
    return true;
  }
};

TEST_F(BlockingRecorderTest, GivesUpWhenWritesFail) {
  server->fails = true;
  const auto recorder = Start(300ms);
  ASSERT_TRUE(Fill(*recorder, 8));
  EXPECT_FALSE(recorder->Record(InferenceRecord{.model = "m"}, inference::IfFull::kReturn));
  EXPECT_EQ(recorder->health().dropped, 0u) << "the caller may still wait";
  EXPECT_FALSE(Fill(*recorder, 1));
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(Fill(*recorder, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s) << "each waited";
  const Status blocked = recorder->blocked();
  EXPECT_EQ(blocked.code, Code::kUnavailable);
  EXPECT_NE(blocked.detail.find("(the server is away); 1001 records were dropped, 8 are queued"),
            std::string::npos)
      << blocked.detail;
  server->fails = false;
  ASSERT_TRUE(recorder->Flush(30s).ok());
  EXPECT_TRUE(Fill(*recorder, 1000)) << "it waits again";
  ASSERT_TRUE(recorder->Close(30s).ok());
  EXPECT_EQ(server->written, 1008u);
}

TEST_F(BlockingRecorderTest, GivesUpWhenAWriteHangs) {
  server->hangs = true;
  const auto recorder = Start(300ms);
  EXPECT_FALSE(Fill(*recorder, 9));
  EXPECT_EQ(recorder->blocked().code, Code::kTimeout);
  server->hangs = false;
  ASSERT_TRUE(recorder->Flush(30s).ok());
  EXPECT_TRUE(Fill(*recorder, 100));
}

TEST_F(BlockingRecorderTest, OutlastsAServerThatComesBack) {
  server->fails = true;
  const auto recorder = Start(60s);
  std::thread producer([&] { EXPECT_TRUE(Fill(*recorder, 1000)); });
  while (recorder->health().queued < 8) std::this_thread::yield();
  server->fails = false;
  producer.join();
  ASSERT_TRUE(recorder->Close(30s).ok());
  EXPECT_EQ(server->written, 1000u);
}

TEST_F(BlockingRecorderTest, CloseEndsTheWait) {
  server->fails = true;
  const auto recorder = Start(60s);
  std::thread producer([&] { EXPECT_FALSE(Fill(*recorder, 100)); });
  while (recorder->health().queued < 8) std::this_thread::yield();
  EXPECT_FALSE(recorder->Close(30s).ok());
  producer.join();
  EXPECT_TRUE(recorder->blocked().ok()) << "it is closed";
  EXPECT_EQ(recorder->health().dropped, 9u) << "what was queued, and what waited";
}

TEST_F(BlockingRecorderTest, InvalidRecordsWaitToo) {
  const auto recorder = Start(60s);
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(recorder->SetAside("a record", "no row"));
  ASSERT_TRUE(recorder->Close(30s).ok());
  EXPECT_EQ(recorder->health().rejected, 5000u);
}

TEST_F(InferenceStoreTest, ReportsAFullDiskAndRetries) {
  InferenceStore store = Open({.flush_interval = 1h});
  ASSERT_TRUE(store.Flush().ok());
  const std::string text(60'000, 'x');
  const std::string metadata = "{\"text\":\"" + text + "\"}";
  {
    FileSizeLimit limit(256 << 10);
    for (int i = 0; i < 20; ++i) store.Record({.model = "m", .metadata_json = metadata});
    const Status status = store.Flush();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(store.health().queued, 20u);
    EXPECT_FALSE(store.health().last_error.ok());
  }
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), 20);
  EXPECT_TRUE(store.health().last_error.ok());
}

TEST_F(InferenceStoreTest, CountsAKilledWriter) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after a fork";
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = InferenceStore::Open(path, {.flush_interval = 1h});
    if (!store) ::_exit(1);
    for (int i = 0; i < 100; ++i) store->Record({.model = "kept"});
    if (!store->Flush().ok()) ::_exit(2);
    for (int i = 0; i < 10; ++i) store->Record({.model = "lost"});
    ::kill(::getpid(), SIGKILL);
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  InferenceStore store = Open();
  EXPECT_EQ(store.health().crashed, 1u);
  EXPECT_EQ(*store.Count(), 100u) << "what was flushed stays";
  EXPECT_EQ(Query(path, "SELECT stored FROM telemetry_writer WHERE outcome='crashed'"), 100);
  EXPECT_TRUE(store.Check().ok());
  EXPECT_EQ(Open().health().crashed, 0u) << "it is said once";
}

// Killed while it records and writes, sooner or later: what it knew to be flushed is there, and no more than
// it gave.
TEST_F(InferenceStoreTest, KillLosesAtMostTheUnflushedBatch) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after a fork";
  int64_t before = 0;
  for (int round = 0; round < 5; ++round) {
    int reported[2];
    ASSERT_EQ(::pipe(reported), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = InferenceStore::Open(path, {.flush_interval = 1ms, .flush_records = 7});
      for (int64_t given = 1; store; ++given) {
        store->Record({.model = "m"});
        if (given % 64 != 0) continue;
        if (!store->Flush().ok() || ::write(reported[1], &given, sizeof given) != sizeof given) break;
      }
      ::_exit(1);
    }
    ::close(reported[1]);
    int64_t flushed = 0;
    for (int batch = 0; batch <= 3 * round; ++batch)
      ASSERT_EQ(::read(reported[0], &flushed, sizeof flushed), static_cast<ssize_t>(sizeof flushed));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    while (::read(reported[0], &flushed, sizeof flushed) > 0) continue;
    ::close(reported[0]);
    InferenceStore store = Open();
    EXPECT_EQ(store.health().crashed, 1u) << "it is said";
    EXPECT_TRUE(store.Check().ok());
    const auto count = static_cast<int64_t>(*store.Count());
    EXPECT_GE(count, before + flushed);
    EXPECT_LE(count, before + flushed + 64);
    EXPECT_EQ(Query(path, "SELECT stored FROM telemetry_writer WHERE outcome='crashed' ORDER BY id DESC"),
              count - before);
    before = count;
  }
}

TEST_F(InferenceStoreTest, ForkedChildRecordsIntoTheSameFile) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer starts no threads after a fork";
  InferenceStore store = Open({.flush_interval = 1h});
  store.Record({.model = "parent"});
  const pid_t child = ::fork();
  if (child == 0) {
    store.Record({.model = "child"});
    const bool kept = store.Flush(30s).ok() && store.health().stored == 1;
    static_cast<void>(store.Close());
    ::_exit(kept ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry WHERE model_id='child'"), 1);
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry WHERE model_id='parent'"), 1);
}

TEST_F(InferenceStoreTest, DeletesRecordsAboveTheRetention) {
  InferenceStore store = Open({.retention = 24h});
  const auto now = std::chrono::system_clock::now();
  store.Record({.model = "old", .time = now - 48h});
  store.Record({.model = "new", .time = now - 1h});
  ASSERT_TRUE(store.Flush().ok());
  std::vector<std::string> models;
  RecordsOf(store, &models);
  EXPECT_EQ(models, std::vector<std::string>{"new"});
}

TEST_F(InferenceStoreTest, ClearsAndFreesSpace) {
  InferenceStore store = Open();
  for (int i = 0; i < 5000; ++i) store.Record({.model = "m"});
  ASSERT_TRUE(store.Flush().ok());
  const auto deleted = store.Clear();
  ASSERT_TRUE(deleted.ok());
  EXPECT_EQ(*deleted, 5000u);
  EXPECT_EQ(*store.Count(), 0u);
  ASSERT_TRUE(store.Vacuum().ok());
  ASSERT_TRUE(store.Close().ok());
  EXPECT_LT(std::filesystem::file_size(path), 200'000u);
  store.Record({.model = "late"});
  EXPECT_EQ(store.health().dropped, 1u);
}

TEST_F(InferenceStoreTest, RejectsInvalidOptions) {
  EXPECT_EQ(InferenceStore::Open("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(InferenceStore::Open("mysql://a/b").error().code, Code::kInvalidArgument);
  EXPECT_EQ(InferenceStore::Open(path, {.queue_records = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(InferenceStore::Open(path, {.when_full = WhenFull::kReject}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(InferenceStore::Open(path, {.read_only = true}).error().code, Code::kUnavailable);
  std::ofstream(path) << "this is no database, but a text of some length that SQLite does not take for one";
  EXPECT_EQ(InferenceStore::Open(path).error().code, Code::kDataLoss);
}

TEST_F(InferenceStoreTest, AReadOnlyStoreChangesNothing) {
  static_cast<void>(Open());
  const auto before = std::filesystem::last_write_time(path);
  InferenceStore store = Open({.read_only = true});
  store.Record({.model = "m"});
  EXPECT_EQ(*store.Count(), 0u);
  EXPECT_EQ(store.health().dropped, 1u);
  EXPECT_EQ(store.Clear().error().code, Code::kPermissionDenied);
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
}

// ---- calls
TEST_F(InferenceStoreTest, UnfinishedCallIsCancelledOrFailed) {
  InferenceStore store = Open();
  {
    auto call = store.Begin({.model = "cancelled"});
  }
  try {
    auto call = store.Begin({.model = "thrown"});
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
    // A call within a handler is not failed by what is being handled.
    auto call = store.Begin({.model = "handled"});
  }
  {
    auto call = store.Begin({.model = "named"});
    call.SetError("timeout");
  }
  store.Begin({.model = "finished"}).Finish({.completion_tokens = 3});
  std::set<std::string> seen;
  const Status status = store.Each({}, [&](const InferenceRecord& r) {
    seen.insert(std::string(r.model) + " " + std::string(OutcomeName(r.outcome)) + " " +
                std::string(r.error_type));
    return true;
  });
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(seen, (std::set<std::string>{"cancelled cancelled ", "thrown error exception",
                                         "handled cancelled ", "named error timeout", "finished ok "}));
}

TEST_F(InferenceStoreTest, ValuesOfFinishTakePrecedence) {
  InferenceStore store = Open();
  auto call = store.Begin({.model = "m", .engine = "e", .prompt_tokens = 1, .cost_usd = 0.25});
  EXPECT_EQ(call.Wait([] { return 7; }), 7);
  call.AddTokens(5);
  call.Finish({.prompt_tokens = 512, .completion_tokens = 6});
  EXPECT_TRUE(call.finished());
  const auto records = RecordsOf(store);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].prompt_tokens, 512);
  EXPECT_EQ(records[0].completion_tokens, 6);
  EXPECT_EQ(records[0].cost_usd, 0.25);
  EXPECT_GE(records[0].ttft_seconds, 0);
  EXPECT_GE(records[0].consumer_seconds, 0);
}

TEST_F(InferenceStoreTest, CallMayOutliveItsStore) {
  std::optional<InferenceStore> store = Open();
  auto call = store->Begin({.model = "m"});
  store.reset();
  call.Finish();
  EXPECT_EQ(Query(path, "SELECT count(*) FROM telemetry"), 0);
}

TEST(CallClock, SeparatesTheConsumersTime) {
  const TimePoint t{};
  inference::CallClock clock(t);
  telemetry::RecordNumbers n;
  clock.Enter(t), clock.Leave(t + 80ms), clock.AddTokens(1, t + 80ms);
  // The consumer takes 20 ms for each.
  clock.Enter(t + 100ms), clock.Leave(t + 110ms), clock.AddTokens(1, t + 110ms);
  clock.Enter(t + 130ms), clock.Leave(t + 150ms), clock.AddTokens(4, t + 150ms);
  clock.End(n, t + 170ms);
  EXPECT_DOUBLE_EQ(n.ttft, 0.080);
  EXPECT_DOUBLE_EQ(n.latency_seconds, 0.110);
  EXPECT_DOUBLE_EQ(n.consumer_seconds, 0.060);
  EXPECT_EQ(n.completion_tokens, 6);
  EXPECT_EQ(n.itl_count, 5) << "10 ms, then four of 5 ms";
  EXPECT_NEAR(n.mean_itl_ms, 6, 1e-9);
  EXPECT_NEAR(n.median_itl_ms, 5, 1e-9);
  EXPECT_NEAR(n.max_itl_ms, 10, 1e-9);
  EXPECT_NEAR(n.std_itl_ms, std::sqrt(5.0), 1e-6);
}

TEST(CallClock, AllTimeIsTheEnginesWithoutWait) {
  const TimePoint t{};
  inference::CallClock clock(t);
  telemetry::RecordNumbers n;
  clock.AddTokens(1, t + 50ms);
  clock.End(n, t + 60ms);
  EXPECT_DOUBLE_EQ(n.latency_seconds, 0.060);
  EXPECT_TRUE(std::isnan(n.consumer_seconds));
  EXPECT_TRUE(std::isnan(n.mean_itl_ms));
  EXPECT_FALSE(n.is_streaming);
}

TEST(CallClock, SamplesGapsOfALongAnswer) {
  const TimePoint t{};
  inference::CallClock clock(t);
  telemetry::RecordNumbers n;
  constexpr int kTokens = 100'000;
  for (int i = 0; i <= kTokens; ++i) clock.AddTokens(1, t + i * 10ms);
  clock.AddTokens(1, t + kTokens * 10ms + 70ms);
  clock.End(n, t + kTokens * 10ms + 70ms);
  EXPECT_EQ(n.itl_count, kTokens + 1);
  EXPECT_NEAR(n.p99_itl_ms, 10, 1e-6);
  EXPECT_NEAR(n.max_itl_ms, 70, 1e-6);
}

// A file that another program has written, of which no roll-up is known.
void WriteForeignRows(const std::string& path, int64_t rows) {
  auto database = sqlite::Database::Open({.path = path});
  ASSERT_TRUE(database) << database.error().detail;
  const Status made = database->Run(
      "CREATE TABLE IF NOT EXISTS telemetry(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, "
      "model_id TEXT NOT NULL, engine TEXT NOT NULL DEFAULT '', prompt_tokens INTEGER NOT NULL DEFAULT 0, "
      "completion_tokens INTEGER NOT NULL DEFAULT 0, total_tokens INTEGER NOT NULL DEFAULT 0, "
      "latency_seconds "
      "REAL NOT NULL DEFAULT 0, energy_joules REAL NOT NULL DEFAULT 0);"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<" +
      std::to_string(rows) +
      ") INSERT INTO telemetry(timestamp, model_id, engine, completion_tokens, latency_seconds, "
      "energy_joules) "
      "SELECT 1.7e9+i*0.25, 'm'||(i%3), 'vllm', 10+i%7, 0.5+(i%11)*0.1, 5 FROM n");
  ASSERT_TRUE(made.ok()) << made.detail;
}

constexpr const char* kCovered = "SELECT covered FROM telemetry_rollup_state";

TEST_F(InferenceStoreTest, RowsOfOthersAreRolledUpInTheBackground) {
  constexpr int64_t kRows = 60'000, kMostSingly = 4'096;
  WriteForeignRows(path, kRows);
  auto store = Open();
  // Records are stored meanwhile.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(store.Record({.model = "own"}));
  ASSERT_TRUE(store.Flush().ok());
  EXPECT_EQ(store.health().stored, 10u);
  const auto covers = [&](int64_t rows) {
    const TimePoint until = std::chrono::steady_clock::now() + 30s;
    while (Query(path, kCovered) < rows && std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 5);
    return Query(path, kCovered) >= rows;
  };
  EXPECT_TRUE(covers(kRows + 10 - kMostSingly)) << "a summary reads so many rows at most";
  const auto rolled_up = store.Summarize({.by = GroupBy::kModel});
  ASSERT_TRUE(rolled_up);
  WriteForeignRows(path, kRows);  // and more, while the store is open
  EXPECT_TRUE(covers(2 * kRows + 10 - kMostSingly));
  const auto all = store.Summarize();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->front().calls, 2u * kRows + 10);
  EXPECT_DOUBLE_EQ(all->front().energy_joules.sum, 5.0 * 2 * kRows);
  EXPECT_EQ(Query(path, "SELECT stale FROM telemetry_rollup_state"), 0);
}

TEST_F(InferenceStoreTest, RollUpGoesOnAfterKill) {
  constexpr int64_t kRows = 200'000;
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer knows no threads after a fork of several";
  WriteForeignRows(path, kRows);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = InferenceStore::Open(path);
    for (;;) ::pause();
  }
  const auto covered = [&] {
    auto database = sqlite::Database::Open({.path = path, .read_only = true});
    const auto number = database ? database->Number(kCovered) : Result<int64_t>(0);
    return number ? *number : 0;
  };
  const TimePoint until = std::chrono::steady_clock::now() + 30s;
  while (covered() == 0 && std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const int64_t left = covered();
  EXPECT_GT(left, 0);
  auto store = Open();
  while (covered() < kRows - 4'096 && std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 5);
  const auto all = store.Summarize();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->front().calls, static_cast<uint64_t>(kRows));
  EXPECT_DOUBLE_EQ(all->front().energy_joules.sum, 5.0 * kRows);
  EXPECT_GE(covered(), kRows - 4'096);
}

}  // namespace
}  // namespace gpulens
