// A folder that cannot be used: what waits in memory, what is reported of it, and what happens when the
// folder is back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "delivery/log_folder.h"
#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kept = RequestLog::Kept;

class MemoryOfALogTest : public ::testing::Test {
 protected:
  // Statuses that callbacks of Append received.
  using Reported = std::vector<Status>;

  MemoryOfALogTest() {
    options_.folder = folder_.path();
    options_.owner = "a";
    options_.segment_bytes = 4096;
    options_.memory_bytes = 20'000;
    options_.sync = SyncPolicy::kNone;
  }
  void Open() { log_ = RequestLog::Open(options_, clock_); }
  void OpenWithoutFolder() {
    Block();
    Open();
    EXPECT_FALSE(log_->disk().ok());
  }
  // A file where the folder should be: root cannot use it either.
  void Block() { Change(folder_.path(), ""); }
  void Unblock() {
    fs::remove(folder_.path());
    Later();
    EXPECT_TRUE(log_->disk().ok()) << log_->disk().detail;
  }
  void Later() {
    clock_.Advance(seconds(31));
    log_->Maintain();
  }
  std::shared_ptr<LogReader> Attach(const std::string& name) { return log_->Attach(name, {}, {}); }
  Kept Push(uint64_t number, size_t size = 1000) {
    const auto kept = log_->Append(Numbered(number, size), 2);
    EXPECT_TRUE(kept.ok()) << kept.error().detail;
    return kept ? *kept : Kept::kInMemory;
  }
  Kept PushOnce(uint64_t number, Reported& reported, size_t size = 1000) {
    const auto kept = log_->Append(Numbered(number, size), 2,
                                   [&reported](const Status& status) { reported.push_back(status); });
    EXPECT_TRUE(kept.ok()) << kept.error().detail;
    return kept ? *kept : Kept::kOnDisk;
  }

  uint64_t PositionOf(const std::string& file) const {
    const UniqueFd folder(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto position = PositionFile::OpenToRead(folder.get(), file);
    return position ? position->last().value_or(0) : 0;
  }

  TestFolder folder_;
  ManualClock clock_;
  RequestLogOptions options_;
  std::shared_ptr<RequestLog> log_;
};

TEST_F(MemoryOfALogTest, AFolderThatCannotBeUsedStopsNothing) {
  OpenWithoutFolder();
  EXPECT_THAT(log_->disk().detail, HasSubstr(folder_.path()));
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 1; n <= 5; ++n) EXPECT_EQ(Push(n), Kept::kInMemory);
  EXPECT_EQ(Take(*a), Range(1, 5));
  EXPECT_EQ(Take(*b), Range(1, 5));
  EXPECT_EQ(a->stats().held_bytes, 0u);
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u);
}

TEST_F(MemoryOfALogTest, NoReportForARecordOnDisk) {
  Open();
  auto a = Attach("a");
  Reported reported;
  EXPECT_EQ(PushOnce(1, reported), Kept::kOnDisk);
  const auto record = a->Next();
  EXPECT_FALSE(record->once);
  a->GiveUp(record->id);
  a.reset(), log_.reset();
  EXPECT_THAT(reported, IsEmpty());
}

TEST_F(MemoryOfALogTest, OneDeliveryIsReportedOnce) {
  OpenWithoutFolder();
  auto a = Attach("a"), b = Attach("b");
  for (bool first_fails : {true, false}) {
    Reported reported;
    EXPECT_EQ(PushOnce(1, reported), Kept::kInMemory);
    const auto by_a = a->Next(), by_b = b->Next();
    ASSERT_TRUE(by_a && by_b);
    EXPECT_TRUE(by_a->once && by_b->once);
    if (first_fails) {
      a->GiveUp(by_a->id);
      EXPECT_THAT(reported, IsEmpty()) << "the other may still take it";
      b->Done(by_b->id, true);
    } else {
      a->Done(by_a->id, true);
      EXPECT_EQ(reported.size(), 1u) << "without waiting for the other";
      b->GiveUp(by_b->id);
    }
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_TRUE(reported[0].ok());
    b->Done(by_b->id, false);
    log_->Maintain();
    EXPECT_EQ(reported.size(), 1u);
  }
  EXPECT_EQ(Lost(*a, RecordDropReason::kNotKept), 1u);
  EXPECT_EQ(Lost(*b, RecordDropReason::kNotKept), 1u);
}

