// One contract, tried on a file, on a PostgreSQL server where one is installed, and on a simulated
// ClickHouse.
#include "store/charges/charge_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <random>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/temp_folder.h"
#include "base/text.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_reader.h"
#include "store/charges/charge_servers.h"
#include "store/charges/charge_sql.h"
#include "store/charges/charge_testing.h"
#include "store/postgres/postgres.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedServer;
using testing::TempFolder;

std::vector<ChargeRecord> Charges(uint64_t first, uint64_t count) {
  std::vector<ChargeRecord> records;
  for (uint64_t i = first; i < first + count; ++i) records.push_back(TestCharge(i));
  return records;
}

std::unique_ptr<ChargeFile> OpenFile(const std::string& path, bool read_only = false) {
  auto file = ChargeFile::Open({.path = path, .read_only = read_only, .durable = false});
  EXPECT_TRUE(file.ok()) << file.status().detail;
  return file ? *std::move(file) : nullptr;
}

// Debian's PostgreSQL with data of its own in a temporary folder, reached through a socket there.
class PostgresServer {
 public:
  static std::string Programs() {
    for (const char* root : {"/usr/lib/postgresql", "build/postgres/usr/lib/postgresql"}) {
      std::error_code error;
      for (const auto& version : std::filesystem::directory_iterator(root, error))
        if (::access((version.path() / "bin/initdb").c_str(), X_OK) == 0)
          return std::filesystem::absolute(version.path() / "bin");
    }
    return {};
  }

  PostgresServer() {
    const passwd* user = ::geteuid() == 0 ? ::getpwnam("nobody") : nullptr;
    if (user != nullptr) {
      user_ = user->pw_uid, group_ = user->pw_gid;
      EXPECT_EQ(::chown(folder_.path().c_str(), user_, group_), 0);
    }
    const std::string data = folder_.path() + "/data";
    Wait(Start({Programs() + "/initdb", "-D", data, "-U", "gpulens", "--auth=trust", "--no-sync", "-E",
                "UTF8", "--locale=C"}));
    server_ = Start({Programs() + "/postgres", "-D", data, "-k", folder_.path(), "-c",
                     "listen_addresses=", "-c", "fsync=off", "-p", "5432"});
    // The socket is there before the server takes connections.
    for (int i = 0; i < 600 && !postgres::Connection::Open(url()).ok(); ++i) ::poll(nullptr, 0, 50);
  }
  ~PostgresServer() {
    ::kill(server_, SIGQUIT);
    Wait(server_);
  }
  std::string url() const { return "postgresql://gpulens@/postgres?host=" + folder_.path() + "&port=5432"; }

 private:
  pid_t Start(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (user_ != 0 && (::setgid(group_) != 0 || ::setuid(user_) != 0)) ::_exit(3);
    if (std::freopen("/dev/null", "w", stdout) == nullptr ||
        std::freopen("/dev/null", "w", stderr) == nullptr)
      ::_exit(4);
    // Where it was unpacked and not installed.
    ::setenv("LD_LIBRARY_PATH", (Programs() + "/../../../../x86_64-linux-gnu").c_str(), 1);
    ::execv(arguments[0], arguments.data());
    ::_exit(5);
  }
  static void Wait(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }

  TempFolder folder_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t server_ = -1;
};

PostgresServer& Postgres() {
  static PostgresServer server;
  return server;
}

// Opens one and the same store again and again.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Result<std::unique_ptr<ChargeStore>> Open() = 0;
  virtual std::string where() const = 0;
};
class FileUnderTest final : public StoreUnderTest {
 public:
  Result<std::unique_ptr<ChargeStore>> Open() override {
    ASSIGN_OR_RETURN(auto file, ChargeFile::Open({.path = where()}));
    return std::unique_ptr<ChargeStore>(std::move(file));
  }
  std::string where() const override { return folder_.path() + "/charges.db"; }

 private:
  TempFolder folder_;
};
class PostgresUnderTest final : public StoreUnderTest {
 public:
  PostgresUnderTest() {
    const auto connection = OpenAgain();
    if (connection) static_cast<void>(*connection);
  }
  Result<std::unique_ptr<ChargeStore>> Open() override { return OpenChargeServer(where()); }
  std::string where() const override { return Postgres().url(); }

