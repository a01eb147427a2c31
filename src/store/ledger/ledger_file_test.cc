#include "store/ledger/ledger_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temp_folder.h"
#include "store/ledger/ledger_testing.h"

namespace gpulens::ledger {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

constexpr int64_t kSecondNs = 1'000'000'000;

Instant At(int64_t unix_seconds) { return {.boot_ns = kSecondNs, .unix_ns = unix_seconds * kSecondNs}; }

Entry MakeEntry(int64_t unix_seconds, const Account& account, int64_t energy_uj, int64_t time_ms = 10'000) {
  Entry entry;
  entry.window_unix_ms = unix_seconds * 1000;
  entry.account = account;
  entry.amounts.energy_uj = energy_uj;
  entry.amounts.time_ms = time_ms;
  return entry;
}

LedgerState StateOf(int64_t energy_uj) {
  LedgerState state;
  state.boot_id = "boot";
  state.gpus.resize(1);
  state.gpus[0].gpu = "GPU-0";
  state.gpus[0].energy_uj = energy_uj;
  return state;
}

struct LedgerFileTest : ::testing::Test {
  std::unique_ptr<LedgerFile> Opened(LedgerFile::Options options) {
    if (options.path.empty()) options.path = path;
    auto file = LedgerFile::Open(std::move(options));
    EXPECT_TRUE(file) << file.error().detail;
    return file ? *std::move(file) : nullptr;
  }
  std::unique_ptr<LedgerFile> Writer() { return Opened({.path = path}); }
  std::unique_ptr<LedgerFile> Reader() { return Opened({.path = path, .read_only = true}); }
  Totals Total(LedgerFile& file, const SumQuery& query = {}) {
    const auto rows = file.Sum(query);
    EXPECT_TRUE(rows) << rows.error().detail;
    Totals sum;
    if (rows) {
      for (const SumRow& row : *rows) sum += row.sums;
    }
    return sum;
  }
  testing::TempFolder folder;
  const std::string path = folder.path() + "/below/ledger.db";
};

TEST_F(LedgerFileTest, EntriesOfAnHourAddUpAndTheStateIsTheLast) {
  const Account idle = TestAccount(0, 0), busy = TestAccount(0, 3);
  std::string id;
  {
    auto file = Writer();
    ASSERT_TRUE(file);
    EXPECT_EQ(file->id().size(), 32u);
    id = file->id();
    EXPECT_FALSE(file->ReadState()->has_value());
    ASSERT_TRUE(file->Write(std::vector{MakeEntry(kTestHour, idle, 5), MakeEntry(kTestHour, busy, 7)},
                            StateOf(12), At(kTestHour + 10)));
    ASSERT_TRUE(
        file->Write(std::vector{MakeEntry(kTestHour + 10, idle, 50), MakeEntry(kTestHour + 3600, busy, 70),
                                MakeEntry(kTestHour, busy, 0, 0)},
                    StateOf(132), At(kTestHour + 3610)));
  }
  auto file = Reader();
  ASSERT_TRUE(file);
  EXPECT_EQ(file->id(), id);
  EXPECT_EQ((*file->ReadState())->gpus.at(0).energy_uj, 132);
  EXPECT_EQ(*file->WrittenUnixNs(), (kTestHour + 3610) * kSecondNs);
  std::vector<std::pair<int64_t, int64_t>> rows;
  ASSERT_TRUE(file->ForEach(INT64_MIN, INT64_MAX, [&](const HourEntry& entry) {
    EXPECT_TRUE(*entry.account == idle || *entry.account == busy);
    EXPECT_EQ(entry.for_hour_unix, 0);
    rows.emplace_back(entry.hour_unix - kTestHour, entry.amounts.energy_uj);
    return Ok();
  }));
  EXPECT_THAT(rows, ElementsAre(std::pair(0, 55), std::pair(0, 7), std::pair(3600, 70)));
  const auto hours = file->Hours(INT64_MIN, INT64_MAX);
  ASSERT_TRUE(hours);
  ASSERT_EQ(hours->size(), 2u);
  EXPECT_EQ(hours->at(0).revision, 2);
  EXPECT_EQ(hours->at(1).revision, 1);
}

TEST_F(LedgerFileTest, EveryWayToGroupHasTheSameTotal) {
  const std::vector<Entry> entries = TestEntries({.gpus = 2, .accounts = 25, .hours = 30});
  auto file = Writer();
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write(entries, StateOf(0), At(kTestHour)));
  Totals total;
  for (const Entry& entry : entries) total += entry.amounts;
  EXPECT_EQ(Total(*file), total);
  for (size_t first = 0; first < kDimensions; ++first) {
    const auto one = static_cast<Dimension>(first);
    EXPECT_EQ(Total(*file, {.by = {one}}), total) << Name(one);
    for (Dimension two : {Dimension::kDay, Dimension::kTenant}) {
      EXPECT_EQ(Total(*file, {.by = {one, two}}), total) << Name(one) << Name(two);
    }
    // Each key as a filter gives the row of that key.
    const auto rows = file->Sum({.by = {one}});
    ASSERT_TRUE(rows);
    for (const SumRow& row : *rows)
      EXPECT_EQ(Total(*file, {.where = {{one, row.key[0]}}}), row.sums) << Name(one) << row.key[0];
  }
}

