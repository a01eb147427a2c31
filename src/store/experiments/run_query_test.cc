#include "store/experiments/run_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/testing/temp_folder.h"
#include "store/experiments/run_writer.h"
#include "store/sqlite/hostile_file_testing.h"

namespace gpulens::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<std::string>;

// All of a row as text, NULL as a dash.
Row Texts(const sqlite::Statement& row) {
  Row out;
  for (int i = 0; i < row.columns(); ++i) out.push_back(row.IsNull(i) ? "-" : std::string(row.Text(i)));
  return out;
}

struct QueryTest : ::testing::Test {
  Result<std::vector<Row>> Query(const RunReader& reader, std::string_view sql, QueryLimits limits = {}) {
    std::vector<Row> rows;
    auto outcome = RunQuery(reader, sql, limits, RealClock(), [&](const sqlite::Statement& row, bool first) {
      if (!first) rows.push_back(Texts(row));
      return true;
    });
    if (!outcome) return outcome.error();
    cut = outcome->cut;
    return rows;
  }
  Status Refused(std::string_view sql, QueryLimits limits = {}) {
    RunReader reader = Opened();
    return Query(reader, sql, limits).status();
  }
  RunReader Opened() {
    auto reader = RunReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status().detail;
    Status made = MakeViews(*reader);
    EXPECT_TRUE(made.ok()) << made.detail;
    return *std::move(reader);
  }
  void Make(const std::string& name, double loss, double lr, std::string outcome = kDone) {
    auto writer = RunWriter::Open(path);
    ASSERT_TRUE(writer);
    ProcessObserver here = HereAndNow();
    RunStart start;
    start.run.name = name, start.run.id = name, start.run.started_ns = ++started * 1'000'000'000;
    start.process = ThisProcess(here);
    ASSERT_TRUE((*writer)->Begin(start, here));
    RunBatch batch;
    batch.keys = {"loss", "Loss", "odd \"key\"'s"};
    batch.points = {{0, 10, 5'000'000, loss}, {1, 0, 0, 1}, {2, 0, 0, 2}, {0, 5, 0, 9}};
    batch.params = {{"lr", lr}, {"loss", std::string("mse")}, {"layers", int64_t{12}}};
    ASSERT_TRUE((*writer)->Write(batch, PointSource::kProgram));
    RunEnd end{.outcome = outcome, .reason = {}, .exit_code = {}, .energy = {}, .unix_ns = {}};
    end.unix_ns = start.run.started_ns + 100'500'000'000;
    ASSERT_TRUE((*writer)->Leave(end));
  }

  gpulens::testing::TempFolder folder;
  std::string path = folder.path() + "/experiments.db";
  int64_t started = 1000;
  bool cut = false;
};

TEST_F(QueryTest, OldStatementsWork) {
  Make("a", 0.3, 1e-3), Make("b", 3e-5, 1e-4), Make("c", 0.9, 1e-4), Make("d", NAN, 1, kFailed);
  RunReader reader = Opened();
  auto rows = Query(reader, "SELECT name, loss FROM experiments WHERE loss < 0.5 ORDER BY loss LIMIT 5");
  ASSERT_TRUE(rows) << rows.error().detail;
  EXPECT_THAT(*rows, ElementsAre(Row{"b", "3.0e-05"}, Row{"a", "0.3"}));
  EXPECT_THAT(*Query(reader, "SELECT name FROM experiments WHERE status = 'Failed' AND loss IS NULL;"),
              ElementsAre(Row{"d"}));
  EXPECT_THAT(*Query(reader, "SELECT name FROM experiments WHERE duration > 100 AND loss = 3e-5"),
              ElementsAre(Row{"b"}));
  EXPECT_THAT(*Query(reader, "SELECT name, accuracy, step FROM experiments ORDER BY name DESC LIMIT 1"),
              ElementsAre(Row{"d", "-", "10"}))
      << "columns of the old language are there, also without such a metric";
  EXPECT_EQ(Query(reader, "SELECT * FROM experiments")->size(), 4u);
  EXPECT_THAT(*Query(reader, "SELECT lr, param_loss, \"odd \"\"key\"\"'s\" FROM experiments WHERE name='a'"),
              ElementsAre(Row{"0.001", "mse", "2.0"}));
}

