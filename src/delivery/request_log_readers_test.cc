// Several readers of one log on disk: none holds up another, and none loses what another had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class RequestLogReadersTest : public ::testing::Test {
 protected:
  RequestLogReadersTest() {
    options_.folder = folder_.path();
    options_.owner = "a";
    options_.segment_bytes = 4096;
    options_.memory_bytes = 0;
    options_.sync = SyncPolicy::kNone;
    Open();
  }
  void Open() {
    log_ = RequestLog::Open(options_, clock_);
    ASSERT_TRUE(log_->disk().ok()) << log_->disk().detail;
  }
  // As after the end of the process. Readers must be gone.
  void Reopen() {
    ASSERT_EQ(log_.use_count(), 1);
    log_.reset();
    Open();
  }
  // What is there when the process is killed now.
  std::shared_ptr<RequestLog> OpenAsAfterAKill() {
    RequestLogOptions options = options_;
    options.folder = folder_.root() + "/copy";
    fs::remove_all(options.folder);
    fs::copy(folder_.path(), options.folder);
    return RequestLog::Open(options, clock_);
  }
  std::shared_ptr<LogReader> Attach(const std::string& name, ReaderBounds bounds = {}) {
    auto reader = log_->Attach(name, bounds, {});
    EXPECT_TRUE(reader);
    return reader;
  }
  void Push(uint64_t first, uint64_t last, size_t size = 1000) {
    for (uint64_t n = first; n <= last; ++n) {
      const auto kept = log_->Append(Numbered(n, size), 2);
      ASSERT_TRUE(kept.ok()) << kept.error().detail;
      ASSERT_EQ(*kept, RequestLog::Kept::kOnDisk);
    }
  }
  uint64_t DiskBytes() const {
    uint64_t sum = 0;
    for (const std::string& path : folder_.Segments()) sum += fs::file_size(path);
    return sum;
  }

  TestFolder folder_;
  ManualClock clock_;
  RequestLogOptions options_;
  std::shared_ptr<RequestLog> log_;
};

TEST_F(RequestLogReadersTest, AnIdleReaderDelaysNoOther) {
  auto a = Attach("a"), b = Attach("b"), c = Attach("c");
  for (uint64_t n = 1; n <= 100; ++n) {
    Push(n, n);
    EXPECT_THAT(Take(*a), ElementsAre(n));
    if (n != 60) continue;
    EXPECT_EQ(Take(*c), Range(1, 60));
  }
  EXPECT_EQ(b->stats().records, 100u);
  EXPECT_EQ(b->stats().items, 200u);
  EXPECT_EQ(c->stats().records, 40u);
  EXPECT_EQ(DiskBytes(), b->stats().held_bytes) << "the larger backlog, not the sum";
  EXPECT_LT(c->stats().held_bytes, b->stats().held_bytes / 2);
  EXPECT_LT(a->stats().held_bytes, options_.segment_bytes + 1);
  EXPECT_EQ(Take(*b), Range(1, 100));
  EXPECT_EQ(DiskBytes(), c->stats().held_bytes);
  EXPECT_EQ(Take(*c), Range(61, 100));
  EXPECT_LE(folder_.Segments().size(), 1u);
  EXPECT_EQ(AllLost(*a) + AllLost(*b) + AllLost(*c), 0u);
}