TEST_F(LedgerFileTest, SumsKeepToTheirHours) {
  auto file = Writer();
  ASSERT_TRUE(file);
  const Account account = TestAccount(0, 2);
  ASSERT_TRUE(file->Write(
      std::vector{MakeEntry(kTestHour - 1, account, 1), MakeEntry(kTestHour, account, 10),
                  MakeEntry(kTestHour + 86'399, account, 100), MakeEntry(kTestHour + 86'400, account, 1000)},
      StateOf(0), At(kTestHour)));
  EXPECT_EQ(Total(*file, {.since_unix = kTestHour, .until_unix = kTestHour + 86'400}).energy_uj, 110);
  const auto days = file->Sum({.by = {Dimension::kDay, Dimension::kPod}});
  ASSERT_TRUE(days);
  ASSERT_EQ(days->size(), 3u);
  EXPECT_THAT(days->at(1).key, ElementsAre("2026-11-26", "pod-0-2"));
  EXPECT_EQ(days->at(1).sums.energy_uj, 110);
  EXPECT_EQ(Total(*file, {.where = {{Dimension::kHour, "2026-11-26T23:00:00Z"}}}).energy_uj, 100);
  EXPECT_TRUE(file->Sum({.since_unix = 0, .until_unix = 1})->empty());
  EXPECT_EQ(Total(*file, {.since_unix = kTestHour + 3600, .until_unix = kTestHour + 86'400}).energy_uj, 100);
  EXPECT_EQ(Total(*file, {.since_unix = kTestHour - 3600, .until_unix = kTestHour + 90'000}).energy_uj, 1111);
}

TEST_F(LedgerFileTest, AnAdjustmentOfAnEarlierHourHasItsOwnRow) {
  auto file = Writer();
  ASSERT_TRUE(file);
  const Account one = TestAccount(0, 2), two = TestAccount(0, 3);
  Entry less = MakeEntry(kTestHour + 3600, one, -3, 0), more = MakeEntry(kTestHour + 3600, two, 3, 0);
  less.for_window_unix_ms = more.for_window_unix_ms = (kTestHour + 3590) * 1000;
  Entry same_hour = MakeEntry(kTestHour + 3620, one, 1, 0);
  same_hour.for_window_unix_ms = (kTestHour + 3610) * 1000;
  ASSERT_TRUE(file->Write(std::vector{MakeEntry(kTestHour + 3600, one, 100), less, more, same_hour},
                          StateOf(0), At(kTestHour)));
  std::vector<std::pair<int64_t, int64_t>> rows;
  ASSERT_TRUE(file->ForEach(kTestHour, kTestHour + 7200, [&](const HourEntry& entry) {
    rows.emplace_back(entry.for_hour_unix, entry.amounts.energy_uj);
    return Ok();
  }));
  EXPECT_THAT(rows,
              UnorderedElementsAre(std::pair(0, 101), std::pair(kTestHour, -3), std::pair(kTestHour, 3)));
}

// Each Write adds to the sum what its state holds: after a kill both must agree.
void WriteUntilKilled(const std::string& path, int report) {
  auto file = LedgerFile::Open({.path = path});
  if (!file) ::_exit(3);
  auto state = (*file)->ReadState();
  if (!state) ::_exit(4);
  int64_t sum = *state ? (*state)->gpus.at(0).energy_uj.value_or(0) : 0;
  for (int64_t i = 0;; ++i) {
    std::vector<Entry> entries;
    for (int account = 0; account < 20; ++account) {
      entries.push_back(MakeEntry(kTestHour + i * 10, TestAccount(account % 2, account), account + 1));
      sum += account + 1;
    }
    if (!(*file)->Write(entries, StateOf(sum), At(kTestHour + i * 10))) ::_exit(5);
    if (::write(report, &sum, sizeof sum) != sizeof sum) ::_exit(6);
  }
}

TEST_F(LedgerFileTest, AKillBetweenOrWithinWritesLosesNothingThatWasWritten) {
  uint64_t chance = 12345;
  int64_t last = 0;
  for (int round = 0; round < 25; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      WriteUntilKilled(path, ends[1]);
    }
    ::close(ends[1]);
    int64_t reported = 0, next = 0;
    // Past the first Write, then at a random moment.
    if (::read(ends[0], &next, sizeof next) == sizeof next) reported = next;
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    ::poll(nullptr, 0, static_cast<int>((chance >> 33) % 20));
    ::kill(child, SIGKILL);
    while (::read(ends[0], &next, sizeof next) == sizeof next) reported = next;
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    auto file = round % 2 == 0 ? Writer() : Reader();
    ASSERT_TRUE(file);
    const auto state = file->ReadState();
    ASSERT_TRUE(state && *state) << state.error().detail;
    const int64_t sum = (*state)->gpus.at(0).energy_uj.value_or(-1);
    EXPECT_TRUE(Total(*file).energy_uj == sum) << round;
    EXPECT_EQ(Total(*file), Total(*file, {.by = {Dimension::kHour}})) << "days are the sums of hours";
    EXPECT_GE(sum, reported) << "what Write returned for is there";
    EXPECT_LE(sum, reported + 210) << "at most the Write that was not reported yet";
    EXPECT_GT(sum, last);
    last = sum;
    auto database = sqlite::Database::Open({.path = path, .read_only = true});
    ASSERT_TRUE(database);
    EXPECT_EQ(*database->Number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
  }
  EXPECT_FALSE(fs::exists(path + ".broken"));
}

TEST_F(LedgerFileTest, WholeOldDaysAreDeletedAFewAtATime) {
  std::vector<Entry> entries = TestEntries({.gpus = 1, .accounts = 3, .hours = 5 * 24});
  entries.push_back(MakeEntry(kTestHour, TestAccount(0, 7), 1));
  auto file = Opened({.path = path, .retention = std::chrono::hours(24)});
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write(entries, StateOf(1), At(kTestHour)));
  const auto hours = [&] { return file->Hours(0, INT64_MAX)->size(); };
  const auto sums_agree = [&] {
    return Total(*file) == Total(*file, {.by = {Dimension::kHour}});  // of ledger_day, and of ledger_entry
  };
  EXPECT_EQ(hours(), 120u);
  const int64_t now = kTestHour + 5 * 86'400 + 1800;
  ASSERT_TRUE(file->Write({}, StateOf(2), At(now)));
  EXPECT_EQ(hours(), 72u) << "two days in one Write";
  EXPECT_TRUE(sums_agree());
  ASSERT_TRUE(file->Write({}, StateOf(3), At(now + 1800)));
  EXPECT_EQ(hours(), 72u) << "and once an hour";
  ASSERT_TRUE(file->Write({}, StateOf(4), At(now + 3600)));
  EXPECT_EQ(hours(), 24u);
  EXPECT_TRUE(sums_agree());
  ASSERT_TRUE(file->Write({}, StateOf(5), At(now + 7200)));
  EXPECT_EQ(hours(), 24u) << "the last one ended less than a day ago";
  EXPECT_EQ((*file->ReadState())->gpus.at(0).energy_uj, 5);
  auto database = sqlite::Database::Open({.path = path, .read_only = true});
  ASSERT_TRUE(database);
  EXPECT_EQ(*database->Number("SELECT count(*) FROM ledger_account"), 3) << "no account without entries";
}

TEST_F(LedgerFileTest, AnAccountThatComesBackAfterItsDeletionIsANewOne) {
  auto file = Opened({.path = path, .retention = std::chrono::hours(1)});
  ASSERT_TRUE(file);
  const Account account = TestAccount(0, 2);
  for (int64_t hour = 0; hour < 400; hour += 100) {
    ASSERT_TRUE(file->Write(std::vector{MakeEntry(kTestHour + hour * 3600, account, 1)}, StateOf(0),
                            At(kTestHour + hour * 3600)));
    EXPECT_TRUE(Total(*file).energy_uj == 1) << hour;
  }
}

TEST_F(LedgerFileTest, AFileOfANewerProgramIsRefusedAndLeftAlone) {
  ASSERT_TRUE(
      Writer()->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 0), 5)}, StateOf(5), At(kTestHour)));
  {
    auto database = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->Run("PRAGMA user_version=99"));
  }
  for (bool read_only : {false, true}) {
    const auto file = LedgerFile::Open({.path = path, .read_only = read_only});
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Code::kUnavailable);
    EXPECT_THAT(file.error().detail, HasSubstr("newer gpulens"));
  }
  EXPECT_FALSE(fs::exists(path + ".broken"));
}

TEST_F(LedgerFileTest, WhatIsNoLedgerIsSetAsideWhole) {
  fs::create_directories(folder.path() + "/below");
  const std::string text(5000, 'x');
  for (const std::string& aside : {path + ".broken", path + ".broken.2"}) {
    std::ofstream(path) << text;
    const auto read = LedgerFile::Open({.path = path, .read_only = true});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kDataLoss);
    EXPECT_TRUE(Writer()) << "a new ledger begins";
    EXPECT_EQ(ReadFile(aside).value_or(""), text);
    fs::remove(path);
  }
  {
    auto other = sqlite::Database::Open({.path = path});
    ASSERT_TRUE(other);
    ASSERT_TRUE(other->Run("CREATE TABLE incidents(a); PRAGMA user_version=7"));
  }
  const auto read = LedgerFile::Open({.path = path, .read_only = true});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().detail, HasSubstr("not a ledger"));
  EXPECT_TRUE(Writer());
  auto kept = sqlite::Database::Open({.path = path + ".broken.3", .read_only = true});
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept->Number("SELECT count(*) FROM incidents"), 0);
}