 private:
  // The server is one for all tests: begins without tables.
  static Result<int> OpenAgain() {
    ASSIGN_OR_RETURN(const auto connection, postgres::Connection::Open(Postgres().url()));
    RETURN_IF_ERROR(
        connection.Run("DROP TABLE IF EXISTS gpulens_llm_charge, gpulens_llm_attempt, gpulens_llm_schema"));
    return 0;
  }
};

class ChargeStoreContract : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "file") {
      store_ = std::make_unique<FileUnderTest>();
    } else {
      if (PostgresServer::Programs().empty()) GTEST_SKIP() << "no PostgreSQL server is installed";
      store_ = std::make_unique<PostgresUnderTest>();
    }
  }
  std::unique_ptr<ChargeStore> Open() {
    auto opened = store_->Open();
    EXPECT_TRUE(opened.ok()) << opened.status().detail;
    return opened ? *std::move(opened) : nullptr;
  }
  std::unique_ptr<StoreUnderTest> store_;
};
INSTANTIATE_TEST_SUITE_P(Stores, ChargeStoreContract, ::testing::Values("file", "postgres"),
                         [](const auto& of) { return std::string(of.param); });

std::vector<ChargeRecord> ListAll(ChargeStore& store, size_t page) {
  std::vector<ChargeRecord> all;
  ChargePlace place;
  for (;;) {
    auto some = store.List(place, page);
    EXPECT_TRUE(some.ok()) << some.status().detail;
    if (!some || some->empty()) return all;
    for (ChargeRecord& record : *some) all.push_back(std::move(record));
    place = {all.back().settled_unix_ns, all.back().id};
  }
}

TEST_P(ChargeStoreContract, EveryMemberComesBack) {
  auto store = Open();
  ASSERT_TRUE(store);
  std::vector<ChargeRecord> records = Charges(0, 30);
  records[3].model_requested = "quo'te \"d\\' ü \n\t";
  records[4].charged_pico = INT64_MAX;
  records[5].list_pico = -7;
  records[6].outcome = ChargeOutcome::kUnsettled;
  records[6].counted_by = CountedBy::kRecovered;
  records[7].budgets.clear();
  records[8].usage.inconsistent = true;
  for (ChargeRecord& record : records) Clean(record);
  const auto counts = store->Write(records);
  ASSERT_TRUE(counts.ok()) << counts.status().detail;
  EXPECT_EQ(counts->stored, 30u);
  store.reset();
  store = Open();
  ASSERT_TRUE(store);
  EXPECT_EQ(ListAll(*store, 7), records);
}

TEST_P(ChargeStoreContract, TheFirstRowOfAnIdStays) {
  const auto store = Open();
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->Write(Charges(0, 10)).ok());
  std::vector<ChargeRecord> again = Charges(5, 10);
  again[0].charged_pico = 1;
  const auto counts = store->Write(again);
  ASSERT_TRUE(counts.ok()) << counts.status().detail;
  EXPECT_EQ(counts->stored, 5u);
  EXPECT_EQ(counts->known, 5u);
  EXPECT_EQ(ListAll(*store, 1000), Charges(0, 15));
}

