#include "proxy/journal/journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "proxy/journal/charge_fold.h"
#include "store/charges/charge_file.h"
#include "store/charges/charge_testing.h"

namespace gpulens {
namespace {

using testing::TempFolder;

// What is known when a request begins.
ChargeRecord Begun(uint64_t number) {
  ChargeRecord record = TestCharge(number);
  record.settled_unix_ns = record.duration_ns = 0;
  record.list_pico = record.charged_pico = 0;
  record.usage = {};
  record.counted_by = CountedBy::kNothing;
  record.attempts.clear();
  return record;
}

ChargeProgress ProgressOf(uint64_t number) {
  ChargeProgress progress;
  progress.id = TestCharge(number).id;
  progress.usage[LlmClass::kOutput] = 7;
  progress.list_pico = 1000 + static_cast<int64_t>(number);
  progress.charged_pico = progress.list_pico;
  progress.events = 7;
  progress.model_answered = "model-2026";
  return progress;
}

JournalOptions OptionsFor(const std::string& folder) {
  JournalOptions options;
  options.folder = folder;
  options.stores = {"file"};
  options.sync = SyncPolicy::kNone;
  options.retry_interval = std::chrono::milliseconds(5);
  return options;
}

std::unique_ptr<Journal> OpenJournal(const JournalOptions& options) {
  auto journal = Journal::Open(options);
  EXPECT_TRUE(journal.ok()) << journal.status().detail;
  return journal ? *std::move(journal) : nullptr;
}

// Hands a record over and waits for what became of it.
template <class Hand>
Kept KeptOf(Journal& journal, Hand hand) {
  std::atomic<int> kept = -1;
  hand([&](Kept what) { kept = static_cast<int>(what); });
  journal.Flush();
  return static_cast<Kept>(kept.load());
}
Kept Begin(Journal& journal, uint64_t number) {
  return KeptOf(journal, [&](Journal::Done done) { journal.Begin(Begun(number), std::move(done)); });
}
Kept Settle(Journal& journal, uint64_t number) {
  return KeptOf(journal, [&](Journal::Done done) { journal.Settle(TestCharge(number), std::move(done)); });
}

std::vector<ChargeRecord> RowsOf(Journal& journal) {
  JournalReader reader(journal, 0);
  std::vector<ChargeRecord> rows;
  const auto place = reader.Read(1'000'000, rows);
  EXPECT_TRUE(place.ok()) << place.status().detail;
  return rows;
}

std::vector<std::string> SegmentsIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder))
    if (each.path().extension() == ".seg") names.push_back(each.path());
  std::ranges::sort(names);
  return names;
}

TEST(JournalTest, ASettledRequestIsOneRowAndAnOpenOneIsUnsettledAtTheNextStart) {
  const TempFolder folder;
  ManualClock clock;
  JournalOptions options = OptionsFor(folder.path() + "/journal");
  options.clock = &clock;
  {
    const auto journal = OpenJournal(options);
    ASSERT_TRUE(journal);
    for (uint64_t number = 0; number < 4; ++number) EXPECT_EQ(Begin(*journal, number), Kept::kOnDisk);
    journal->Progress(ProgressOf(1));
    EXPECT_EQ(Settle(*journal, 0), Kept::kOnDisk);
    EXPECT_EQ(Settle(*journal, 3), Kept::kOnDisk);
    EXPECT_EQ(journal->stats().open, 2u);
    struct stat info{};
    ASSERT_EQ(::stat(SegmentsIn(options.folder)[0].c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  for (int again = 0; again < 2; ++again) {
    const auto journal = OpenJournal(options);
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->found().unsettled, again == 0 ? 2u : 0u) << "only once";
    EXPECT_EQ(journal->found().damaged, 0u);
    const auto rows = RowsOf(*journal);
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[0], TestCharge(0));
    EXPECT_EQ(rows[1], TestCharge(3));
    EXPECT_EQ(rows[2].id, TestCharge(1).id);
    EXPECT_EQ(rows[2].outcome, ChargeOutcome::kUnsettled);
    EXPECT_EQ(rows[2].counted_by, CountedBy::kRecovered);
    EXPECT_EQ(rows[2].charged_pico, 1001);
    EXPECT_EQ(rows[2].usage[LlmClass::kOutput], 7);
    EXPECT_EQ(rows[2].settled_unix_ns, clock.Now().unix_ns);
    EXPECT_EQ(rows[3].id, TestCharge(2).id);
    EXPECT_EQ(rows[3].counted_by, CountedBy::kUnsettled);
    EXPECT_EQ(rows[3].charged_pico, 0);
    EXPECT_EQ(rows[3].reserved_pico, TestCharge(2).reserved_pico) << "its bound";
  }
}

TEST(JournalTest, WhatACrashCostsIsConfigured) {
  using OnCrash = JournalOptions::OnCrash;
  for (const auto& [how, charged, by] :
       {std::tuple{OnCrash::kReserve, TestCharge(1).reserved_pico, CountedBy::kRecovered},
        std::tuple{OnCrash::kZero, int64_t{0}, CountedBy::kUnsettled}}) {
    const TempFolder folder;
    JournalOptions options = OptionsFor(folder.path());
    options.on_crash = how;
    {
      const auto journal = OpenJournal(options);
      Begin(*journal, 1);
      journal->Progress(ProgressOf(1));
    }
    const auto journal = OpenJournal(options);
    const auto rows = RowsOf(*journal);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].charged_pico, charged);
    EXPECT_EQ(rows[0].counted_by, by);
    EXPECT_EQ(journal->found().recovered_pico, charged);
    EXPECT_EQ(journal->found().unsettled_bound_pico, TestCharge(1).reserved_pico);
  }
}