TEST_F(MemoryOfALogTest, AReaderThatIsBehindKeepsNoSenderWaiting) {
  OpenWithoutFolder();
  auto good = Attach("a"), dead = Attach("b");
  // Far more than the memory holds: what was answered goes for the one that is behind, counted.
  Reported reported;
  for (uint64_t n = 1; n <= 60; ++n) {
    EXPECT_EQ(PushOnce(n, reported), Kept::kInMemory);
    const auto record = good->Next();
    ASSERT_TRUE(record);
    good->Done(record->id, true);
    ASSERT_EQ(reported.size(), n);
    EXPECT_TRUE(reported.back().ok());
  }
  EXPECT_GT(Lost(*dead, RecordDropReason::kFull), 30u);
  EXPECT_EQ(AllLost(*good), 0u);
  // One that was not answered stays.
  while (log_->Append(Numbered(66, 1000), 2, [](const Status&) {}).ok()) {
  }
  EXPECT_EQ(good->stats().records, dead->stats().records);
}

TEST_F(MemoryOfALogTest, ReportsARecordThatNoReaderTook) {
  OpenWithoutFolder();
  auto a = Attach("a"), b = Attach("b");
  Reported reported;
  PushOnce(1, reported);
  a->GiveUp(a->Next()->id);
  b->Done(b->Next()->id, false);  // refused for good
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].code, Code::kExhausted);
}

TEST_F(MemoryOfALogTest, ASkippedRecordIsNoFailure) {
  OpenWithoutFolder();
  auto a = Attach("a"), b = Attach("b");
  Reported both, one;
  PushOnce(1, both);
  PushOnce(2, one);
  a->Skip(a->Next()->id), a->Skip(a->Next()->id);
  b->Skip(b->Next()->id), b->GiveUp(b->Next()->id);
  ASSERT_EQ(both.size(), 1u);
  EXPECT_TRUE(both[0].ok());
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].code, Code::kExhausted) << "one wanted it and did not get it";
}

// The outcome does not depend on a reader that is not attached.
TEST_F(MemoryOfALogTest, ADetachedReaderDoesNotCount) {
  Open();
  Attach("b").reset();
  log_.reset();
  fs::rename(folder_.path(), folder_.root() + "/away");
  OpenWithoutFolder();
  Attach("b").reset();
  auto a = Attach("a");
  Reported reported;
  PushOnce(1, reported);
  a->Skip(a->Next()->id);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_TRUE(reported[0].ok());
}

TEST_F(MemoryOfALogTest, WithoutRoomRecordsWithAWaiterAreRefused) {
  OpenWithoutFolder();
  auto a = Attach("a");
  Reported reported;
  uint64_t taken = 0;
  Status refused;
  for (uint64_t n = 1; n <= 30 && refused.ok(); ++n) {
    auto kept = log_->Append(Numbered(n, 1000), 1, [&](const Status& status) { reported.push_back(status); });
    if (kept) ++taken;
    else refused = kept.error();
  }
  EXPECT_EQ(refused.code, Code::kExhausted);
  EXPECT_GT(taken, 14u);
  EXPECT_LT(taken, 20u);
  EXPECT_THAT(reported, IsEmpty());
  EXPECT_EQ(AllLost(*a), 0u);
  EXPECT_EQ(Take(*a), Range(1, taken));
  EXPECT_EQ(reported.size(), taken);
}

TEST_F(MemoryOfALogTest, TheOldestIsDroppedForARecordWithoutAWaiter) {
  OpenWithoutFolder();
  auto a = Attach("a"), b = Attach("b");
  Reported taken_by_a, taken_by_none;
  PushOnce(1, taken_by_a);
  PushOnce(2, taken_by_none);
  EXPECT_EQ(Take(*a, 1), Range(1, 1));
  for (uint64_t n = 3; n <= 30; ++n) EXPECT_EQ(Push(n), Kept::kInMemory);
  ASSERT_EQ(taken_by_a.size(), 1u);
  EXPECT_TRUE(taken_by_a[0].ok()) << "it was delivered";
  ASSERT_EQ(taken_by_none.size(), 1u);
  EXPECT_EQ(taken_by_none[0].code, Code::kExhausted);
  const uint64_t lost = Lost(*b, RecordDropReason::kFull);
  EXPECT_EQ(Lost(*a, RecordDropReason::kFull) + 1, lost);
  EXPECT_EQ(AllLost(*b), lost);
  EXPECT_EQ(Take(*a), Range(lost + 1, 30));
  EXPECT_EQ(Take(*b), Range(lost + 1, 30));
  EXPECT_LT(lost, 16u);
}