TEST_P(ChargeStoreContract, SumsOfEachDimensionAreThoseOfTheRecords) {
  const auto store = Open();
  ASSERT_TRUE(store);
  std::vector<ChargeRecord> records = Charges(0, 200);
  records[9].outcome = ChargeOutcome::kUnsettled;
  records[10].list_pico = records[11].list_pico = INT64_MAX;  // beyond int64_t together
  records[12].settled_unix_ns += 86'400'000'000'000;
  ASSERT_TRUE(store->Write(records).ok());
  const auto key_of = [](const ChargeRecord& record, ChargeDimension by) -> std::string {
    switch (by) {
      case ChargeDimension::kTenant: return record.tenant;
      case ChargeDimension::kKey: return record.key;
      case ChargeDimension::kProvider: return record.provider;
      case ChargeDimension::kModel:
        return record.model_answered.empty() ? record.model_requested : record.model_answered;
      case ChargeDimension::kTier: return record.tier;
      case ChargeDimension::kProfile: return record.profile;
      case ChargeDimension::kRegion: return record.region;
      case ChargeDimension::kOperation: return record.operation;
      case ChargeDimension::kOutcome: return std::string(Name(record.outcome));
      case ChargeDimension::kCountedBy: return std::string(Name(record.counted_by));
      case ChargeDimension::kCurrency: return record.currency;
      case ChargeDimension::kBudgets: return BudgetsText(record.budgets);
      case ChargeDimension::kDay:
        return record.settled_unix_ns > kTestDispatchNs + 86'000'000'000'000 ? "2026-11-27" : "2026-11-26";
    }
    return {};
  };
  for (size_t i = 0; i < kChargeDimensions; ++i) {
    const auto by = static_cast<ChargeDimension>(i);
    std::map<std::string, ChargeSums> expected;
    for (const ChargeRecord& record : records) {
      ChargeSums& sums = expected[key_of(record, by)];
      ++sums.requests;
      sums.list_pico += record.list_pico;
      sums.charged_pico += record.charged_pico;
      if (record.outcome == ChargeOutcome::kUnsettled) sums.reserved_unsettled_pico += record.reserved_pico;
      for (size_t c = 0; c < kLlmClasses; ++c) sums.units[c] += record.usage.units[c];
    }
    const auto rows = store->Sum({.by = {by}});
    ASSERT_TRUE(rows.ok()) << rows.status().detail;
    ASSERT_EQ(rows->size(), expected.size()) << Name(by);
    for (const ChargeSumRow& row : *rows)
      EXPECT_EQ(row.sums, expected[row.key[0]]) << Name(by) << " " << row.key[0];
    // A filter finds one of them.
    const auto one = store->Sum({.where = {{by, rows->back().key[0]}}});
    ASSERT_TRUE(one.ok()) << one.status().detail;
    ASSERT_EQ(one->size(), 1u);
    EXPECT_EQ(one->front().sums, rows->back().sums) << Name(by);
  }
  const auto both = store->Sum({.by = {ChargeDimension::kTenant, ChargeDimension::kProvider}});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->size(), 6u);
  const auto none = store->Sum({.since_unix_ns = 1, .until_unix_ns = 2});
  ASSERT_TRUE(none.ok()) << none.status().detail;
  ASSERT_EQ(none->size(), 1u);
  EXPECT_EQ(none->front().sums, ChargeSums());
  EXPECT_EQ(store->Sum({.where = {{ChargeDimension::kDay, "yesterday"}}}).status().code,
            Code::kInvalidArgument);
}

TEST_P(ChargeStoreContract, SpentOfEachBudgetIsOfItsWindow) {
  const auto store = Open();
  ASSERT_TRUE(store);
  const std::vector<ChargeRecord> records = Charges(0, 300);
  ASSERT_TRUE(store->Write(records).ok());
  const std::vector<SpentWindow> windows = {{"team-0", 0},
                                            {"team-1", records[100].settled_unix_ns},
                                            {"key-3", records[100].settled_unix_ns},
                                            {"key-3", records[100].settled_unix_ns + 1},
                                            {"team", 0},
                                            {"of none", 0}};
  const auto spent = store->Spent(windows);
  ASSERT_TRUE(spent.ok()) << spent.status().detail;
  ASSERT_EQ(spent->size(), windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    __int128 expected = 0;
    for (const ChargeRecord& record : records)
      if (record.settled_unix_ns >= windows[i].since_unix_ns &&
          std::ranges::find(record.budgets, windows[i].budget) != record.budgets.end())
        expected += record.charged_pico;
    EXPECT_TRUE((*spent)[i] == expected) << windows[i].budget;
  }
  EXPECT_TRUE((*spent)[0] > 0);
  EXPECT_TRUE((*spent)[4] == 0) << "a part of a name";
}