TEST(JournalTest, ASecondBeginOrSettleIsIgnoredAndCounted) {
  const TempFolder folder;
  const auto journal = OpenJournal(OptionsFor(folder.path()));
  EXPECT_EQ(Settle(*journal, 1), Kept::kIgnored);
  EXPECT_EQ(Begin(*journal, 1), Kept::kOnDisk);
  EXPECT_EQ(Begin(*journal, 1), Kept::kIgnored);
  EXPECT_EQ(Settle(*journal, 1), Kept::kOnDisk);
  EXPECT_EQ(Settle(*journal, 1), Kept::kIgnored);
  EXPECT_EQ(journal->stats().ignored, 3u);
  EXPECT_EQ(KeptOf(*journal, [&](Journal::Done done) { journal->Record(TestCharge(2), std::move(done)); }),
            Kept::kOnDisk);
  EXPECT_EQ(RowsOf(*journal).size(), 2u);
}

TEST(JournalTest, RecordsForWhichTheWriterIsWokenLaterAreWrittenTogether) {
  const TempFolder folder;
  const auto journal = OpenJournal(OptionsFor(folder.path() + "/journal"));
  ASSERT_TRUE(journal);
  std::atomic<int> kept = 0;
  const auto begin = [&](uint64_t number, Journal::Waking waking) {
    journal->Begin(Begun(number), [&](Kept what) { kept += what == Kept::kOnDisk; }, waking);
  };
  for (uint64_t number = 0; number < 5; ++number) begin(number, Journal::Waking::kLater);
  journal->Wake();
  journal->Flush();
  EXPECT_EQ(kept, 5);
  EXPECT_EQ(journal->stats().batches, 1u);
  begin(5, Journal::Waking::kLater);
  begin(6, Journal::Waking::kNow);
  journal->Flush();
  EXPECT_EQ(kept, 7);
  EXPECT_EQ(journal->stats().batches, 2u);
  // An end wakes it, too.
  begin(7, Journal::Waking::kLater);
  journal->Flush();
  EXPECT_EQ(kept, 8);
}

TEST(JournalTest, AReaderWaitsForAsManyRecordsAsItWants) {
  const TempFolder folder;
  const auto journal = OpenJournal(OptionsFor(folder.path() + "/journal"));
  ASSERT_TRUE(journal);
  JournalReader reader(*journal, 0);
  const std::atomic<bool> stop = false;
  std::atomic<bool> woken = false;
  std::thread waiting([&] {
    reader.Wait(std::chrono::hours(1), stop, 3);
    woken = true;
  });
  EXPECT_EQ(Begin(*journal, 0), Kept::kOnDisk);
  EXPECT_EQ(Settle(*journal, 0), Kept::kOnDisk);
  EXPECT_FALSE(woken);
  EXPECT_EQ(Begin(*journal, 1), Kept::kOnDisk);
  waiting.join();
  reader.Wait(std::chrono::hours(1), stop, 3);
  reader.Wait(std::chrono::milliseconds(1), stop, 4);
  std::vector<ChargeRecord> rows;
  ASSERT_TRUE(reader.Read(10, rows).ok());
  EXPECT_EQ(rows.size(), 1u);
}

