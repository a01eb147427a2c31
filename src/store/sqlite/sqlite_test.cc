#include "store/sqlite/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/testing/temp_folder.h"
#include "store/sqlite/hostile_file_testing.h"

namespace gpulens::sqlite {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kSteps[] = {"CREATE TABLE t(a INTEGER, b REAL, c TEXT)",
                                  "ALTER TABLE t ADD COLUMN d BLOB"};
constexpr Schema kSchema{.application_id = 0x6770756c, .steps = kSteps, .count = 2};

struct SqliteTest : ::testing::Test {
  OpenOptions Options() const { return {.path = folder.path() + "/below/x.db"}; }
  Result<Database> Made() const {
    auto database = Database::Open(Options());
    if (database) {
      EXPECT_TRUE(BringUpToDate(*database, kSchema).ok());
    }
    return database;
  }
  testing::TempFolder folder;
};

TEST_F(SqliteTest, ValuesComeBackAsTheyWent) {
  auto database = Made();
  ASSERT_TRUE(database) << database.error().detail;
  auto insert = database->Prepare("INSERT INTO t VALUES(?,?,?,?)");
  ASSERT_TRUE(insert);
  const std::string odd("nul\0 ü", 7);
  insert->Bind(1, std::numeric_limits<int64_t>::min()).Bind(2, -std::numeric_limits<double>::infinity());
  insert->Bind(3, odd).BindBlob(4, std::string_view("\xff\0", 2));
  ASSERT_TRUE(insert->Execute());
  insert->Bind(1, std::optional<int64_t>())
      .Bind(2, std::nan(""))
      .Bind(3, std::string_view())
      .Bind(4, std::monostate());
  ASSERT_TRUE(insert->Execute());
  EXPECT_EQ(database->changes(), 1);
  EXPECT_EQ(database->last_row_id(), 2);

  auto rows = database->Prepare("SELECT a,b,c,d AS last FROM t ORDER BY rowid");
  ASSERT_TRUE(rows);
  ASSERT_TRUE(*rows->Step());
  EXPECT_EQ(rows->columns(), 4);
  EXPECT_EQ(rows->ColumnName(3), "last");
  EXPECT_EQ(rows->Int(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(rows->Real(1), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rows->Text(2), odd);
  EXPECT_EQ(rows->Text(3), std::string_view("\xff\0", 2));
  EXPECT_EQ(rows->TypeOf(3), Statement::Type::kBlob);
  ASSERT_TRUE(*rows->Step());
  EXPECT_EQ(rows->MaybeInt(0), std::nullopt);
  EXPECT_TRUE(rows->IsNull(1)) << "SQLite knows no NaN";
  EXPECT_TRUE(std::isnan(rows->Real(1)));
  EXPECT_EQ(rows->TypeOf(2), Statement::Type::kText) << "an empty text is no NULL";
  EXPECT_FALSE(*rows->Step());
  EXPECT_TRUE(*rows->Step()) << "from the beginning again";
}

TEST_F(SqliteTest, TransactionsAreUndoneUnlessCommitted) {
  auto database = Made();
  ASSERT_TRUE(database);
  {
    auto undone = Transaction::Begin(*database);
    ASSERT_TRUE(undone);
    ASSERT_TRUE(database->Run("INSERT INTO t(a) VALUES(1)"));
  }
  EXPECT_EQ(*database->Number("SELECT count(*) FROM t"), 0);
  auto kept = Transaction::Begin(*database);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(Transaction::Begin(*database)) << "no second one within";
  ASSERT_TRUE(database->Run("INSERT INTO t(a) VALUES(1)"));
  ASSERT_TRUE(kept->Commit());
  EXPECT_EQ(*database->Number("SELECT count(*) FROM t"), 1);
}

TEST_F(SqliteTest, AnotherWriterIsWaitedForAndThenGivenUp) {
  auto first = Made();
  OpenOptions hasty = Options();
  hasty.busy_ms = 1;
  auto second = Database::Open(hasty);
  ASSERT_TRUE(first && second);
  auto held = Transaction::Begin(*first);
  ASSERT_TRUE(held);
  auto refused = Transaction::Begin(*second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTimeout);
  ASSERT_TRUE(held->Commit());
  EXPECT_TRUE(Transaction::Begin(*second));
}

TEST_F(SqliteTest, FilesAreMadeForOwnerAndGroupAndFoldersStayAsTheyAre) {
  ASSERT_EQ(::chmod(folder.path().c_str(), 0711), 0);
  mode_t before = ::umask(0);
  auto database = Made();
  ASSERT_TRUE(database);
  ::umask(before);
  struct stat info{};
  for (const char* suffix : {"", "-wal", "-shm"}) {
    ASSERT_EQ(::stat((Options().path + suffix).c_str(), &info), 0) << suffix;
    EXPECT_EQ(info.st_mode & 0777, 0640u) << suffix;
  }
  ASSERT_EQ(::stat(folder.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0711u);
}

TEST_F(SqliteTest, ReportsWhyAFileCannotBeOpened) {
  OpenOptions absent = Options();
  absent.read_only = true;
  EXPECT_EQ(Database::Open(absent).status().code, Code::kUnavailable);
  absent.read_only = false, absent.create = false;
  EXPECT_EQ(Database::Open(absent).status().code, Code::kUnavailable);
  OpenOptions odd{.path = folder.Write("x.txt", std::string(4096, 'x'))};
  EXPECT_EQ(Database::Open(odd).status().code, Code::kDataLoss);
  odd.path = folder.path();
  EXPECT_FALSE(Database::Open(odd));
  odd.path = folder.path() + "/x.txt/below.db";
  EXPECT_FALSE(Database::Open(odd));
  auto database = Made();
  ASSERT_TRUE(database);
  Status wrong = database->Prepare("SELECT absent FROM t").status();
  EXPECT_EQ(wrong.code, Code::kInvalidArgument);
  EXPECT_THAT(wrong.detail, HasSubstr("no such column: absent"));
  EXPECT_EQ(database->Prepare("  -- nothing").status().code, Code::kInvalidArgument);
  EXPECT_EQ(database->Number("SELECT NULL").status().code, Code::kDataLoss);
}

TEST_F(SqliteTest, ReadOnlyWritesNothing) {
  ASSERT_TRUE(Made());
  OpenOptions reading = Options();
  reading.read_only = true;
  auto database = Database::Open(reading);
  ASSERT_TRUE(database) << database.error().detail;
  EXPECT_EQ(database->Run("INSERT INTO t(a) VALUES(1)").code, Code::kPermissionDenied);
}

// As a user other than root who may write neither the file nor its folder.
TEST_F(SqliteTest, AnEmptyLogOfAReaderBlocksNoOtherReader) {
  ASSERT_TRUE(Made());
  OpenOptions reading = Options();
  reading.read_only = true;
  ASSERT_TRUE(Database::Open(reading));
  const std::string log = reading.path + "-wal", below = folder.path() + "/below";
  ASSERT_TRUE(fs::exists(log) && fs::file_size(log) == 0) << "of SQLite's readers";
  ::chmod(folder.path().c_str(), 0755);
  ::chmod(reading.path.c_str(), 0444);
  ::chmod(below.c_str(), 0555);
  pid_t child = ::fork();
  if (child == 0) {
    bool unprivileged = ::geteuid() != 0 || ::setuid(65534) == 0;
    auto database = Database::Open(reading);
    ::_exit(!unprivileged ? 2 : database && *database->Number("SELECT count(*) FROM t") == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::chmod(below.c_str(), 0755);
  EXPECT_EQ(status, 0);
}

TEST_F(SqliteTest, NamesWithMeaningForAUriAreFiles) {
  OpenOptions odd{.path = folder.path() + "/a?mode=ro#b %41 ü.db"};
  ASSERT_TRUE(Database::Open(odd));
  EXPECT_TRUE(fs::exists(odd.path));
}

TEST_F(SqliteTest, SchemasGrowStepByStepAndNewerOnesAreLeftAlone) {
  auto database = Database::Open(Options());
  ASSERT_TRUE(database);
  ASSERT_TRUE(BringUpToDate(*database, {.application_id = 1, .steps = kSteps, .count = 1}));
  EXPECT_EQ(*CheckVersion(*database, kSchema), 1);
  ASSERT_TRUE(database->Run("INSERT INTO t(a) VALUES(7)"));
  ASSERT_TRUE(BringUpToDate(*database, kSchema));
  ASSERT_TRUE(BringUpToDate(*database, kSchema)) << "nothing to do";
  EXPECT_EQ(*database->Number("SELECT a FROM t WHERE d IS NULL"), 7);
  EXPECT_EQ(*database->Number("PRAGMA application_id"), 0x6770756c);
  ASSERT_TRUE(database->Run("PRAGMA user_version=9"));
  Status newer = BringUpToDate(*database, kSchema);
  EXPECT_EQ(newer.code, Code::kUnavailable);
  EXPECT_THAT(newer.detail, HasSubstr("newer"));
}

TEST_F(SqliteTest, AFailedStepLeavesNoTrace) {
  auto database = Database::Open(Options());
  constexpr const char* kBroken[] = {"CREATE TABLE t(a); CREATE TABLE t(b);"};
  EXPECT_FALSE(BringUpToDate(*database, {.application_id = 0, .steps = kBroken, .count = 1}));
  EXPECT_EQ(*database->Number("SELECT count(*) FROM sqlite_master"), 0);
  EXPECT_EQ(*database->Number("PRAGMA user_version"), 0);
}

TEST_F(SqliteTest, SeveralMayMakeTheTablesAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      OpenOptions patient = Options();
      patient.busy_ms = 20'000;
      auto database = Database::Open(patient);
      Status status = database ? BringUpToDate(*database, kSchema) : database.error();
      good += status.ok();
      EXPECT_TRUE(status) << status.detail;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

TEST_F(SqliteTest, AFileExecutesNothingOfItsOwn) {
  const std::string path = folder.path() + "/x.db";
  auto database = Database::Open({.path = path, .triggers = false});
  ASSERT_TRUE(database);
  ASSERT_TRUE(
      database->Run("CREATE TABLE t(a); CREATE VIEW v AS SELECT 1 AS a;"
                    "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;"
                    "INSERT INTO t VALUES(7)"));
  EXPECT_EQ(*database->Number("SELECT count(*) FROM t"), 1) << "the trigger did not run";
  const Status view = database->Run("SELECT a FROM v");
  EXPECT_THAT(view.detail, ::testing::HasSubstr("access to view \"v\" prohibited"));
  EXPECT_TRUE(database->Run("CREATE TEMP VIEW mine AS SELECT a FROM t; SELECT a FROM mine"));
  // The schema is out of reach of statements.
  EXPECT_FALSE(database->Run("PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql='' WHERE name='t'"));
  EXPECT_EQ(*database->Number("PRAGMA cell_size_check"), 1);
  EXPECT_EQ(*database->Number("PRAGMA trusted_schema"), 0);
  EXPECT_EQ(database->Number("SELECT length(zeroblob(67108865))").status().code, Code::kExhausted);
  // Where triggers are ours they run.
  auto trusting = Database::Open({.path = path});
  ASSERT_TRUE(trusting->Run("INSERT INTO t VALUES(8)"));
  EXPECT_EQ(*trusting->Number("SELECT count(*) FROM t"), 0);
}

// With pages that are each other's children a table has more rows than any disk holds.
TEST_F(SqliteTest, AnEndlessTableEndsAtTheBound) {
  const std::string path = folder.path() + "/x.db";
  {
    auto made = Database::Open({.path = path});
    ASSERT_TRUE(made->Run("CREATE TABLE t(a); INSERT INTO t VALUES(7),(8); PRAGMA journal_mode=DELETE"));
  }
  FileBytes file(ReadWhole(path));
  file.MakeEndless(2, 7);
  WriteWhole(path, file.bytes());
  const auto longest = std::chrono::milliseconds(50);
  auto reader = Database::Open({.path = path, .read_only = true, .longest = longest});
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->Number("SELECT sum(a) FROM t").status().code, Code::kTimeout);
  // A writer has so long for each transaction.
  auto writer = Database::Open({.path = path, .longest = longest, .bound_memory = false});
  ASSERT_TRUE(writer);
  for (int i = 0; i < 2; ++i) {
    auto change = Transaction::Begin(*writer);
    ASSERT_TRUE(change) << change.error().detail;
    EXPECT_EQ(writer->Run("UPDATE t SET a=a+1").code, Code::kTimeout);
  }
}

TEST(Sqlite, NamesAreQuoted) { EXPECT_EQ(Quoted("a \"b\""), "\"a \"\"b\"\"\""); }

}  // namespace
}  // namespace gpulens::sqlite