TEST_F(MemoryOfALogTest, TheEndIsReported) {
  for (bool with_folder : {true, false}) {
    if (!with_folder) options_.folder.clear();
    else Block();
    Open();
    auto a = Attach("a"), b = Attach("b");
    Reported taken, not_taken;
    PushOnce(1, taken);
    PushOnce(2, not_taken);
    EXPECT_EQ(Take(*a, 1), Range(1, 1));
    a.reset(), b.reset(), log_.reset();
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_TRUE(taken[0].ok());
    ASSERT_EQ(not_taken.size(), 1u);
    EXPECT_EQ(not_taken[0].code, Code::kExhausted);
  }
}

TEST_F(MemoryOfALogTest, OrderIsKeptWhenTheFolderCanBeUsed) {
  OpenWithoutFolder();
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 1; n <= 6; ++n) EXPECT_EQ(Push(n), Kept::kInMemory);
  EXPECT_EQ(Take(*b, 2), Range(1, 2));
  const auto in_flight = b->Next();
  Unblock();
  for (uint64_t n = 7; n <= 9; ++n) EXPECT_EQ(Push(n), Kept::kOnDisk);
  EXPECT_EQ(Take(*a), Range(1, 9));
  b->Rewind();
  EXPECT_EQ(Take(*b), Range(3, 9));
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u);
  a.reset(), b.reset(), log_.reset();
  Open();
  a = Attach("a"), b = Attach("b");
  EXPECT_THAT(Take(*a), IsEmpty());
  EXPECT_THAT(Take(*b), IsEmpty());
  Push(10);
  EXPECT_EQ(Take(*a), Range(10, 10));
  EXPECT_EQ(Take(*b), Range(10, 10));
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u);
}

// Another process has the folder, with a backlog in it; then it ends.
TEST_F(MemoryOfALogTest, RecordsOfALockedFolderFollowOnceItIsFree) {
  Open();
  auto other = log_;
  auto others = Attach("a");
  others->Done((Push(1), others->Next()->id), true);
  Push(2), Push(3);
  Open();
  EXPECT_THAT(log_->disk().detail, HasSubstr("in use by process"));
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 10; n <= 14; ++n) EXPECT_EQ(Push(n), Kept::kInMemory);
  EXPECT_EQ(Take(*a, 2), Range(10, 11));
  const auto in_flight = a->Next();
  Later();
  EXPECT_FALSE(log_->disk().ok());
  EXPECT_EQ(Take(*a, 1), Range(13, 13));
  others.reset(), other.reset();
  Later();
  EXPECT_TRUE(log_->disk().ok());
  EXPECT_EQ(Push(15), Kept::kOnDisk);
  EXPECT_EQ(Take(*a), (std::vector<uint64_t>{2, 3, 14, 15})) << "those of before, and none again";
  EXPECT_EQ(AllLost(*a), 0u);
  a->Rewind();
  EXPECT_THAT(Take(*a), ElementsAre(12)) << "it was not done";
  EXPECT_EQ(Take(*b), Range(10, 15)) << "it is new here";
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u);
  a.reset(), b.reset(), log_.reset();
  Open();
  EXPECT_THAT(Take(*Attach("a")), IsEmpty());
  EXPECT_THAT(Take(*Attach("b")), IsEmpty());
}

// Nothing more can be written: what comes waits in memory behind what is on disk.
TEST_F(MemoryOfALogTest, AFullDiskKeepsTheOrder) {
  Open();
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 1; n <= 5; ++n) EXPECT_EQ(Push(n), Kept::kOnDisk);
  EXPECT_EQ(Take(*b, 2), Range(1, 2));
  {
    FileSizeLimit limit(0);
    for (uint64_t n = 6; n <= 8; ++n) EXPECT_EQ(Push(n), Kept::kInMemory);
    EXPECT_FALSE(log_->disk().ok());
    EXPECT_EQ(Take(*b, 4), Range(3, 6));
  }
  log_->Maintain();  // what was delivered meanwhile is known on disk from now on
  EXPECT_EQ(PositionOf("position.b"), 7u);
  for (uint64_t n = 9; n <= 11; ++n) EXPECT_EQ(Push(n), Kept::kOnDisk);
  EXPECT_TRUE(log_->disk().ok());
  {
    FileSizeLimit limit(0);
    EXPECT_EQ(Push(12), Kept::kInMemory);
    EXPECT_EQ(Take(*a, 7), Range(1, 7));
  }
  EXPECT_EQ(Push(13), Kept::kOnDisk);
  EXPECT_EQ(Take(*a), Range(8, 13));
  EXPECT_EQ(Take(*b), Range(7, 13));
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u);
  a.reset(), b.reset(), log_.reset();
  Open();
  EXPECT_THAT(Take(*Attach("a")), IsEmpty());
  EXPECT_THAT(Take(*Attach("b")), IsEmpty());
}