TEST(JournalTest, TwoProcessesDoNotWriteOneFolder) {
  const TempFolder folder;
  const auto journal = OpenJournal(OptionsFor(folder.path()));
  EXPECT_EQ(Journal::Open(OptionsFor(folder.path())).status().code, Code::kUnavailable);
  EXPECT_THAT(Journal::Open(OptionsFor(folder.path())).status().detail,
              ::testing::HasSubstr(std::to_string(::getpid())));
  const std::string file = folder.Write("file", "x");
  EXPECT_FALSE(Journal::Open(OptionsFor(file + "/journal")).ok());
}

TEST(JournalTest, ListsIdempotencyKeysThatAreInTheJournal) {
  const TempFolder folder;
  ManualClock clock({1, kTestDispatchNs + 1'000'000'000});
  JournalOptions options = OptionsFor(folder.path());
  options.clock = &clock;
  {
    const auto journal = OpenJournal(options);
    Begin(*journal, 1), Begin(*journal, 6), Begin(*journal, 2);
    Settle(*journal, 1), Settle(*journal, 2);
  }
  const auto journal = OpenJournal(options);
  ASSERT_EQ(journal->found().idempotent.size(), 2u);
  EXPECT_EQ(journal->found().idempotent[0].id, TestCharge(1).id);
  EXPECT_EQ(journal->found().idempotent[1].id, TestCharge(6).id) << "unsettled";
  EXPECT_EQ(journal->found().idempotent[1].hash, *TestCharge(6).idempotency);
}

// ---------------------------------------------------------------------------------------- disks that fail

// Fails as a full disk does: a part of the bytes is written.
class FailingDisk final : public JournalDisk {
 public:
  int Write(int file, uint64_t offset, std::string_view bytes) override {
    if (write_error == 0) return JournalDisk::Write(file, offset, bytes);
    static_cast<void>(JournalDisk::Write(file, offset, bytes.substr(0, bytes.size() / 2)));
    return write_error;
  }
  int SyncFile(int file) override {
    return sync_error != 0 ? sync_error.load() : JournalDisk::SyncFile(file);
  }
  int Create(int folder, const char* name, UniqueFd& out) override {
    return create_error != 0 ? create_error.load() : JournalDisk::Create(folder, name, out);
  }
  int Truncate(int file, uint64_t size) override {
    return truncate_error != 0 ? truncate_error.load() : JournalDisk::Truncate(file, size);
  }

  std::atomic<int> write_error = 0, sync_error = 0, create_error = 0, truncate_error = 0;
};

template <class Holds>
bool Eventually(Holds holds) {
  for (int i = 0; i < 4000; ++i) {
    if (holds()) return true;
    ::poll(nullptr, 0, 2);
  }
  return false;
}

class JournalDiskTest : public ::testing::Test {
 protected:
  JournalOptions Options() {
    JournalOptions options = OptionsFor(folder_.path() + "/journal");
    options.disk = disk_;
    return options;
  }
  TempFolder folder_;
  std::shared_ptr<FailingDisk> disk_ = std::make_shared<FailingDisk>();
};

TEST_F(JournalDiskTest, FullAndRefuseNewRequestsWaitAndOpenOnesEnd) {
  for (const bool truncates : {true, false}) {
    disk_ = std::make_shared<FailingDisk>();
    JournalOptions options = Options();
    options.folder += truncates ? "1" : "2";
    const auto journal = OpenJournal(options);
    for (uint64_t number : {1U, 2U, 3U}) EXPECT_EQ(Begin(*journal, number), Kept::kOnDisk);
    EXPECT_EQ(Settle(*journal, 1), Kept::kOnDisk);
    disk_->truncate_error = truncates ? 0 : EIO;
    disk_->write_error = ENOSPC;
    EXPECT_TRUE(journal->admits());
    EXPECT_EQ(Settle(*journal, 2), Kept::kInMemory);
    EXPECT_FALSE(journal->admits());
    EXPECT_EQ(Begin(*journal, 4), Kept::kRefused);
    EXPECT_EQ(Begin(*journal, 3), Kept::kIgnored);
    EXPECT_EQ(Settle(*journal, 3), Kept::kInMemory);
    EXPECT_EQ(journal->stats().held, 2u);
    EXPECT_TRUE(journal->stats().failing);
    EXPECT_EQ(RowsOf(*journal).size(), 1u);
    disk_->write_error = 0;
    EXPECT_TRUE(Eventually([&] { return journal->admits(); }));
    EXPECT_EQ(journal->stats().held, 0u);
    EXPECT_EQ(Begin(*journal, 5), Kept::kOnDisk);
    EXPECT_EQ(Settle(*journal, 5), Kept::kOnDisk);
    const auto rows = RowsOf(*journal);
    ASSERT_EQ(rows.size(), 4u);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(rows[i].id, TestCharge(std::array<uint64_t, 4>{1, 2, 3, 5}[i]).id);
  }
}

TEST_F(JournalDiskTest, FullAndOpenRequestsAreServedAndWrittenLater) {
  JournalOptions options = Options();
  options.on_failure = JournalOptions::OnFailure::kOpen;
  options.held_bytes = 2 * EncodeEntry(JournalKind::kSettle, TestCharge(1)).size() + 50;  // two rows
  {
    const auto journal = OpenJournal(options);
    disk_->create_error = EROFS;
    EXPECT_EQ(Begin(*journal, 1), Kept::kInMemory);
    EXPECT_TRUE(journal->admits());
    Begin(*journal, 2), Begin(*journal, 3), Begin(*journal, 4), Begin(*journal, 5);
    EXPECT_EQ(Settle(*journal, 1), Kept::kInMemory);
    EXPECT_EQ(Settle(*journal, 2), Kept::kInMemory);
    EXPECT_EQ(Settle(*journal, 4), Kept::kUnrecorded);
    EXPECT_EQ(journal->stats().unrecorded, 1u);
    EXPECT_TRUE(journal->stats().unrecorded_pico == TestCharge(4).charged_pico);
    disk_->create_error = 0;
    EXPECT_TRUE(Eventually([&] { return !journal->stats().failing; }));
    EXPECT_EQ(RowsOf(*journal).size(), 2u);
    EXPECT_EQ(Settle(*journal, 3), Kept::kOnDisk);
  }
  const auto journal = OpenJournal(options);
  const auto rows = RowsOf(*journal);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].id, TestCharge(5).id) << "its Begin was written when the disk worked again";
  EXPECT_EQ(rows[3].outcome, ChargeOutcome::kUnsettled);
}