TEST_F(RequestLogReadersTest, EachReaderHasItsOwnBound) {
  auto a = Attach("a"), b = Attach("b", {.max_bytes = 20'000}), c = Attach("c", {.max_bytes = 50'000});
  for (uint64_t n = 1; n <= 100; ++n) {
    Push(n, n);
    ASSERT_LE(b->stats().held_bytes, 20'000u);
    ASSERT_LE(c->stats().held_bytes, 50'000u);
  }
  for (const auto& reader : {b, c}) {
    const uint64_t lost = Lost(*reader, RecordDropReason::kFull);
    EXPECT_GT(lost, reader == b ? 80u : 50u);
    EXPECT_LT(lost, reader == b ? 88u : 60u) << "most of the room is used";
    EXPECT_EQ(AllLost(*reader), lost);
    EXPECT_EQ(reader->stats().dropped_items[static_cast<size_t>(RecordDropReason::kFull)], 2 * lost);
    EXPECT_EQ(Take(*reader), Range(lost + 1, 100));
  }
  EXPECT_EQ(Take(*a), Range(1, 100)) << "no other loses anything by it";
  EXPECT_EQ(AllLost(*a), 0u);
}

TEST_F(RequestLogReadersTest, ABoundThatShrinksAppliesAtOnce) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 40);
  b->SetBounds({.max_bytes = 10'000});
  EXPECT_LE(b->stats().held_bytes, 10'000u);
  const uint64_t lost = Lost(*b, RecordDropReason::kFull);
  EXPECT_EQ(Take(*b), Range(lost + 1, 40));
  EXPECT_EQ(Take(*a), Range(1, 40));
  // And so does that with which one comes back.
  Push(41, 80);
  b.reset();
  b = Attach("b", {.max_bytes = 10'000});
  EXPECT_LE(b->stats().held_bytes, 10'000u);
  EXPECT_EQ(Take(*b).size() + AllLost(*b), 40u + lost);
}

TEST_F(RequestLogReadersTest, AgesAreThoseOfEachReader) {
  auto a = Attach("a", {.max_age = hours(1)}), b = Attach("b");
  Push(1, 5);
  clock_.Advance(hours(2));
  Push(6, 7);
  EXPECT_EQ(Take(*a), Range(6, 7));
  EXPECT_EQ(Lost(*a, RecordDropReason::kOld), 5u);
  EXPECT_EQ(b->stats().oldest_age, Duration(hours(2)));
  EXPECT_EQ(Take(*b), Range(1, 7));
}

TEST_F(RequestLogReadersTest, ANewOneBeginsAtTheEndAndTheOwnerAtTheBeginning) {
  auto b = Attach("b");
  Push(1, 5);
  auto c = Attach("otlp/c");
  EXPECT_FALSE(c->Next());
  EXPECT_EQ(Take(*Attach("a")), Range(1, 5)) << "the owner has no position yet";
  Push(6, 6);
  EXPECT_THAT(Take(*c), ElementsAre(6u));
  EXPECT_EQ(Take(*b), Range(1, 6));
  EXPECT_TRUE(fs::exists(folder_.File("position")));
  EXPECT_TRUE(fs::exists(folder_.File("position.b")));
  EXPECT_TRUE(fs::exists(folder_.File("position.otlp.c")));
  b.reset(), c.reset();
  Reopen();
  EXPECT_THAT(log_->readers(), UnorderedElementsAre("a", "b", "otlp/c"));
  EXPECT_TRUE(log_->Knows("otlp/c"));
  EXPECT_TRUE(RequestLog::HasReader(folder_.path(), "otlp/c", "a"));
  EXPECT_FALSE(RequestLog::HasReader(folder_.path(), "c", "a"));
}

TEST_F(RequestLogReadersTest, OnlyOneReaderOfANameAttaches) {
  auto a = Attach("a");
  EXPECT_FALSE(log_->Attach("a", {}, {}));
  EXPECT_EQ(log_->attached(), 1u);
  Push(1, 1);
  a.reset();
  EXPECT_EQ(log_->attached(), 0u);
  EXPECT_EQ(Take(*Attach("a")), Range(1, 1));
}

TEST_F(RequestLogReadersTest, WithoutReadersNothingIsTaken) {
  EXPECT_EQ(log_->Append("x", 1).error().code, Code::kUnavailable);
  Attach("a").reset();
  EXPECT_EQ(log_->Append("x", 1).error().code, Code::kUnavailable);
}

TEST_F(RequestLogReadersTest, OneThatLeavesAndComesBackKeepsItsPlace) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 10);
  EXPECT_EQ(Take(*b, 3), Range(1, 3));
  EXPECT_EQ(Begin(*b, 2).size(), 2u);
  b.reset();
  Push(11, 20);
  EXPECT_EQ(Take(*a), Range(1, 20));
  ASSERT_THAT(log_->leftovers(), SizeIs(1));
  EXPECT_EQ(log_->leftovers()[0].reader, "b");
  EXPECT_EQ(log_->leftovers()[0].records, 17u);
  b = Attach("b");
  EXPECT_THAT(log_->leftovers(), IsEmpty());
  EXPECT_EQ(b->stats().records, 17u);
  EXPECT_EQ(Take(*b, 2), Range(4, 5)) << "what was under way comes again";
  a.reset(), b.reset();
  Reopen();
  a = Attach("a");
  Push(21, 22);
  EXPECT_EQ(Take(*a), Range(21, 22));
  EXPECT_EQ(Take(*Attach("b")), Range(6, 22));
}

// Of a reader that this run has not seen the bound of the log holds.
TEST_F(RequestLogReadersTest, OneThatIsAwayIsBoundedToo) {
  Attach("b").reset();
  options_.max_bytes = 32'000;
  Reopen();
  auto a = Attach("a");
  for (uint64_t n = 1; n <= 100; ++n) {
    Push(n, n);
    EXPECT_THAT(Take(*a), ElementsAre(n));
    ASSERT_LE(DiskBytes(), 32'000u);
  }
  auto b = Attach("b");
  const uint64_t lost = Lost(*b, RecordDropReason::kFull);
  EXPECT_GT(lost, 60u);
  EXPECT_EQ(Take(*b), Range(lost + 1, 100));
}

TEST_F(RequestLogReadersTest, ForgettingFreesTheDisk) {
  auto a = Attach("a"), b = Attach("b"), c = Attach("c");
  Push(1, 20);
  EXPECT_EQ(Take(*a), Range(1, 20));
  log_->Forget("b");
  EXPECT_TRUE(log_->Knows("b")) << "not while it is attached";
  b.reset();
  EXPECT_THAT(folder_.Segments(), SizeIs(7));
  log_->Forget("b");
  EXPECT_FALSE(log_->Knows("b"));
  EXPECT_FALSE(fs::exists(folder_.File("position.b")));
  EXPECT_THAT(folder_.Segments(), SizeIs(7)) << "kept for the other";
  c->ForgetOnDetach();
  EXPECT_THAT(folder_.Segments(), SizeIs(7));
  c.reset();
  EXPECT_LE(folder_.Segments().size(), 1u);
  EXPECT_THAT(log_->readers(), ElementsAre("a"));
  EXPECT_FALSE(log_->RemoveIfDone()) << "a may come back";
}

TEST_F(RequestLogReadersTest, AFolderGoesWithItsLastReader) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 20);
  EXPECT_EQ(Take(*a), Range(1, 20));
  EXPECT_EQ(Take(*b), Range(1, 20));
  a->ForgetOnDetach(), b->ForgetOnDetach();
  a.reset();
  EXPECT_FALSE(log_->RemoveIfDone());
  EXPECT_TRUE(log_->Append(Numbered(21), 1).ok()) << "it was not closed";
  b.reset();
  Change(folder_.File("notes"), "by someone else");
  EXPECT_FALSE(log_->RemoveIfDone());
  EXPECT_TRUE(fs::exists(folder_.File("notes")));
  EXPECT_FALSE(log_->Append("x", 1).ok()) << "it is closed";
}

TEST_F(RequestLogReadersTest, RecordsDoneOutOfOrderStayDoneAfterARestart) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 12);
  const auto in_flight = Begin(*a, 8);
  ASSERT_THAT(in_flight, SizeIs(8));
  for (size_t i : {1u, 3u, 7u}) a->Done(in_flight[i].id, true);
  EXPECT_EQ(a->stats().records, 9u);
  const auto killed = OpenAsAfterAKill();
  auto again = killed->Attach("a", {}, {});
  EXPECT_THAT(Take(*again), ElementsAre(1, 3, 5, 6, 7, 9, 10, 11, 12));
  EXPECT_EQ(AllLost(*again), 0u);
  EXPECT_EQ(Take(*killed->Attach("b", {}, {})), Range(1, 12));
  a.reset(), b.reset();
  Reopen();
  a = Attach("a");
  const auto rest = Begin(*a, 2);
  EXPECT_EQ(rest[0].bytes, Numbered(1, 1000));
  EXPECT_EQ(rest[1].bytes, Numbered(3, 1000));
  a->Done(rest[1].id, true);  // again out of order
  a.reset();
  Reopen();
  EXPECT_THAT(Take(*Attach("a")), ElementsAre(1, 5, 6, 7, 9, 10, 11, 12));
  EXPECT_EQ(Take(*Attach("b")), Range(1, 12));
}

// The most that may be under way, the first of them not done: all others are known to be done.
TEST_F(RequestLogReadersTest, AtMostRecordsInFlightAreRepeated) {
  auto a = Attach("a");
  Push(1, 80, 300);
  const auto in_flight = Begin(*a, 100);
  ASSERT_THAT(in_flight, SizeIs(LogReader::kMaxInFlight));
  EXPECT_FALSE(a->ready());
  for (size_t i = in_flight.size() - 1; i > 0; --i) a->Done(in_flight[i].id, true);
  EXPECT_EQ(a->stats().records, 17u);
  // Delivered records make room even if the first is not delivered: at most as many as a position can hold.
  const auto more = Begin(*a, 100);
  for (const LogRecord& record : more) a->Done(record.id, true);
  const auto killed = OpenAsAfterAKill();
  std::vector<uint64_t> expected{1};
  for (uint64_t n = 65 + more.size(); n <= 80; ++n) expected.push_back(n);
  const auto got = Take(*killed->Attach("a", {}, {}));
  EXPECT_EQ(got, expected);
}

TEST_F(RequestLogReadersTest, RewindGivesOutAgainWhatIsNotDone) {
  auto a = Attach("a");
  Push(1, 10);
  const auto in_flight = Begin(*a, 6);
  a->Done(in_flight[1].id, true);
  a->Done(in_flight[0].id, true);
  a->Done(in_flight[4].id, true);
  a->Rewind();
  EXPECT_EQ(a->stats().records, 8u) << "one that is done is counted until it is passed";
  EXPECT_TRUE(a->ready());
  a->Done(in_flight[3].id, true);  // it is not under way any more
  EXPECT_EQ(a->stats().records, 8u);
  a->Rewind();
  EXPECT_THAT(Take(*a), ElementsAre(3, 4, 6, 7, 8, 9, 10));
  EXPECT_EQ(a->stats().records, 0u);
  EXPECT_EQ(AllLost(*a), 0u);
}

TEST_F(RequestLogReadersTest, AGivenUpRecordIsDroppedForThatReader) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 3);
  const auto in_flight = Begin(*a, 2);
  a->GiveUp(in_flight[1].id);
  a->GiveUp(in_flight[1].id);
  a->Done(in_flight[0].id, false);  // refused: the sender counts it
  EXPECT_EQ(Lost(*a, RecordDropReason::kNotKept), 1u);
  EXPECT_EQ(AllLost(*a), 1u);
  a->Rewind();
  EXPECT_THAT(Take(*a), ElementsAre(3));
  EXPECT_EQ(Take(*b), Range(1, 3));
  EXPECT_EQ(AllLost(*b), 0u);
}