TEST_F(LedgerFileTest, DamageFoundWhileWritingBeginsANewFile) {
  std::string id;
  {
    auto file = Writer();
    ASSERT_TRUE(file->Write(TestEntries({.hours = 20}), StateOf(1), At(kTestHour)));
    id = file->id();
  }
  {
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    for (std::streamoff at = 10 * 4096; at < size; at += 4096) {
      bytes.seekp(at);
      bytes.write("garbage garbage garbage", 23);
    }
  }
  auto file = Writer();
  ASSERT_TRUE(file);
  EXPECT_EQ(file->id(), id) << "its head is good";
  ASSERT_TRUE(file->Write(TestEntries({.hours = 20}), StateOf(2), At(kTestHour)));
  EXPECT_NE(file->id(), id);
  EXPECT_EQ((*file->ReadState())->gpus.at(0).energy_uj, 2);
  EXPECT_EQ(file->Hours(0, INT64_MAX)->size(), 20u);
  EXPECT_TRUE(fs::exists(path + ".broken"));
  ASSERT_TRUE(file->Write(TestEntries({.hours = 1}), StateOf(3), At(kTestHour + 60))) << "and it goes on";
}

TEST_F(LedgerFileTest, OnlyOneProgramWrites) {
  auto file = Writer();
  ASSERT_TRUE(file);
  const auto other = LedgerFile::Open({.path = path});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kUnavailable);
  EXPECT_THAT(other.error().detail, HasSubstr("another gpulens writes"));
  file.reset();
  EXPECT_TRUE(Writer());
}

