// What holds of a log in memory and of one on disk, for one reader.
#include "delivery/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/testing/allocations.h"
#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

using namespace request_log_testing;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequestLogTest : public ::testing::TestWithParam<bool> {
 protected:
  OneLog::Options Plain() {
    OneLog::Options options;
    if (OnDisk()) options.folder = folder_.path();
    options.sync = SyncPolicy::kNone;
    return options;
  }
  static bool OnDisk() { return GetParam(); }
  std::unique_ptr<OneLog> Open(const OneLog::Options& options) {
    auto queue = OneLog::Open(options, clock_);
    EXPECT_TRUE(queue.ok()) << queue.error().detail;
    return *std::move(queue);
  }

  TestFolder folder_;
  ManualClock clock_;
};

INSTANTIATE_TEST_SUITE_P(Both, RequestLogTest, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "Disk" : "Memory"; });

TEST_P(RequestLogTest, GivesWhatItGotInOrder) {
  auto queue = Open(Plain());
  EXPECT_FALSE(queue->Front());
  int64_t begun = clock_.Now().unix_ns;
  for (uint64_t n = 1; n <= 100; ++n) {
    ASSERT_TRUE(queue->Push(Numbered(n, n * 7), static_cast<uint32_t>(n)).ok());
    clock_.Advance(seconds(1));
  }
  EXPECT_EQ(queue->stats().records, 100u);
  EXPECT_EQ(queue->stats().items, 5050u);
  EXPECT_EQ(queue->stats().oldest_age, Duration(seconds(100)));
  const LogRecord *first = queue->Front(), *again = queue->Front();
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->id, again->id);
  EXPECT_EQ(first->bytes, Numbered(1, 7));
  EXPECT_EQ(first->items, 1u);
  EXPECT_EQ(first->appended_unix_ns, begun);
  queue->Pop(first->id + 1);  // not the oldest
  EXPECT_EQ(queue->stats().records, 100u);
  EXPECT_EQ(Take(*queue), Range(1, 100));
  OneLog::Stats stats = queue->stats();
  EXPECT_EQ(stats.records, 0u);
  EXPECT_EQ(stats.items, 0u);
  EXPECT_EQ(stats.bytes, 0u);
  EXPECT_FALSE(stats.oldest_age);
  EXPECT_EQ(AllLost(*queue), 0u);
  EXPECT_TRUE(stats.last.ok());
}

TEST_P(RequestLogTest, TakesEmptyRecordsAndAnyBytes) {
  auto queue = Open(Plain());
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  for (const std::string& bytes : {std::string(), all, std::string("PRCL"), std::string(100, '\0')})
    ASSERT_TRUE(queue->Push(bytes, 0).ok());
  for (const std::string& bytes : {std::string(), all, std::string("PRCL"), std::string(100, '\0')}) {
    auto* record = queue->Front();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->bytes, bytes);
    queue->Pop(record->id);
  }
}

TEST_P(RequestLogTest, DropsTheOldestWhenFullAndCountsThem) {
  auto options = Plain();
  options.max_bytes = 100'000;
  auto queue = Open(options);
  constexpr uint64_t kPushed = 1000;
  for (uint64_t n = 1; n <= kPushed; ++n) {
    ASSERT_TRUE(queue->Push(Numbered(n, 1000), 3).ok());
    ASSERT_LE(queue->stats().held_bytes, options.max_bytes);
  }
  uint64_t kept = queue->stats().records;
  EXPECT_GT(kept, 70u) << "most of the room is used";
  EXPECT_EQ(Lost(*queue, RecordDropReason::kFull), kPushed - kept);
  EXPECT_EQ(LostItems(*queue, RecordDropReason::kFull), 3 * (kPushed - kept));
  EXPECT_EQ(AllLost(*queue), kPushed - kept);
  EXPECT_EQ(Take(*queue), Range(kPushed - kept + 1, kPushed));
}

TEST_P(RequestLogTest, RefusesWhatCanNeverFit) {
  auto options = Plain();
  options.max_bytes = 2000;
  auto queue = Open(options);
  ASSERT_TRUE(queue->Push(Numbered(1), 1).ok());
  Status status = queue->Push(std::string(2000, 'x'), 9);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_THAT(status.detail, HasSubstr("2000 bytes is larger than the queue"));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kTooLarge), 1u);
  EXPECT_EQ(LostItems(*queue, RecordDropReason::kTooLarge), 9u);
  EXPECT_THAT(Take(*queue), ElementsAre(1u)) << "nothing was dropped for it";
}

TEST_P(RequestLogTest, DropsWhatIsTooOldWhenLookedAtAndWhenPushed) {
  auto options = Plain();
  options.max_age = hours(1);
  auto queue = Open(options);
  ASSERT_TRUE(queue->Push(Numbered(1), 5).ok());
  clock_.Advance(std::chrono::minutes(40));
  ASSERT_TRUE(queue->Push(Numbered(2), 6).ok());
  clock_.Advance(std::chrono::minutes(20));
  EXPECT_EQ(queue->Front()->bytes, "1:") << "an hour is not more than an hour";
  clock_.Advance(seconds(1));
  EXPECT_EQ(queue->Front()->bytes, "2:");
  EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), 1u);
  EXPECT_EQ(LostItems(*queue, RecordDropReason::kOld), 5u);
  clock_.Advance(hours(2));
  ASSERT_TRUE(queue->Push(Numbered(3), 7).ok());
  EXPECT_EQ(queue->stats().records, 1u);
  EXPECT_THAT(Take(*queue), ElementsAre(3u));
  // The second was on its way when it was dropped, and did not come back before the third was requested.
  EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), 2u);
}