TEST_F(RequestLogReadersTest, ARecordDroppedInFlightCountsUnlessDelivered) {
  auto a = Attach("a"), b = Attach("b", {.max_bytes = 20'000});
  Push(1, 10);
  const auto in_flight = Begin(*b, 3);
  Push(11, 40);
  for (const LogRecord& record : in_flight) {
    EXPECT_FALSE(b->IsPending(record.id));
  }
  const uint64_t others = Lost(*b, RecordDropReason::kFull);
  b->Done(in_flight[0].id, true);
  b->GiveUp(in_flight[1].id);
  EXPECT_EQ(Lost(*b, RecordDropReason::kFull), others + 1);
  b->Rewind();
  EXPECT_EQ(Lost(*b, RecordDropReason::kFull), others + 2);
  EXPECT_EQ(AllLost(*b), others + 2);
  EXPECT_EQ(Take(*b).size() + others + 3, 40u);
  EXPECT_EQ(Take(*a), Range(1, 40));
}

// A destroyed header and a file that is gone: the records in them, for each reader that was not past them.
TEST_F(RequestLogReadersTest, DamageIsCountedForEachReader) {
  auto a = Attach("a"), b = Attach("b"), c = Attach("c");
  Push(1, 21);  // three in a segment
  EXPECT_EQ(Take(*b, 7), Range(1, 7));
  EXPECT_EQ(Take(*c), Range(1, 21));
  a.reset(), b.reset(), c.reset(), log_.reset();
  auto segments = folder_.Segments();
  ASSERT_THAT(segments, SizeIs(7));
  fs::remove(segments[1]);                         // 4, 5, 6
  Change(segments[2], std::string(4000, '\x7f'));  // 7, 8, 9; set aside as no segment of ours
  std::string bytes = Bytes(segments[4]);          // 13, 14, 15
  bytes[20] = static_cast<char>(bytes[20] ^ 1), bytes[68] = static_cast<char>(bytes[68] ^ 1);
  Change(segments[4], bytes);
  Flip(segments[5], 96 + 44 + 20);  // a body: 16
  Open();
  a = Attach("a"), b = Attach("b"), c = Attach("c");
  EXPECT_THAT(Take(*a), ElementsAre(1, 2, 3, 10, 11, 12, 17, 18, 19, 20, 21));
  EXPECT_EQ(Lost(*a, RecordDropReason::kDamaged), 10u);
  EXPECT_THAT(Take(*b), ElementsAre(10, 11, 12, 17, 18, 19, 20, 21));
  EXPECT_EQ(Lost(*b, RecordDropReason::kDamaged), 6u);
  EXPECT_THAT(Take(*c), IsEmpty());
  EXPECT_EQ(AllLost(*c), 0u);
  EXPECT_THAT(folder_.Ending(".unknown"), SizeIs(1)) << "kept for people";
  Push(22, 23);
  for (const auto& reader : {a, b, c}) EXPECT_EQ(Take(*reader), Range(22, 23));
}

TEST_F(RequestLogReadersTest, AFileThatIsRemovedUnderARunningLogIsCounted) {
  auto a = Attach("a"), b = Attach("b");
  Push(1, 12);
  EXPECT_EQ(Take(*a, 7), Range(1, 7));
  const auto in_flight = Begin(*a, 1);
  fs::remove(folder_.Segments()[1]);  // 4, 5, 6
  fs::remove(folder_.Segments()[2]);  // 10, 11, 12
  EXPECT_THAT(Take(*b), ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_EQ(Lost(*b, RecordDropReason::kDamaged), 6u);
  EXPECT_THAT(Take(*a), ElementsAre(9));
  EXPECT_EQ(Lost(*a, RecordDropReason::kDamaged), 3u);
  a->Done(in_flight[0].id, true);
  Push(13, 14);
  EXPECT_EQ(Take(*a), Range(13, 14));
  EXPECT_EQ(Take(*b), Range(13, 14));
  a.reset(), b.reset();
  Reopen();
  a = Attach("a"), b = Attach("b");
  EXPECT_THAT(Take(*a), IsEmpty());
  EXPECT_THAT(Take(*b), IsEmpty());
  EXPECT_EQ(AllLost(*a) + AllLost(*b), 0u) << "counted once";
}

TEST_F(RequestLogReadersTest, ADestroyedPositionRepeatsOnlyForThatReader) {
  auto a = Attach("a"), b = Attach("b"), c = Attach("c");
  Push(1, 5);
  for (const auto& reader : {a, b, c}) EXPECT_EQ(Take(*reader, 4), Range(1, 4));
  a.reset(), b.reset(), c.reset(), log_.reset();
  Change(folder_.File("position.b"), "garbage");
  Open();
  EXPECT_EQ(Take(*Attach("b")), Range(4, 5)) << "all that is still there";
  EXPECT_THAT(Take(*Attach("a")), ElementsAre(5));
  EXPECT_THAT(Take(*Attach("c")), ElementsAre(5));
  EXPECT_THAT(folder_.Ending("position.b.unknown"), SizeIs(1));
}

TEST_F(RequestLogReadersTest, ReadersHearOfEachAppend) {
  int a_woken = 0, b_woken = 0;
  auto a = log_->Attach("a", {}, [&] { ++a_woken; });
  auto b = log_->Attach("b", {}, [&] { ++b_woken; });
  Push(1, 3);
  EXPECT_EQ(a_woken, 3);
  b.reset();
  Push(4, 4);
  EXPECT_EQ(a_woken, 4);
  EXPECT_EQ(b_woken, 3);
}

}  // namespace
}  // namespace gpulens