TEST_P(ChargeStoreContract, FindsTheChargeOfAnIdempotencyKey) {
  const auto store = Open();
  ASSERT_TRUE(store);
  const std::vector<ChargeRecord> records = Charges(0, 20);
  ASSERT_TRUE(store->Write(records).ok());
  const ChargeRecord& wanted = records[6];
  auto found = store->FindIdempotent(wanted.key, *wanted.idempotency, wanted.settled_unix_ns);
  ASSERT_TRUE(found.ok()) << found.status().detail;
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->id, wanted.id);
  EXPECT_EQ((*found)->status, 200);
  EXPECT_EQ((*found)->hash, *wanted.idempotency);
  EXPECT_FALSE(store->FindIdempotent("other", *wanted.idempotency, 0)->has_value());
  EXPECT_FALSE(
      store->FindIdempotent(wanted.key, *wanted.idempotency, wanted.settled_unix_ns + 1)->has_value());
  const auto all = store->ListIdempotent(records[2].settled_unix_ns);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 3u);  // 6, 11, 16
}

TEST_P(ChargeStoreContract, AReaderGetsTheRecordsOfItsTimeAndFilters) {
  EXPECT_EQ(OpenCharges(store_->where()).status().code, Code::kUnavailable) << "nothing was written yet";
  const auto writer = Open();
  ASSERT_TRUE(writer);
  std::vector<ChargeRecord> records = Charges(0, 2500);
  // More of one time than a page has.
  for (size_t i = 500; i < 1700; ++i) records[i].settled_unix_ns = records[500].settled_unix_ns;
  for (size_t i = 0; i < records.size(); i += 1000)
    ASSERT_TRUE(
        writer->Write(std::span(records).subspan(i, std::min<size_t>(1000, records.size() - i))).ok());
  const auto reader = OpenCharges(store_->where());
  ASSERT_TRUE(reader.ok()) << reader.status().detail;
  const auto read = [&](const ChargeQuery& query) {
    std::vector<ChargeRecord> found;
    const Status status = ForEachCharge(**reader, query, [&](const ChargeRecord& record) {
      found.push_back(record);
      return Ok();
    });
    EXPECT_TRUE(status.ok()) << status.detail;
    return found;
  };
  EXPECT_EQ(read({}), records);
  const ChargeQuery query = {.since_unix_ns = records[100].settled_unix_ns,
                             .until_unix_ns = records[2000].settled_unix_ns,
                             .where = {{ChargeDimension::kTenant, "tenant-1"},
                                       {ChargeDimension::kProvider, "openai"},
                                       {ChargeDimension::kKey, "key-2"}}};
  std::vector<ChargeRecord> expected;
  for (size_t i = 100; i < 2000; ++i)
    if (records[i].tenant == "tenant-1" && records[i].provider == "openai" && records[i].key == "key-2")
      expected.push_back(records[i]);
  EXPECT_EQ(read(query), expected);
  EXPECT_GT(expected.size(), 10u);
  const Status ended =
      ForEachCharge(**reader, {}, [](const ChargeRecord&) { return Status{Code::kExhausted, "enough"}; });
  EXPECT_EQ(ended.code, Code::kExhausted);
}

TEST(ChargeRecordTest, IdsAreTextsAndSortByTime) {
  const RequestId id = MakeRequestId(1'795'651'200'123, 0xabc, 0x1122334455667788);
  const std::string text = RequestIdText(id);
  EXPECT_EQ(text.size(), 36u);
  EXPECT_EQ(text[14], '7');
  EXPECT_THAT("89ab", HasSubstr(std::string(1, text[19])));
  EXPECT_EQ(UnixMsOf(id), 1'795'651'200'123);
  RequestId back{};
  EXPECT_TRUE(ParseRequestId(text, back));
  EXPECT_EQ(back, id);
  EXPECT_LT(id, MakeRequestId(1'795'651'200'124, 0, 0));
  for (const char* bad :
       {"", "0192e4a0", "0192e4a0-0000-7000-8000-00000000000g", "0192e4a00000-7000-8000-000000000000-"})
    EXPECT_FALSE(ParseRequestId(bad, back)) << bad;
}