TEST_P(RequestLogTest, ARecordThatIsDroppedOnItsWayIsLostOnlyIfItDoesNotArrive) {
  auto options = Plain();
  options.max_age = hours(1);
  for (bool arrives : {true, false}) {
    auto queue = Open(options);
    ASSERT_TRUE(queue->Push(Numbered(1), 5).ok());
    auto* record = queue->Front();
    ASSERT_TRUE(record);
    clock_.Advance(hours(2));
    ASSERT_TRUE(queue->Push(Numbered(2), 6).ok());
    EXPECT_EQ(AllLost(*queue), 0u) << "nobody knows yet";
    if (arrives) queue->Pop(record->id);
    EXPECT_THAT(Take(*queue), ElementsAre(2u));
    EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), arrives ? 0u : 1u);
    EXPECT_EQ(LostItems(*queue, RecordDropReason::kOld), arrives ? 0u : 5u);
  }
}

// Wall time jumps a year forward and two back while the queue is open: no age changes.
TEST_P(RequestLogTest, AgesDoNotFollowTheWallClock) {
  class JumpingClock final : public Clock {
   public:
    Instant Now() const noexcept override { return now; }
    Instant now = ManualClock().Now();
  } clock;
  auto options = Plain();
  options.max_age = hours(1);
  auto opened = OneLog::Open(options, clock);
  ASSERT_TRUE(opened.ok());
  OneLog& queue = **opened;
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1'000'000'000;
  ASSERT_TRUE(queue.Push(Numbered(1), 1).ok());
  clock.now.unix_ns += kYear;
  clock.now.boot_ns += 60'000'000'000;
  EXPECT_EQ(queue.stats().oldest_age, Duration(seconds(60)));
  ASSERT_TRUE(queue.Push(Numbered(2), 1).ok());
  clock.now.unix_ns -= 2 * kYear;
  EXPECT_EQ(queue.stats().oldest_age, Duration(seconds(60)));
  EXPECT_THAT(Take(queue, 1), ElementsAre(1u));
  EXPECT_EQ(queue.stats().oldest_age, Duration(0)) << "never negative";
  clock.now.boot_ns += 3601'000'000'000;
  EXPECT_FALSE(queue.Front()) << "a jump back keeps nothing for ever";
  EXPECT_EQ(Lost(queue, RecordDropReason::kOld), 1u);
}

TEST_P(RequestLogTest, OnePushesAndOneTakes) {
  auto options = Plain();
  options.segment_bytes = 64 << 10;
  auto queue = Open(options);
  constexpr uint64_t kCount = 3000;
  std::thread pusher([&] {
    for (uint64_t n = 1; n <= kCount; ++n) EXPECT_TRUE(queue->Push(Numbered(n, n % 500), 1).ok());
  });
  std::vector<uint64_t> got;
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (got.size() < kCount && std::chrono::steady_clock::now() < end) {
    auto some = Take(*queue, 10);
    got.insert(got.end(), some.begin(), some.end());
    ASSERT_LE(queue->stats().records, kCount);
  }
  pusher.join();
  EXPECT_EQ(got, Range(1, kCount));
  EXPECT_EQ(AllLost(*queue), 0u);
}

TEST_P(RequestLogTest, ASteadyRunAllocatesOnlyTheRecord) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "allocations are not counted under this sanitizer";
  auto queue = Open(Plain());
  const std::string bytes(10'000, 'x');
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(queue->Push(bytes, 1).ok());
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(queue->Push(bytes, 1).ok());
  // In memory some records share a block.
  EXPECT_LE(ThreadAllocations() - before, OnDisk() ? 0u : 66u);
  before = ThreadAllocations();
  for (int i = 0; i < 20; ++i) {
    auto* record = queue->Front();
    ASSERT_TRUE(record);
    queue->Pop(record->id);
  }
  EXPECT_EQ(ThreadAllocations() - before, 20u) << "the copy that Front gives out";
}

TEST(RecordDropReasonName, IsOneWord) {
  EXPECT_EQ(RecordDropReasonName(RecordDropReason::kNotKept), "not_kept");
  EXPECT_EQ(RecordDropReasonName(RecordDropReason::kFull), "queue_full");
  EXPECT_EQ(RecordDropReasonName(RecordDropReason::kOld), "too_old");
  EXPECT_EQ(RecordDropReasonName(RecordDropReason::kDamaged), "damaged");
  EXPECT_EQ(RecordDropReasonName(RecordDropReason::kTooLarge), "too_large");
}

}  // namespace
}  // namespace gpulens