TEST_F(JournalDiskTest, WhatWasHeldIsWrittenAtTheEndIfTheDiskWorks) {
  {
    JournalOptions options = Options();
    options.retry_interval = std::chrono::hours(1);
    const auto journal = OpenJournal(options);
    Begin(*journal, 1);
    disk_->write_error = EIO;
    EXPECT_EQ(Settle(*journal, 1), Kept::kInMemory);
    disk_->write_error = 0;
  }
  const auto journal = OpenJournal(Options());
  EXPECT_EQ(journal->found().unsettled, 0u);
  ASSERT_EQ(RowsOf(*journal).size(), 1u);
  EXPECT_EQ(RowsOf(*journal)[0], TestCharge(1));
}

TEST_F(JournalDiskTest, AFailedSyncConfirmsNothingAndBeginsANewFile) {
  JournalOptions options = Options();
  options.sync = SyncPolicy::kAlways;
  const auto journal = OpenJournal(options);
  EXPECT_EQ(Begin(*journal, 1), Kept::kOnDisk);
  disk_->sync_error = EIO;
  EXPECT_EQ(Settle(*journal, 1), Kept::kInMemory);
  EXPECT_EQ(Begin(*journal, 2), Kept::kRefused);
  disk_->sync_error = 0;
  EXPECT_TRUE(Eventually([&] { return journal->admits(); }));
  EXPECT_EQ(RowsOf(*journal).size(), 1u);
  EXPECT_EQ(SegmentsIn(options.folder).size(), 2u);
}

TEST_F(JournalDiskTest, AFailedSyncAfterAnIntervalStopsAdmissionUntilItWorks) {
  JournalOptions options = Options();
  options.sync = SyncPolicy::kInterval;
  options.sync_interval = std::chrono::milliseconds(5);
  const auto journal = OpenJournal(options);
  disk_->sync_error = EIO;
  EXPECT_EQ(Begin(*journal, 1), Kept::kOnDisk);
  EXPECT_TRUE(Eventually([&] { return !journal->admits(); }));
  EXPECT_GE(journal->stats().sync_failures, 1u);
  disk_->sync_error = 0;
  EXPECT_TRUE(Eventually([&] { return journal->admits(); }));
  EXPECT_EQ(Settle(*journal, 1), Kept::kOnDisk);
}