TEST(ChargeRecordTest, CleanBoundsWhatComesFromOutside) {
  ChargeRecord record = TestCharge(1);
  record.model_requested = std::string(255, 'a') + "ü";
  record.model_answered = std::string("a\0b\nc\xff", 6);
  record.budgets.assign(40, "b\nc");
  record.attempts.resize(40);
  record.attempts.back().provider = "last";
  record.usage[LlmClass::kInput] = INT64_MIN;
  record.usage[LlmClass::kOutput] = INT64_MAX;
  Clean(record);
  EXPECT_EQ(record.model_requested, std::string(255, 'a'));
  EXPECT_EQ(record.model_answered, "a b c\xef\xbf\xbd");
  EXPECT_EQ(record.budgets, std::vector<std::string>(kMostBudgets, "b c"));
  EXPECT_EQ(record.attempts.size(), kMostAttempts);
  EXPECT_EQ(record.attempts.back().provider, "last");
  EXPECT_EQ(record.usage[LlmClass::kInput], 0);
  EXPECT_EQ(record.usage[LlmClass::kOutput], kMostChargeUnits);
}

TEST(ChargeFileTest, IsReadWhileItIsWrittenAndHasOneWriter) {
  const TempFolder folder;
  const std::string path = folder.path() + "/state/charges.db";
  EXPECT_EQ(ChargeFile::Open({.path = path, .read_only = true}).status().code, Code::kUnavailable);
  const auto writer = OpenFile(path);
  ASSERT_TRUE(writer);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(ChargeFile::Open({.path = path}).status().code, Code::kUnavailable);
  const auto reader = OpenFile(path, true);
  ASSERT_TRUE(reader);
  ASSERT_TRUE(writer->Write(Charges(0, 5)).ok());
  EXPECT_EQ(ListAll(*reader, 100).size(), 5u);
}

TEST(ChargeFileTest, AForeignOrDamagedFileIsLeftAsItIs) {
  const TempFolder folder;
  const std::string text(5000, 'x');
  const std::string path = folder.Write("charges.db", text);
  EXPECT_EQ(ChargeFile::Open({.path = path}).status().code, Code::kDataLoss);
  EXPECT_EQ(*ReadFile(path), text);
  const std::string other = folder.path() + "/other.db";
  {
    auto database = sqlite::Database::Open({.path = other});
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Run("CREATE TABLE mine(a)").ok());
  }
  EXPECT_EQ(ChargeFile::Open({.path = other}).status().code, Code::kDataLoss);
}

TEST(ChargeFileTest, AFileOfANewerProgramIsRefused) {
  const TempFolder folder;
  const std::string path = folder.path() + "/charges.db";
  OpenFile(path);
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Run("PRAGMA user_version=99").ok());
  }
  EXPECT_EQ(ChargeFile::Open({.path = path}).status().code, Code::kUnavailable);
  EXPECT_EQ(ChargeFile::Open({.path = path, .read_only = true}).status().code, Code::kUnavailable);
}

// The columns are written out in the schema: they are those of the record.
TEST(ChargeFileTest, TheTableHasTheColumnsOfTheRecord) {
  const TempFolder folder;
  OpenFile(folder.path() + "/charges.db");
  auto database = sqlite::Database::Open({.path = folder.path() + "/charges.db", .read_only = true});
  ASSERT_TRUE(database.ok());
  auto names = database->Prepare("SELECT group_concat(name,',') FROM pragma_table_info('llm_charge')");
  ASSERT_TRUE(names.ok()) << names.status().detail;
  ASSERT_TRUE(*names->Step());
  EXPECT_EQ(names->Text(0), charge_sql::ColumnList());
}

TEST(ChargeFileTest, RetentionDeletesTheOldestAnHourAtATime) {
  const TempFolder folder;
  ManualClock clock({1, kTestDispatchNs + 10 * 3'600'000'000'000});
  auto file = ChargeFile::Open(
      {.path = folder.path() + "/charges.db", .retention = std::chrono::hours(5), .clock = &clock});
  ASSERT_TRUE(file.ok());
  std::vector<ChargeRecord> records = Charges(0, 10);
  for (size_t i = 0; i < records.size(); ++i)
    records[i].settled_unix_ns = kTestDispatchNs + static_cast<int64_t>(i) * 3'600'000'000'000;
  ASSERT_TRUE((*file)->Write(records).ok());
  EXPECT_EQ(ListAll(**file, 100).size(), 9u);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((*file)->Write({}).ok());
  EXPECT_EQ(ListAll(**file, 100).size(), 5u);
}