TEST_F(QueryTest, ViewsHaveTheColumnsOfTheirNames) {
  Make("a", 0.25, 1e-3);
  RunReader reader = Opened();
  EXPECT_THAT(*Query(reader, "SELECT status, started, ended, duration FROM runs"),
              ElementsAre(Row{"done", "1970-01-01T00:16:41.000Z", "1970-01-01T00:18:21.500Z", "100.5"}));
  EXPECT_THAT(*Query(reader, "SELECT run, step, time, value FROM metrics WHERE key='loss'"),
              ElementsAre(Row{"a", "5", "1970-01-01T00:00:00.000Z", "9.0"},
                          Row{"a", "10", "1970-01-01T00:00:00.005Z", "0.25"}));
  EXPECT_THAT(*Query(reader, "SELECT key, type, value FROM params WHERE value > 5 AND type <> 'text'"),
              ElementsAre(Row{"layers", "int", "12"}));
  EXPECT_THAT(*Query(reader, "SELECT count, last_step, last, min, max FROM summaries WHERE key='loss'"),
              ElementsAre(Row{"2", "10", "0.25", "0.25", "9.0"}));
  EXPECT_THAT(*Query(reader,
                     "SELECT avg(value) FROM metrics m JOIN runs r ON r.id=m.run_id WHERE r.name='a'"
                     " AND key='loss'"),
              ElementsAre(Row{"4.625"}));
  EXPECT_THAT(*Query(reader,
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<3)"
                     " SELECT sum(i) FROM n -- a comment"),
              ElementsAre(Row{"6"}));
}

TEST_F(QueryTest, NothingCanBeChanged) {
  Make("a", 1, 1);
  for (const char* sql :
       {"DELETE FROM run", "UPDATE run SET name='x'", "INSERT INTO tag VALUES('a','b','c')", "DROP TABLE run",
        "CREATE TEMP TABLE x(a)", "ATTACH 'x.db' AS x", "PRAGMA user_version=3", "PRAGMA table_info(run)",
        "BEGIN", "DELETE FROM temp.crashed_run", "DROP VIEW runs", "VACUUM INTO 'x.db'", "REINDEX",
        "SELECT load_extension('x')", "CREATE TABLE x(a)"}) {
    Status status = Refused(sql);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << sql << ": " << status.detail;
  }
  EXPECT_THAT(Refused("SELECT 1; DELETE FROM run").detail, HasSubstr("one statement"));
  EXPECT_THAT(Refused("SELECT * FROM jobs").detail, HasSubstr("runs, params, metrics"));
  EXPECT_THAT(Refused("SELEKT").detail, HasSubstr("syntax error"));
  EXPECT_EQ(Refused("").code, Code::kInvalidArgument);
  EXPECT_EQ(Refused("-- only words").code, Code::kInvalidArgument);
  RunReader reader = Opened();
  EXPECT_EQ(Query(reader, "SELECT * FROM runs")->size(), 1u);
}

TEST_F(QueryTest, QueriesEndInTimeAndWithinTheirMemory) {
  Make("a", 1, 1);
  constexpr const char* kEndless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n";
  QueryLimits soon{.rows = 10, .time = std::chrono::milliseconds(30)};
  EXPECT_EQ(Refused(kEndless, soon).code, Code::kTimeout);
  EXPECT_FALSE(Refused("SELECT length(randomblob(2000000000))").ok());
  EXPECT_FALSE(
      Refused("SELECT group_concat(randomblob(1000000)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
              " SELECT i+1 FROM n LIMIT 100000) SELECT i FROM n)",
              soon)
          .ok());
  std::string deep = "SELECT ";
  for (int i = 0; i < 5000; ++i) deep += "(";
  EXPECT_FALSE(Refused(deep + "1").ok());
  RunReader reader = Opened();
  EXPECT_EQ(
      Query(reader, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 50) SELECT i FROM n",
            {.rows = 7, .time = std::chrono::seconds(20)})
          ->size(),
      7u);
  EXPECT_TRUE(cut);
}