TEST_F(JournalDiskTest, TheBoundOfTheFilesRefusesUntilAStoreHasThem) {
  JournalOptions options = Options();
  options.segment_bytes = 4096;
  options.max_bytes = 40'000;
  const auto journal = OpenJournal(options);
  EXPECT_EQ(Begin(*journal, 1), Kept::kOnDisk);  // stays open
  uint64_t number = 2;
  while (Begin(*journal, number) == Kept::kOnDisk && number < 1000) Settle(*journal, number), ++number;
  ASSERT_LT(number, 1000u);
  EXPECT_LE(journal->stats().disk_bytes, 45'000u);
  EXPECT_FALSE(journal->admits());
  JournalReader reader(*journal, 0);
  std::vector<ChargeRecord> rows;
  const auto place = reader.Read(10'000, rows);
  ASSERT_TRUE(place.ok());
  ASSERT_TRUE(reader.Done(*place).ok());
  EXPECT_TRUE(Eventually([&] { return journal->admits(); }));
  EXPECT_EQ(Begin(*journal, number), Kept::kOnDisk);
  EXPECT_LE(journal->stats().disk_bytes, 9'000u);
  EXPECT_EQ(Settle(*journal, 1), Kept::kOnDisk) << "it was written again, in a newer file";
}

TEST(JournalTest, OldSegmentsGoAndARequestThatIsOpenForLongIsStillRecovered) {
  const TempFolder folder;
  JournalOptions options = OptionsFor(folder.path());
  options.segment_bytes = 4096;
  std::vector<ChargeRecord> rows;
  {
    const auto journal = OpenJournal(options);
    Begin(*journal, 0);
    journal->Progress(ProgressOf(0));
    JournalReader reader(*journal, 0);
    for (uint64_t number = 1; number < 300; ++number) {
      Begin(*journal, number), Settle(*journal, number);
      if (number % 10 != 0) continue;
      const auto place = reader.Read(10'000, rows);
      ASSERT_TRUE(place.ok() && reader.Done(*place).ok());
    }
    journal->Flush();
    EXPECT_LE(journal->stats().segments, 8u);
    EXPECT_EQ(rows.size(), 290u);
  }
  const auto journal = OpenJournal(options);
  EXPECT_EQ(journal->found().unsettled, 1u);
  EXPECT_EQ(journal->found().damaged, 0u);
  const auto rest = RowsOf(*journal);
  ASSERT_EQ(rest.size(), 10u);
  EXPECT_EQ(rest.back().id, TestCharge(0).id);
  EXPECT_EQ(rest.back().charged_pico, 1000) << "of its last progress";
}

// ---------------------------------------------------------------------------------------- damaged files

// A journal of five requests, of which two are open, as bytes.
struct SmallJournal {
  std::string name, bytes;
};
SmallJournal MakeSmallJournal() {
  const TempFolder folder;
  {
    const auto journal = OpenJournal(OptionsFor(folder.path()));
    for (uint64_t number = 0; number < 5; ++number) Begin(*journal, number);
    journal->Progress(ProgressOf(1));
    for (uint64_t number : {0U, 2U, 4U}) Settle(*journal, number);
  }
  const std::string path = SegmentsIn(folder.path())[0];
  return {std::filesystem::path(path).filename(), *ReadFile(path)};
}

// Thousands of folders: in memory where that is possible.
void UseMemoryFolders() {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
}

// Opens a journal with these bytes; the rows by request, each once.
std::map<RequestId, ChargeRecord> Recover(const std::string& name, const std::string& bytes,
                                          JournalFound& found) {
  const TempFolder folder;
  folder.Write(name, bytes);
  const auto journal = OpenJournal(OptionsFor(folder.path()));
  std::map<RequestId, ChargeRecord> rows;
  if (!journal) return rows;
  found = journal->found();
  for (ChargeRecord& row : RowsOf(*journal)) {
    const RequestId id = row.id;
    EXPECT_TRUE(rows.emplace(id, std::move(row)).second) << "a request with two rows";
  }
  return rows;
}

// A row is what was settled, or unsettled with its bound.
void ExpectRow(uint64_t number, const ChargeRecord& row) {
  const ChargeRecord settled = TestCharge(number);
  if (row == settled) return;
  EXPECT_EQ(row.outcome, ChargeOutcome::kUnsettled) << number;
  EXPECT_EQ(row.reserved_pico, settled.reserved_pico);
  EXPECT_TRUE(row.charged_pico == 0 || (number == 1 && row.charged_pico == 1001)) << row.charged_pico;
}

TEST(JournalDamageTest, AFlippedByteAnywhereCostsOneRecord) {
  UseMemoryFolders();
  const SmallJournal whole = MakeSmallJournal();
  JournalFound found;
  ASSERT_EQ(Recover(whole.name, whole.bytes, found).size(), 5u);
  int lost = 0;
  for (size_t at = 0; at < whole.bytes.size(); ++at) {
    std::string bytes = whole.bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    found = {};
    const auto rows = Recover(whole.name, bytes, found);
    size_t there = 0, good = 0;
    for (uint64_t number = 0; number < 5; ++number) {
      const auto row = rows.find(TestCharge(number).id);
      if (row == rows.end()) continue;
      ++there;
      ExpectRow(number, row->second);
      good += row->second == TestCharge(number);
    }
    ASSERT_EQ(rows.size(), there) << "a row of nobody, byte " << at;
    ASSERT_GE(there, 4u) << "byte " << at;
    ASSERT_GE(good, 2u) << "byte " << at;
    if (at >= kSegmentHeaderBytes) {
      ASSERT_GE(found.damaged + found.torn, 1u) << "not reported: byte " << at;
    }
    lost += there < 5;
  }
  EXPECT_GT(lost, 0) << "a request without a Settle whose Begin is damaged";
}

TEST(JournalDamageTest, ATornTailAtAnyLengthCostsTheLastRecord) {
  UseMemoryFolders();
  const SmallJournal whole = MakeSmallJournal();
  size_t rows_before = 0;
  for (size_t size = 0; size <= whole.bytes.size(); ++size) {
    JournalFound found;
    const auto rows = Recover(whole.name, whole.bytes.substr(0, size), found);
    EXPECT_EQ(found.damaged, 0u) << size;
    ASSERT_GE(rows.size(), rows_before) << size;
    ASSERT_LE(rows.size(), rows_before + 1) << size;
    rows_before = rows.size();
    for (uint64_t number = 0; number < 5; ++number)
      if (const auto row = rows.find(TestCharge(number).id); row != rows.end())
        ExpectRow(number, row->second);
  }
  EXPECT_EQ(rows_before, 5u);
}

TEST(JournalDamageTest, ADamagedHeadOfAFileIsReportedAndTheJournalGoesOn) {
  const SmallJournal whole = MakeSmallJournal();
  std::string bytes = whole.bytes;
  bytes[20] = bytes[70] = 'X';
  const TempFolder folder;
  folder.Write(whole.name, bytes);
  const auto journal = OpenJournal(OptionsFor(folder.path()));
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->found().damaged_files, 1u);
  EXPECT_GE(journal->found().damaged, 1u);
  Begin(*journal, 7), Settle(*journal, 7);
  const auto rows = RowsOf(*journal);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], TestCharge(7));
}

TEST(JournalDamageTest, ARecordOfANewerProgramStopsTheStart) {
  const TempFolder folder;
  {
    const auto journal = OpenJournal(OptionsFor(folder.path()));
    Begin(*journal, 1);
  }
  const std::string path = SegmentsIn(folder.path())[0];
  std::string bytes = *ReadFile(path);
  const uint32_t salt = GetNumber<uint32_t>(bytes.data() + 12);
  bytes[kSegmentHeaderBytes + kRecordHeadBytes + 1] = 2;
  const std::string_view body = std::string_view(bytes).substr(kSegmentHeaderBytes + kRecordHeadBytes);
  auto head = DecodeRecordHead(std::string_view(bytes).substr(kSegmentHeaderBytes), salt);
  ASSERT_TRUE(head);
  head->body_sum = ChecksumOf(salt, body);
  std::array<char, kRecordHeadBytes> encoded{};
  EncodeRecordHead(*head, salt, encoded);
  std::copy(encoded.begin(), encoded.end(), bytes.begin() + kSegmentHeaderBytes);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(Journal::Open(OptionsFor(folder.path())).status().code, Code::kUnavailable);
  EXPECT_EQ(*ReadFile(path), bytes);
}

// ---------------------------------------------------------------------------------------- a power cut

// Knows what was synced, and makes the image that a power cut leaves: of what was not synced any part, or
// zeros.
class PowerDisk final : public JournalDisk {
 public:
  int Create(int folder, const char* name, UniqueFd& out) override {
    const int error = JournalDisk::Create(folder, name, out);
    if (error == 0) files_[out.get()] = name, states_[name] = {};
    return error;
  }
  int Write(int file, uint64_t offset, std::string_view bytes) override {
    const int error = JournalDisk::Write(file, offset, bytes);
    if (on_write) on_write();
    return error;
  }
  int SyncFile(int file) override {
    struct stat info{};
    if (::fstat(file, &info) != 0) return errno;
    states_[files_[file]].synced = static_cast<uint64_t>(info.st_size);
    return 0;
  }
  int SyncFolder(int) override {
    for (auto& [name, state] : states_) state.named = true;
    return 0;
  }

  void Image(const std::string& from, const std::string& to, std::mt19937& random) const {
    for (const auto& [name, state] : states_) {
      if (!std::filesystem::exists(from + "/" + name)) continue;
      if (!state.named && random() % 2 == 0) continue;
      std::string bytes = *ReadFile(from + "/" + name, 64 << 20);
      const size_t synced = state.named ? std::min<size_t>(state.synced, bytes.size()) : 0;
      std::string kept = bytes.substr(0, synced);
      if (random() % 2 == 0) {
        kept += bytes.substr(synced, random() % (bytes.size() - synced + 1));
      } else {
        kept.resize(bytes.size());  // zeros
        if (bytes.size() - synced > 100) kept.replace(kept.size() - 50, 50, bytes.substr(bytes.size() - 50));
      }
      ASSERT_TRUE(WriteFileAtomically(to + "/" + name, kept, {.sync = false}).ok());
    }
  }

  std::function<void()> on_write;

 private:
  struct State {
    uint64_t synced = 0;
    bool named = false;
  };
  std::map<int, std::string> files_;
  std::map<std::string, State> states_;
};

TEST(JournalPowerTest, SyncAlwaysKeepsWhatWasConfirmed) {
  const TempFolder folder;
  auto disk = std::make_shared<PowerDisk>();
  JournalOptions options = OptionsFor(folder.path() + "/journal");
  options.sync = SyncPolicy::kAlways;
  options.segment_bytes = 8192;
  options.disk = disk;
  std::mt19937 random(11);
  std::set<uint64_t> begun, settled;  // confirmed; of the writer thread
  int cuts = 0;
  disk->on_write = [&] {
    if (random() % 8 != 0 || begun.empty()) return;
    ++cuts;
    const TempFolder image;
    disk->Image(options.folder, image.path(), random);
    const auto after = OpenJournal(OptionsFor(image.path()));
    ASSERT_TRUE(after);
    std::map<RequestId, ChargeRecord> rows;
    for (const ChargeRecord& row : RowsOf(*after)) EXPECT_TRUE(rows.emplace(row.id, row).second);
    for (uint64_t number : settled) {
      const auto row = rows.find(TestCharge(number).id);
      ASSERT_NE(row, rows.end()) << number;
      EXPECT_EQ(row->second, TestCharge(number));
    }
    for (uint64_t number : begun) EXPECT_TRUE(rows.contains(TestCharge(number).id)) << number;
  };
  {
    const auto journal = OpenJournal(options);
    for (uint64_t number = 0; number < 400; ++number) {
      journal->Begin(Begun(number), [&, number](Kept kept) {
        if (kept == Kept::kOnDisk) begun.insert(number);
      });
      if (number >= 5)
        journal->Settle(TestCharge(number - 5), [&, number](Kept kept) {
          if (kept == Kept::kOnDisk) settled.insert(number - 5);
        });
      if (number % 3 == 0) journal->Flush();
    }
    journal->Flush();
  }
  EXPECT_GT(cuts, 15);
  EXPECT_EQ(settled.size(), 395u);
}

// ---------------------------------------------------------------------------------------- kill -9

struct Word {
  char what = 0;  // 'B', 'S': confirmed
  uint64_t number = 0;
};

// Begins and settles for ever, with a fold, and reports what is confirmed. Every tenth stays open.
[[noreturn]] void RunVictim(const std::string& folder, const std::string& database, int pipe,
                            uint64_t first) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  JournalOptions options = OptionsFor(folder);
  options.segment_bytes = 16'384;
  auto journal = Journal::Open(options);
  if (!journal) ::_exit(2);
  auto fold = ChargeFold::Start(
      **journal, {.name = "file", .folder = folder, .batch = 20, .batch_time = std::chrono::milliseconds(1)},
      [&]() -> Result<std::unique_ptr<ChargeStore>> {
        auto file = ChargeFile::Open({.path = database, .durable = false});
        if (!file) return file.error();
        return std::unique_ptr<ChargeStore>(*std::move(file));
      });
  if (!fold) ::_exit(3);
  const auto report = [pipe](char what, uint64_t number) {
    return [=](Kept kept) {
      if (kept != Kept::kOnDisk) ::_exit(4);
      const Word word{what, number};
      if (::write(pipe, &word, sizeof word) != sizeof word) ::_exit(5);
    };
  };
  for (uint64_t number = first;; ++number) {
    (*journal)->Begin(Begun(number), report('B', number));
    if (number % 3 == 1) (*journal)->Progress(ProgressOf(number));
    if (number >= first + 8 && number % 10 != 0)
      (*journal)->Settle(TestCharge(number - 8), report('S', number - 8));
    if (number % 16 == 0) (*journal)->Flush();
  }
}