// A child writes batches until it is killed: each is there as a whole or not at all.
TEST(ChargeFileTest, KilledAtAnyMomentABatchIsWholeOrAbsent) {
  const TempFolder folder;
  const std::string path = folder.path() + "/charges.db";
  std::mt19937 random(7);
  uint64_t next = 0;
  // On a busy machine a child may be killed ten times before its first row.
  for (int round = 0; round < 10 || (next == 0 && round < 200); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto file = ChargeFile::Open({.path = path, .durable = false});
      if (!file) ::_exit(1);
      for (uint64_t at = next;; at += 50)
        if (!(*file)->Write(Charges(at, 50))) ::_exit(2);
    }
    ::poll(nullptr, 0, 20 + static_cast<int>(random() % 30));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto reader = OpenFile(path);
    ASSERT_TRUE(reader);
    const auto sum = reader->Sum({});
    ASSERT_TRUE(sum.ok()) << sum.status().detail;
    const auto rows = static_cast<uint64_t>(sum->front().sums.requests);
    EXPECT_EQ(rows % 50, 0u);
    EXPECT_GE(rows, next);
    next = rows;
  }
  EXPECT_GT(next, 0u);
  EXPECT_EQ(ListAll(*OpenFile(path), 1000), Charges(0, next));
}

// What is sent to ClickHouse, and answers that fail.
class FakeClickHouse {
 public:
  FakeClickHouse()
      : server_([this](int, int, const std::string& request) { return Answer(request); }),
        url_("clickhouse://u:hush-hush@" + server_.endpoint().ToString() + "/d") {}

  struct Sent {
    std::string line, body;
  };
  std::vector<Sent> inserts() const {
    std::lock_guard lock(mutex_);
    return inserts_;
  }
  std::vector<std::string> statements() const {
    std::lock_guard lock(mutex_);
    return statements_;
  }
  void Selects(std::string answer) {
    std::lock_guard lock(mutex_);
    selected_ = std::move(answer);
  }
  void HasTables(bool there) {
    std::lock_guard lock(mutex_);
    there_ = there;
  }
  void FailInserts(int count) {
    std::lock_guard lock(mutex_);
    failing_ = count;
  }
  const std::string& url() const noexcept { return url_; }

 private:
  ScriptedServer::Turn Answer(const std::string& request) {
    std::lock_guard lock(mutex_);
    const std::string body = request.substr(request.find("\r\n\r\n") + 4),
                      line = PercentDecoded(request.substr(0, request.find(" HTTP/")));
    if (line.find("query=INSERT") != std::string::npos) {
      inserts_.push_back({line, body});
      if (failing_ > 0 && failing_-- > 0) return {.close = true};
      return {testing::Answer200("")};
    }
    statements_.push_back(body);
    if (body.starts_with("EXISTS")) return {testing::Answer200(there_ ? "1\n" : "0\n")};
    return {testing::Answer200(body.starts_with("SELECT") ? selected_ : "")};
  }

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Sent> inserts_;
  std::vector<std::string> statements_;
  std::string selected_;
  int failing_ = 0;
  bool there_ = true;
  ScriptedServer server_;
  const std::string url_;
};

TEST(ClickChargesTest, SendsAttemptsThenChargesWithATokenOfTheContent) {
  FakeClickHouse fake;
  auto store = OpenChargeServer(fake.url());
  ASSERT_TRUE(store.ok()) << store.status().detail;
  std::vector<ChargeRecord> records = Charges(0, 4);
  records[1].outcome = ChargeOutcome::kUnsettled;
  ASSERT_TRUE((*store)->Write(records).ok());
  ASSERT_TRUE((*store)->Write(records).ok());
  const auto sent = fake.inserts();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_THAT(sent[0].line, HasSubstr("gpulens_llm_attempt"));
  EXPECT_THAT(sent[1].line, HasSubstr("INTO gpulens_llm_charge"));
  EXPECT_EQ(sent[1].line, sent[3].line) << "the same token";
  EXPECT_EQ(sent[1].body, sent[3].body);
  EXPECT_EQ(std::ranges::count(sent[1].body, '\n'), 3);
  EXPECT_THAT(sent[1].body, HasSubstr("\"certainty\":0"));
  EXPECT_THAT(sent[1].body, HasSubstr("\"request_id\":\"" + RequestIdText(records[0].id)));
  EXPECT_THAT(fake.statements()[0], HasSubstr("ReplacingMergeTree(certainty) ORDER BY request_id"));
  EXPECT_THAT(fake.statements().back(), HasSubstr("ADD COLUMN IF NOT EXISTS"));
}