TEST_F(QueryTest, DeletionsOfRowsChangeTheSummary) {
  Make("a", 1, 1);
  RunReader reader = Opened();
  ManualClock clock;
  int rows = 0;
  auto outcome =
      RunQuery(reader, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n",
               {.rows = 1'000'000, .time = std::chrono::seconds(30)}, clock,
               [&](const sqlite::Statement&, bool first) {
                 if (!first && ++rows <= 12) clock.Advance(std::chrono::seconds(3));
                 return rows < 1000;
               });
  EXPECT_EQ(outcome.status().code, Code::kTimeout);
  EXPECT_EQ(rows, 10);
}

// Keys are anybody's text.
TEST_F(QueryTest, OddKeysAreRowsAndNoColumns) {
  Make("a", 1, 1);
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(
        (*database).Run("UPDATE metric SET key=CAST(x'6100620a' AS TEXT) WHERE key='Loss';"
                        "UPDATE param SET key='x'||hex(zeroblob(3000)) WHERE key='lr'"));
  }
  RunReader reader = Opened();
  EXPECT_EQ(Query(reader, "SELECT name FROM experiments")->size(), 1u);
  EXPECT_EQ(Query(reader, "SELECT count(*) FROM summaries WHERE hex(key)='6100620A'")->front(), Row{"1"});
}

// The tables of a file are untrusted: a view may return rows without end, and is not used.
TEST_F(QueryTest, AViewInPlaceOfATableIsRefused) {
  Make("a", 1, 1);
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database.ok());
    Status made = (*database).Run(
        "PRAGMA foreign_keys=OFF; ALTER TABLE metric RENAME TO old_metric;"
        "CREATE VIEW metric AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS id,"
        " 'r' AS run_id, 'k' AS key, 1 AS count, 1 AS last_step, 1.0 AS last_value, 1.0 AS min_value,"
        " 1.0 AS max_value FROM n");
    ASSERT_TRUE(made.ok()) << made.detail;
  }
  auto reader = RunReader::Open(path, HereAndNow(), std::chrono::milliseconds(200));
  const Status status = reader ? MakeViews(*reader) : reader.status();
  EXPECT_EQ(status.code, Code::kInvalidArgument) << status.detail;
}

// With pages that are each other's children a table has more rows than any disk holds.
TEST_F(QueryTest, AnEndlessTableTimesOut) {
  Make("a", 1, 1);
  int64_t root = 0;
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database->Run("PRAGMA journal_mode=DELETE"));
    root = *database->Number("SELECT rootpage FROM sqlite_master WHERE name='metric'");
  }
  sqlite::FileBytes file(sqlite::ReadWhole(path));
  file.MakeEndless(static_cast<size_t>(root), 6);
  sqlite::WriteWhole(path, file.bytes());
  auto reader = RunReader::Open(path, HereAndNow(), std::chrono::milliseconds(200));
  ASSERT_TRUE(reader) << reader.error().detail;
  auto database =
      sqlite::Database::Open({.path = path, .read_only = true, .longest = std::chrono::milliseconds(200)});
  EXPECT_EQ(database->Number("SELECT sum(last_value) FROM metric").status().code, Code::kTimeout);
}

