#include "store/telemetry/schema.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/result.h"
#include "base/testing/temp_folder.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {
namespace {

using gpulens::testing::TempFolder;

// Of openjarvis at its first release: before prompt_tokens_evaluated, token_counting_version and
// mining_session_id.
constexpr const char* kSeedTable =
    "CREATE TABLE telemetry (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp REAL NOT NULL, model_id TEXT "
    "NOT NULL,"
    " engine TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', prompt_tokens INTEGER NOT NULL "
    "DEFAULT 0,"
    " completion_tokens INTEGER NOT NULL DEFAULT 0, total_tokens INTEGER NOT NULL DEFAULT 0,"
    " latency_seconds REAL NOT NULL DEFAULT 0.0, ttft REAL NOT NULL DEFAULT 0.0, cost_usd REAL NOT NULL "
    "DEFAULT 0.0,"
    " metadata TEXT NOT NULL DEFAULT '{}')";
// Grown by its migration: newer columns follow `metadata`, in the order of their years.
constexpr const char* kGrown =
    "ALTER TABLE telemetry ADD COLUMN energy_joules REAL NOT NULL DEFAULT 0.0;"
    "ALTER TABLE telemetry ADD COLUMN mean_itl_ms REAL NOT NULL DEFAULT 0.0;"
    "ALTER TABLE telemetry ADD COLUMN is_streaming INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE telemetry ADD COLUMN token_counting_version INTEGER;"
    "ALTER TABLE telemetry ADD COLUMN a_column_of_the_future TEXT;";
constexpr const char* kOldRow =
    "INSERT INTO telemetry(timestamp, model_id, engine, prompt_tokens, latency_seconds, metadata) "
    "VALUES(1700000000.5, 'old', 'ollama', 12, 0.25, '{\"k\":1}')";

struct SchemaTest : ::testing::Test {
  TempFolder folder;
  std::string path = folder.path() + "/telemetry.db";

  void Make(std::initializer_list<const char*> statements) const {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database.ok());
    for (const char* sql : statements) ASSERT_TRUE(database->Run(sql).ok()) << sql;
  }
  std::string Bytes() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static std::vector<RecordRow> Read(const sqlite::Database& database, std::vector<std::string>& texts) {
    auto select = database.Prepare("SELECT * FROM telemetry ORDER BY id");
    EXPECT_TRUE(select.ok());
    const RowReader reader(*select);
    std::vector<RecordRow> rows;
    while (*select->Step()) {
      rows.push_back(reader.Read());
      texts.emplace_back(rows.back().text(TextColumn::kModel));
    }
    return rows;
  }
};

void ExpectOldRow(const RecordRow& row) {
  EXPECT_EQ(row.numbers.timestamp, 1700000000.5);
  EXPECT_EQ(row.numbers.prompt_tokens, 12);
  EXPECT_EQ(row.numbers.latency_seconds, 0.25);
  EXPECT_EQ(row.numbers.completion_tokens, kNoCount) << "0 is what openjarvis writes for nothing";
  EXPECT_TRUE(std::isnan(row.numbers.ttft));
  EXPECT_TRUE(std::isnan(row.numbers.energy_joules));
  EXPECT_EQ(row.numbers.token_counting_version, kNoCount);
}