TEST(ClickChargesTest, AFailureIsAnErrorThatPasses) {
  FakeClickHouse fake;
  auto store = OpenChargeServer(fake.url());
  ASSERT_TRUE(store.ok());
  fake.FailInserts(1);
  const auto failed = (*store)->Write(Charges(1, 1));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().code, Code::kInvalidArgument);
  EXPECT_TRUE((*store)->Write(Charges(1, 1)).ok());
}

TEST(ClickChargesTest, AReaderChangesNothingAndSendsItsFilters) {
  FakeClickHouse fake;
  fake.HasTables(false);
  EXPECT_EQ(OpenCharges(fake.url()).status().code, Code::kUnavailable);
  fake.HasTables(true);
  auto store = OpenCharges(fake.url());
  ASSERT_TRUE(store.ok()) << store.status().detail;
  fake.Selects("request_id\n");
  const Status read =
      ForEachCharge(**store,
                    {.since_unix_ns = 5,
                     .until_unix_ns = 9,
                     .where = {{ChargeDimension::kProvider, "it's"}, {ChargeDimension::kDay, "1970-01-02"}}},
                    [](const ChargeRecord&) { return Ok(); });
  EXPECT_TRUE(read.ok()) << read.detail;
  const std::string sql = fake.statements().back();
  EXPECT_THAT(sql,
              HasSubstr(" FINAL WHERE settled_unix_ns>=5 AND settled_unix_ns<9 AND provider='it\\'s' AND "
                        "intDiv(settled_unix_ns,86400000000000)=1 AND settled_unix_ns>=5 AND ("));
  for (const std::string& statement : fake.statements())
    EXPECT_TRUE(statement.starts_with("SELECT") || statement.starts_with("EXISTS")) << statement;
}

TEST(ClickChargesTest, ReadsSumsWithoutRowsThatWereWrittenTwice) {
  FakeClickHouse fake;
  auto store = OpenChargeServer(fake.url());
  ASSERT_TRUE(store.ok());
  std::string names = "tenant\tday\tn\ta\tb\tc\td\te\tf", row = "t\t20783\t3\t5\t7\t4\t6\t0\t0";
  for (size_t i = 0; i < kLlmClasses; ++i)
    names += "\tu" + std::to_string(i), row += "\t" + std::to_string(i);
  fake.Selects(names + "\n" + row + "\n");
  const auto rows = (*store)->Sum(
      {.by = {ChargeDimension::kTenant, ChargeDimension::kDay}, .where = {{ChargeDimension::kKey, "it's"}}});
  ASSERT_TRUE(rows.ok()) << rows.status().detail;
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_THAT(rows->front().key, ElementsAre("t", "2026-11-26"));
  EXPECT_EQ(rows->front().sums.requests, 3);
  EXPECT_TRUE(rows->front().sums.list_pico == 5'000'007);
  EXPECT_TRUE(rows->front().sums.charged_pico == 4'000'006);
  EXPECT_EQ(rows->front().sums.units[20], 20);
  const std::string sql = fake.statements().back();
  EXPECT_THAT(sql, HasSubstr(" FINAL"));
  EXPECT_THAT(sql, HasSubstr("intDiv(list_pico,1000000)"));
  EXPECT_THAT(sql, HasSubstr("key_id='it\\'s'"));
  fake.Selects("budgets\ta\tb\nx\\ny\t2\t3\n");
  const std::vector<SpentWindow> windows = {{"y", 5}};
  const auto spent = (*store)->Spent(windows);
  ASSERT_TRUE(spent.ok()) << spent.status().detail;
  EXPECT_TRUE(spent->front() == 2'000'003);
}

}  // namespace
}  // namespace gpulens