// The folder is renamed away while it is used, as if it were removed.
TEST_F(MemoryOfALogTest, AFolderThatVanishesCostsWhatWasInItAndIsMadeAgain) {
  Open();
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 1; n <= 10; ++n) Push(n);
  EXPECT_EQ(Take(*b, 4), Range(1, 4));
  const auto by_b = Begin(*b, 3);
  b->Done(by_b[1].id, true);
  fs::rename(folder_.path(), folder_.root() + "/away");
  Block();
  Later();
  EXPECT_FALSE(log_->disk().ok());
  EXPECT_EQ(Lost(*a, RecordDropReason::kDamaged), 10u);
  EXPECT_EQ(Lost(*b, RecordDropReason::kDamaged), 3u) << "what is under way may still arrive";
  EXPECT_TRUE(b->IsPending(by_b[0].id));
  b->Done(by_b[0].id, true);
  EXPECT_EQ(Push(11), Kept::kInMemory);
  b->Rewind();  // the third is lost by it
  EXPECT_EQ(Lost(*b, RecordDropReason::kDamaged), 4u);
  EXPECT_EQ(Take(*a), Range(11, 11));
  Unblock();
  EXPECT_EQ(Push(12), Kept::kOnDisk);
  EXPECT_EQ(Take(*a), Range(12, 12));
  EXPECT_EQ(Take(*b), Range(11, 12));
  EXPECT_EQ(AllLost(*a), 10u);
  EXPECT_EQ(AllLost(*b), 4u);
  Push(13);
  a.reset(), b.reset(), log_.reset();
  Open();
  EXPECT_EQ(Take(*Attach("a")), Range(13, 13));
  EXPECT_EQ(Take(*Attach("b")), Range(13, 13));
}

// The same, and none is done of those under way but one in the middle.
TEST_F(MemoryOfALogTest, RecordsInFlightWhenTheFolderVanishesAreCountedOnce) {
  Open();
  auto a = Attach("a");
  for (uint64_t n = 1; n <= 5; ++n) Push(n);
  const auto in_flight = Begin(*a, 3);
  a->Done(in_flight[1].id, true);
  fs::remove_all(folder_.path());
  Later();
  EXPECT_TRUE(log_->disk().ok()) << "it is there again";
  EXPECT_EQ(Lost(*a, RecordDropReason::kDamaged), 2u);
  a->Rewind();
  EXPECT_EQ(Push(6), Kept::kOnDisk);
  EXPECT_EQ(Take(*a), Range(6, 6));
  EXPECT_EQ(AllLost(*a), 4u);
}

TEST_F(MemoryOfALogTest, InMemoryOneThatIsAwayKeepsItsPlace) {
  options_.folder.clear();
  Open();
  auto a = Attach("a"), b = Attach("b");
  for (uint64_t n = 1; n <= 4; ++n) Push(n);
  EXPECT_EQ(Take(*b, 1), Range(1, 1));
  b.reset();
  EXPECT_EQ(Take(*a), Range(1, 4));
  Push(5);
  EXPECT_EQ(Take(*a), Range(5, 5));
  b = Attach("b");
  EXPECT_EQ(Take(*b), Range(2, 5));
  EXPECT_EQ(AllLost(*b), 0u);
  Push(6);
  b.reset();
  log_->Forget("b");
  EXPECT_EQ(Take(*a), Range(6, 6));
  a.reset();
  log_->Forget("a");
  EXPECT_TRUE(log_->RemoveIfDone());
}

TEST_F(MemoryOfALogTest, ReportsWithoutHoldingTheLocks) {
  OpenWithoutFolder();
  auto a = Attach("a");
  int reported = 0;
  ASSERT_TRUE(log_->Append(Numbered(1), 1,
                           [&](const Status&) {
                             ++reported;
                             EXPECT_EQ(log_->readers().size(), 1u);  // would wait for ever
                             EXPECT_EQ(a->stats().records, 0u);
                           })
                  .ok());
  Take(*a);
  EXPECT_EQ(reported, 1);
}

}  // namespace
}  // namespace gpulens