// A file of the zernel project: one table, a status with the quotes of JSON, the last value of each metric.
struct OldFileTest : QueryTest {
  OldFileTest() {
    auto database = sqlite::Database::Open({.path = path});
    EXPECT_TRUE(database);
    EXPECT_TRUE(database->Run(
        "PRAGMA journal_mode=DELETE;"
        "CREATE TABLE experiments(id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL,"
        " hyperparams TEXT NOT NULL DEFAULT '{}', metrics TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT "
        "NULL,"
        " finished_at TEXT, git_commit TEXT, script TEXT, duration_secs REAL);"
        "INSERT INTO experiments VALUES('exp-20260401-120000-aaaaaaaa','train','\"Done\"',"
        " '{\"lr\":0.001,\"opt\":\"adam\",\"amp\":true,\"n\":3}','{\"loss\":3e-5,\"accuracy\":0.9,\"bad\":"
        "null}',"
        " '2026-04-01T12:00:00.250+00:00','2026-04-01T12:01:40.250+00:00','abc123','train.py',100.0);"
        "INSERT INTO experiments VALUES('exp-20260401-130000-bbbbbbbb','train','\"Running\"','{}','{}',"
        " '2026-04-01T15:00:00+02:00',NULL,NULL,NULL,NULL);"
        "INSERT INTO experiments VALUES('exp-20260401-140000-cccccccc','odd','\"Failed\"','not json','[1,2',"
        " 'some day',NULL,NULL,NULL,NULL);"));
  }
};

TEST_F(OldFileTest, OpensAndListsUnchanged) {
  std::ifstream before_file(path, std::ios::binary);
  std::string before((std::istreambuf_iterator<char>(before_file)), {});
  {
    RunReader reader = Opened();
    EXPECT_TRUE(reader.old_file());
    auto list = reader.List({.status = {}, .name = {}});
    ASSERT_TRUE(list) << list.error().detail;
    ASSERT_EQ(list->size(), 3u);
    EXPECT_EQ((*list)[0].id, "exp-20260401-130000-bbbbbbbb");
    EXPECT_EQ((*list)[0].status, "running") << "as it stands there; nobody can tell";
    EXPECT_EQ((*list)[0].started_ns, 1'775'048'400'000'000'000);
    const RunRow& done = (*list)[1];
    EXPECT_EQ(done.status, "done");
    EXPECT_EQ(done.started_ns, 1'775'044'800'250'000'000);
    EXPECT_EQ(done.duration_seconds(0), 100);
    EXPECT_EQ(done.git_commit, "abc123");
    std::vector<std::string> params;
    auto all = reader.Params(done.id);
    for (const ParamRow& param : *all) params.push_back(param.key + "=" + ValueText(param.value));
    EXPECT_THAT(params, ElementsAre("amp=true", "lr=0.001", "n=3", "opt=adam"));
    auto metrics = reader.Metrics(done.id);
    ASSERT_EQ(metrics->size(), 3u);
    EXPECT_EQ((*metrics)[2].key, "loss");
    EXPECT_EQ((*metrics)[2].last, 3e-5);
    EXPECT_EQ((*metrics)[2].count, std::nullopt) << "the history was never kept";
    EXPECT_TRUE(std::isnan((*metrics)[1].last));
    EXPECT_EQ(reader.Find("odd")->id, "exp-20260401-140000-cccccccc");
    EXPECT_TRUE(reader.Params("exp-20260401-140000-cccccccc")->empty());
    EXPECT_THAT(*Query(reader, "SELECT name, loss, lr FROM experiments WHERE loss < 0.5 AND status='Done'"),
                ElementsAre(Row{"train", "3.0e-05", "0.001"}));
    EXPECT_THAT(*Query(reader, "SELECT name FROM experiments WHERE duration = 100"),
                ElementsAre(Row{"train"}));
  }
  EXPECT_EQ(RunWriter::Open(path).status().code, Code::kInvalidArgument) << "never written";
  std::ifstream after_file(path, std::ios::binary);
  std::string after((std::istreambuf_iterator<char>(after_file)), {});
  EXPECT_EQ(before, after);
  EXPECT_FALSE(std::filesystem::exists(path + "-wal"));
}

}  // namespace
}  // namespace gpulens::experiments