TEST(JournalKillTest, KilledAtRandomPointsEveryRequestHasOneRow) {
  constexpr int kKills = 220;
  const TempFolder folder;
  const std::string journal_folder = folder.path() + "/journal", database = folder.path() + "/charges.db";
  std::mt19937 random(4711);
  std::set<uint64_t> begun, settled;
  uint64_t first = 0, last_round = 0;
  int with_unsettled = 0;
  for (int round = 0; round < kKills; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) RunVictim(journal_folder, database, pipe[1], first);
    ::close(pipe[1]);
    const UniqueFd reader(pipe[0]);
    uint64_t words = 1 + random() % 300;
    const auto take = [&](const Word& word) {
      (word.what == 'B' ? begun : settled).insert(word.number);
      first = std::max(first, word.number + 50);  // more may have been handed over than was confirmed
    };
    Word word;
    while (words > 0 && ::read(reader.get(), &word, sizeof word) == sizeof word) take(word), --words;
    if (random() % 2 == 0) ::poll(nullptr, 0, static_cast<int>(random() % 4));
    ::kill(child, SIGKILL);
    while (::read(reader.get(), &word, sizeof word) == sizeof word) take(word);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    ASSERT_EQ(words, 0u);
    first = std::max(first, *begun.rbegin() + 5000);
    last_round = begun.size();
  }
  EXPECT_GT(last_round, 1000u);
  JournalOptions options = OptionsFor(journal_folder);
  const auto journal = OpenJournal(options);
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->found().damaged, 0u);
  auto fold = ChargeFold::Start(*journal, {.name = "file", .folder = journal_folder},
                                [&]() -> Result<std::unique_ptr<ChargeStore>> {
                                  auto file = ChargeFile::Open({.path = database});
                                  if (!file) return file.error();
                                  return std::unique_ptr<ChargeStore>(*std::move(file));
                                });
  ASSERT_TRUE(fold.ok());
  ASSERT_TRUE((*fold)->Drain(std::chrono::seconds(30)));
  fold->reset();
  auto file = ChargeFile::Open({.path = database, .read_only = true});
  ASSERT_TRUE(file.ok());
  std::map<RequestId, ChargeRecord> rows;
  ChargePlace place;
  for (;;) {
    auto some = (*file)->List(place, 1000);
    ASSERT_TRUE(some.ok()) << some.status().detail;
    if (some->empty()) break;
    place = {some->back().settled_unix_ns, some->back().id};
    for (ChargeRecord& record : *some) {
      const RequestId id = record.id;
      EXPECT_TRUE(rows.emplace(id, std::move(record)).second) << "no id twice";
    }
  }
  __int128 charged = 0, expected = 0;
  for (uint64_t number : settled) {
    const auto row = rows.find(TestCharge(number).id);
    ASSERT_NE(row, rows.end()) << "confirmed and missing: " << number;
    ASSERT_EQ(row->second, TestCharge(number));
    charged += row->second.charged_pico;
    expected += TestCharge(number).charged_pico;
  }
  EXPECT_TRUE(charged == expected);
  for (uint64_t number : begun) {
    const auto row = rows.find(TestCharge(number).id);
    ASSERT_NE(row, rows.end()) << "begun and missing: " << number;
    if (row->second == TestCharge(number)) continue;
    ++with_unsettled;
    EXPECT_EQ(row->second.outcome, ChargeOutcome::kUnsettled);
    EXPECT_EQ(row->second.reserved_pico, TestCharge(number).reserved_pico);
    const int64_t partial = 1000 + static_cast<int64_t>(number);
    EXPECT_TRUE(row->second.charged_pico == 0 || (number % 3 == 1 && row->second.charged_pico == partial))
        << number;
  }
  EXPECT_GE(rows.size(), begun.size());
  EXPECT_GT(with_unsettled, kKills) << "requests were open when it was killed";
  RecordProperty("requests", static_cast<int>(begun.size()));
  std::printf("%d kills: %zu requests begun, %zu settled, %d unsettled\n", kKills, begun.size(),
              settled.size(), with_unsettled);
}

}  // namespace
}  // namespace gpulens