TEST_F(LedgerFileTest, AReaderSeesOneStateWhileAnotherWrites) {
  auto writer = Writer();
  ASSERT_TRUE(
      writer->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 0), 5)}, StateOf(5), At(kTestHour)));
  auto reader = Reader();
  EXPECT_TRUE(Total(*reader).energy_uj == 5);
  ASSERT_TRUE(
      writer->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 0), 5)}, StateOf(10), At(kTestHour)));
  EXPECT_TRUE(Total(*reader).energy_uj == 5) << "as at its first query";
  EXPECT_EQ((*reader->ReadState())->gpus.at(0).energy_uj, 5);
  EXPECT_TRUE(Total(*Reader()).energy_uj == 10);
}

TEST_F(LedgerFileTest, AnotherUserReadsWithPermissionToTheFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (bool writes : {false, true}) {
    auto writer = Writer();
    ASSERT_TRUE(
        writer->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 0), 5)}, StateOf(5), At(kTestHour)));
    if (!writes) writer.reset();
    for (const auto& file : fs::recursive_directory_iterator(folder.path()))
      ::chmod(file.path().c_str(), file.is_directory() ? 0755 : 0644);
    ::chmod(folder.path().c_str(), 0755);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
      auto file = LedgerFile::Open({.path = path, .read_only = true});
      if (!file) ::_exit(3);
      const auto rows = (*file)->Sum({});
      ::_exit(rows && rows->size() == 1 && rows->front().sums.energy_uj > 0 ? 0 : 4);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0) << (writes ? "while the agent writes" : "without an agent");
  }
}