TEST_F(SchemaTest, ANewFileIsItsOwnersAndItsFolderIsLeftAlone) {
  const std::string shared = folder.path() + "/shared";
  ASSERT_EQ(::mkdir(shared.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(shared.c_str(), 0777), 0);
  ASSERT_TRUE(OpenToWrite(shared + "/telemetry.db", nullptr).ok());
  struct stat file{}, above{};
  ASSERT_EQ(::stat((shared + "/telemetry.db").c_str(), &file), 0);
  ASSERT_EQ(::stat(shared.c_str(), &above), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0600u);
  EXPECT_EQ(above.st_mode & 0777u, 0777u);
}

TEST_F(SchemaTest, TheColumnsOfOpenjarvisComeFirst) {
  auto database = OpenToWrite(path, nullptr);
  ASSERT_TRUE(database.ok());
  auto info = database->Prepare("SELECT name FROM pragma_table_info('telemetry') ORDER BY cid");
  ASSERT_TRUE(info.ok());
  std::vector<std::string> names;
  while (*info->Step()) names.emplace_back(info->Text(0));
  ASSERT_GT(names.size(), 42u);
  EXPECT_EQ(names[0], "id");
  EXPECT_EQ(names[1], "timestamp");
  EXPECT_EQ(names[41], "metadata") << "the 42nd and last of openjarvis";
  EXPECT_EQ(names.back(), "measured");
}

TEST_F(SchemaTest, FilesOfAllAgesAreReadAsTheyAreAndLeftAsTheyAre) {
  for (const bool grown : {false, true}) {
    ::unlink(path.c_str());
    Make({kSeedTable, grown ? kGrown : "SELECT 1", kOldRow});
    const std::string before = Bytes();
    {
      auto database = OpenToRead(path);
      ASSERT_TRUE(database.ok()) << database.error().detail;
      std::vector<std::string> models;
      const auto rows = Read(*database, models);
      ASSERT_EQ(rows.size(), 1u);
      EXPECT_EQ(models[0], "old");
      ExpectOldRow(rows[0]);
    }
    EXPECT_EQ(Bytes(), before);
  }
}

TEST_F(SchemaTest, AnOldFileIsBroughtUpToDateAndOpenjarvisGoesOnWriting) {
  Make({kSeedTable, kGrown, kOldRow});
  auto writer = FileWriter::Open({.path = path, .retention = {}, .rollup = nullptr});
  ASSERT_TRUE(writer.ok()) << writer.error().detail;
  InferenceRecord record{.model = "new"};
  record.time = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'001));
  record.ttft_seconds = 0, record.completion_tokens = 0;
  const RecordRow row = FromRecord(record);
  auto kept = (*writer)->Write({&row, 1}, 0);
  ASSERT_TRUE(kept.ok()) << kept.error().detail;
  EXPECT_EQ(kept->stored, 1u);
  // As openjarvis does while we have it open.
  Make(
      {"INSERT INTO telemetry(timestamp, model_id, engine, agent, prompt_tokens, completion_tokens, "
       "total_tokens, latency_seconds, ttft, cost_usd, metadata) VALUES(1700000002,'theirs','','',1,2,3,"
       "0.5,0.0,0.0,'{}')",
       "ALTER TABLE telemetry ADD COLUMN one_more TEXT"});
  auto database = OpenToRead(path);
  ASSERT_TRUE(database.ok());
  std::vector<std::string> models;
  const auto rows = Read(*database, models);
  EXPECT_EQ(models, (std::vector<std::string>{"old", "new", "theirs"}));
  ExpectOldRow(rows[0]);
  EXPECT_EQ(rows[1].numbers.ttft, 0) << "measured as 0";
  EXPECT_TRUE(std::isnan(rows[2].numbers.ttft)) << "theirs is not";
  EXPECT_EQ(rows[2].numbers.completion_tokens, 2);
  // And it opens again, with what was added meanwhile.
  EXPECT_TRUE(OpenToWrite(path, nullptr).ok());
  EXPECT_EQ(*database->Number("PRAGMA user_version"), kVersion);
}

TEST_F(SchemaTest, AnotherProgramsDatabaseIsRefusedUntouched) {
  Make({"CREATE TABLE notes(text TEXT)"});
  EXPECT_EQ(OpenToWrite(path, nullptr).error().code, Code::kDataLoss);
  EXPECT_EQ(OpenToRead(path).error().code, Code::kDataLoss);
  auto database = sqlite::Database::Open({.path = path, .read_only = true});
  EXPECT_EQ(*database->Number("SELECT count(*) FROM sqlite_master"), 1);
  // A table of that name, but of something else.
  Make({"CREATE TABLE telemetry(volts REAL)"});
  EXPECT_EQ(OpenToWrite(path, nullptr).error().code, Code::kDataLoss);
}

TEST_F(SchemaTest, AFileOfANewerProgramIsRefused) {
  ASSERT_TRUE(OpenToWrite(path, nullptr).ok());
  Make({"PRAGMA user_version=99"});
  EXPECT_EQ(OpenToWrite(path, nullptr).error().code, Code::kUnavailable);
}

TEST_F(SchemaTest, AFileInAReadOnlyFolderIsRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  Make({kSeedTable, kOldRow});
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  auto database = OpenToRead(path);
  EXPECT_TRUE(database.ok()) << database.error().detail;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
}

TEST(Rows, ATildeIsTheHomeFolder) {
  EXPECT_EQ(*ExpandPath("a/~/b"), "a/~/b");
  ASSERT_EQ(::setenv("HOME", "/home/x", 1), 0);
  EXPECT_EQ(*ExpandPath("~/t.db"), "/home/x/t.db");
}

TEST(Rows, DerivesOnlyDerivableColumns) {
  InferenceRecord record;
  record.prompt_tokens = 10, record.completion_tokens = 50;
  record.latency_seconds = 0.5, record.ttft_seconds = 0.1, record.energy_joules = 10, record.power_watts = 20;
  RecordNumbers n = FromRecord(record).numbers;
  EXPECT_EQ(n.total_tokens, 60);
  EXPECT_DOUBLE_EQ(n.throughput_tok_per_sec, 100);
  EXPECT_DOUBLE_EQ(n.energy_per_output_token_joules, 0.2);
  EXPECT_DOUBLE_EQ(n.tokens_per_joule, 5);
  EXPECT_DOUBLE_EQ(n.throughput_per_watt, 5);
  EXPECT_DOUBLE_EQ(n.decode_latency_seconds, 0.4);
  record.ttft_seconds = 0.7;
  EXPECT_TRUE(std::isnan(FromRecord(record).numbers.decode_latency_seconds)) << "never negative";
  record.completion_tokens = 0;
  EXPECT_TRUE(std::isnan(FromRecord(record).numbers.energy_per_output_token_joules));
}

}  // namespace
}  // namespace gpulens::telemetry