TEST_F(LedgerFileTest, ASumThatDoesNotFitChangesNothing) {
  auto file = Writer();
  const Account account = TestAccount(0, 2);
  ASSERT_TRUE(file->Write(std::vector{MakeEntry(kTestHour, account, INT64_MAX)}, StateOf(1), At(kTestHour)));
  EXPECT_FALSE(
      file->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 3), 1), MakeEntry(kTestHour, account, 1)},
                  StateOf(2), At(kTestHour)));
  EXPECT_TRUE(Total(*file).energy_uj == INT64_MAX);
  EXPECT_EQ((*file->ReadState())->gpus.at(0).energy_uj, 1);
  ASSERT_TRUE(
      file->Write(std::vector{MakeEntry(kTestHour, TestAccount(0, 3), 1)}, StateOf(3), At(kTestHour)));
  const __int128 most = INT64_MAX;
  EXPECT_TRUE(Total(*file).energy_uj == most + 1) << "sums over accounts are wider";
}

TEST_F(LedgerFileTest, AFullDiskLosesNothingThatTheNextWriteBrings) {
  auto file = Writer();
  ASSERT_TRUE(file->Write(TestEntries({.hours = 1}), StateOf(1), At(kTestHour)));
  const Totals before = Total(*file);
  const std::vector<Entry> more = TestEntries({.first_hour_unix = kTestHour + 3600, .hours = 20});
  {
    FileSizeLimit limit(200'000);
    const Status status = file->Write(more, StateOf(2), At(kTestHour));
    EXPECT_FALSE(status);
    EXPECT_TRUE(status.code == Code::kExhausted || status.code == Code::kIo) << status.detail;
  }
  EXPECT_EQ(Total(*file), before);
  ASSERT_TRUE(file->Write(more, StateOf(2), At(kTestHour)));
  Totals sum = before;
  for (const Entry& entry : more) sum += entry.amounts;
  EXPECT_EQ(Total(*file), sum);
}

TEST_F(LedgerFileTest, AMissingFileIsNamed) {
  const auto file = LedgerFile::Open({.path = path, .read_only = true});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kUnavailable);
  EXPECT_THAT(file.error().detail, HasSubstr(path));
  EXPECT_FALSE(LedgerFile::Open({.path = path, .create = false}));
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace gpulens::ledger
