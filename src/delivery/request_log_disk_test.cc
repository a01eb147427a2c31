// The form on disk: what an earlier run left, what a bad disk makes of it, and what others do in the folder.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <array>

#include "base/sanitizers.h"
#include "delivery/request_log_testing.h"
#include "delivery/segment_file.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kBoot = "11111111-1111-1111-1111-111111111111";
constexpr const char* kOtherBoot = "22222222-2222-2222-2222-222222222222";

class DiskQueueTest : public ::testing::Test {
 protected:
  DiskQueueTest() {
    options_.folder = folder_.path();
    options_.segment_bytes = 4096;
    options_.sync = SyncPolicy::kNone;
    options_.boot_id = kBoot;
  }
  std::unique_ptr<OneLog> Open() {
    auto queue = OneLog::Open(options_, clock_);
    EXPECT_TRUE(queue.ok()) << queue.error().detail;
    return *std::move(queue);
  }
  // Records `first` to `last` of 1000 bytes with two items each: three fit in a segment.
  static void Push(OneLog& queue, uint64_t first, uint64_t last) {
    for (uint64_t n = first; n <= last; ++n) ASSERT_TRUE(queue.Push(Numbered(n, 1000), 2).ok());
  }
  void Leave(uint64_t last) {
    auto queue = Open();
    Push(*queue, 1, last);
  }
  // Offset of the i-th record of a segment of Push.
  static size_t RecordAt(size_t i) { return kSegmentHeaderBytes + i * (kRecordHeadBytes + 1000); }

  TestFolder folder_;
  ManualClock clock_;
  OneLog::Options options_;
};

TEST_F(DiskQueueTest, TakesOverWhatAnEarlierRunLeft) {
  Leave(10);
  {
    auto queue = Open();
    EXPECT_EQ(queue->stats().records, 10u);
    EXPECT_EQ(queue->stats().items, 20u);
    EXPECT_EQ(queue->stats().bytes, 10 * (1000 + kRecordHeadBytes));
    EXPECT_TRUE(queue->reader().ready());
    EXPECT_EQ(Take(*queue, 5), Range(1, 5));
    Push(*queue, 11, 12);
  }
  {
    auto queue = Open();
    EXPECT_EQ(queue->stats().records, 7u);
    EXPECT_EQ(Take(*queue), Range(6, 12));
  }
  auto queue = Open();
  EXPECT_EQ(queue->stats().records, 0u);
  EXPECT_THAT(Take(*queue), IsEmpty());
  EXPECT_THAT(folder_.Segments(), IsEmpty()) << "what is delivered goes";
  EXPECT_EQ(queue->stats().held_bytes, 0u);
  EXPECT_EQ(AllLost(*queue), 0u);
}

TEST_F(DiskQueueTest, IdsAreNeverUsedTwice) {
  uint64_t last = 0;
  for (uint64_t n = 1; n <= 4; ++n) {
    auto queue = Open();
    Push(*queue, n, n);
    auto* record = queue->Front();
    ASSERT_TRUE(record);
    EXPECT_GT(record->id, last);
    last = record->id;
    if (n % 2) queue->Pop(record->id);
    else EXPECT_EQ(Take(*queue).size(), 1u);
  }
}

TEST_F(DiskQueueTest, IsOnlyForItsOwner) {
  mode_t before = ::umask(0);
  Leave(1);
  auto queue = Open();
  EXPECT_THAT(Take(*queue), ElementsAre(1u));
  ::umask(before);
  auto mode = [](const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(folder_.path()), 0700u);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(mode(entry.path()), 0600u) << entry;
}

TEST_F(DiskQueueTest, BelongsToOneProcess) {
  auto queue = Open();
  auto second = OneLog::Open(options_, clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().detail, HasSubstr("in use by process " + std::to_string(::getpid())));
  Push(*queue, 1, 1);
  Change(folder_.File("lock"), "who knows");
  EXPECT_THAT(OneLog::Open(options_, clock_).error().detail, HasSubstr("in use by another process"));
  queue.reset();
  EXPECT_THAT(Take(*Open()), ElementsAre(1u));
}

TEST_F(DiskQueueTest, ReportsWhyItCannotBeOpened) {
  Change(folder_.root() + "/file", "x");
  options_.folder = folder_.root() + "/file";
  EXPECT_EQ(OneLog::Open(options_, clock_).error().code, Code::kUnavailable);
  options_.folder = folder_.root() + "/made/on/the/way";
  Push(*Open(), 1, 1);
  EXPECT_THAT(Take(*Open()), ElementsAre(1u));
}

TEST_F(DiskQueueTest, ARecordMayBeLargerThanASegment) {
  auto queue = Open();
  Push(*queue, 1, 1);
  ASSERT_TRUE(queue->Push(Numbered(2, 100'000), 1).ok());
  Push(*queue, 3, 3);
  EXPECT_EQ(folder_.Segments().size(), 3u);
  EXPECT_EQ(Take(*queue), Range(1, 3));
}

TEST_F(DiskQueueTest, TheBoundIsOnWhatIsOnTheDisk) {
  options_.max_bytes = 40'000;
  auto queue = Open();
  for (uint64_t n = 1; n <= 200; ++n) {
    Push(*queue, n, n);
    uint64_t sum = 0;
    for (const std::string& path : folder_.Segments()) sum += fs::file_size(path);
    ASSERT_LE(sum, options_.max_bytes);
    ASSERT_EQ(sum, queue->stats().held_bytes);
  }
  uint64_t kept = queue->stats().records;
  EXPECT_EQ(Lost(*queue, RecordDropReason::kFull), 200 - kept);
  queue.reset();
  options_.max_bytes = 15'000;  // a smaller bound holds at once
  queue = Open();
  EXPECT_LE(queue->stats().held_bytes, 15'000u);
  EXPECT_EQ(Lost(*queue, RecordDropReason::kFull) + queue->stats().records, kept);
  std::vector<uint64_t> got = Take(*queue);
  EXPECT_EQ(got, Range(201 - got.size(), 200));
  EXPECT_GT(got.size(), 5u);
}

// --- A bad disk ---

TEST_F(DiskQueueTest, ADamagedBodyCostsOneRecord) {
  Leave(9);
  Flip(folder_.Segments()[1], RecordAt(1) + kRecordHeadBytes + 500);
  auto queue = Open();
  EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 1u);
  EXPECT_EQ(LostItems(*queue, RecordDropReason::kDamaged), 2u);
  EXPECT_EQ(AllLost(*queue), 1u);
  EXPECT_EQ(queue->stats().records, 0u);
}

TEST_F(DiskQueueTest, ADamagedHeadCostsOneRecordWhereverItIsHit) {
  for (size_t at = 0; at < kRecordHeadBytes; ++at) {
    fs::remove_all(folder_.path());
    Leave(9);
    Flip(folder_.Segments()[1], RecordAt(1) + at);
    auto queue = Open();
    EXPECT_EQ(queue->stats().records, 8u);
    ASSERT_EQ(Take(*queue), (std::vector<uint64_t>{1, 2, 3, 4, 6, 7, 8, 9})) << at;
    EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 1u);
    EXPECT_EQ(LostItems(*queue, RecordDropReason::kDamaged), 0u) << "nobody knows how many";
  }
}

TEST_F(DiskQueueTest, ADamagedHeaderCopyCostsNoRecord) {
  for (size_t at = 0; at < kSegmentHeaderBytes; ++at) {
    fs::remove_all(folder_.path());
    Leave(4);
    Flip(folder_.Segments()[0], at);
    auto queue = Open();
    ASSERT_EQ(Take(*queue), Range(1, 4)) << at;
    EXPECT_EQ(AllLost(*queue), 0u);
  }
}

TEST_F(DiskQueueTest, TwoDamagesInTheHeaderCostTheSegment) {
  Leave(9);
  Flip(folder_.Segments()[1], 20);
  Flip(folder_.Segments()[1], kSegmentHeaderBytes / 2 + 20);
  auto queue = Open();
  EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 3u);
  EXPECT_THAT(folder_.Ending(".unknown"), IsEmpty());
}

TEST_F(DiskQueueTest, AZeroedOrShortSegmentIsDamageToo) {
  Leave(12);
  auto segments = folder_.Segments();
  Change(segments[1], std::string(3000, '\0'));
  Change(segments[2], Bytes(segments[2]).substr(0, RecordAt(1) + 100));
  Change(segments[0], "");
  auto queue = Open();
  EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{7, 10, 11, 12}));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 8u);
}

TEST_F(DiskQueueTest, ATornTailIsNoLoss) {
  Leave(3);
  std::string path = folder_.Segments()[0], whole = Bytes(path);
  // Everything that a crash in the middle of a write may leave behind three whole records, zeros included.
  std::string record = whole.substr(RecordAt(2));
  for (size_t size : std::vector<size_t>{1, 4, 43, 44, 45, 600, 1043}) {
    for (bool zeros : {false, true}) {
      fs::remove(folder_.File("position"));
      Change(path, whole.substr(0, RecordAt(2)) + (zeros ? std::string(size, '\0') : record.substr(0, size)));
      auto queue = Open();
      EXPECT_EQ(queue->stats().records, 2u);
      Push(*queue, 4, 4);
      EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{1, 2, 4})) << size << zeros;
      EXPECT_EQ(AllLost(*queue), 0u) << size << zeros;
    }
  }
  // A whole record that is damaged was accepted, and is counted.
  Change(path, whole);
  Flip(path, RecordAt(2) + 10);
  fs::remove(folder_.File("position"));
  auto queue = Open();
  EXPECT_EQ(Take(*queue), Range(1, 2));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 1u);
}

TEST_F(DiskQueueTest, AFileThatWasOnlyBegunGoes) {
  Leave(3);
  Change(folder_.File("00000000000000000004.seg"), "");
  auto queue = Open();
  EXPECT_EQ(folder_.Segments().size(), 1u);
  Push(*queue, 4, 4);
  EXPECT_EQ(Take(*queue), Range(1, 4));
  EXPECT_EQ(AllLost(*queue), 0u);
}

// A record whose bytes are a segment with records in it, as a forwarded backup might be.
TEST_F(DiskQueueTest, BytesOfARecordWithinABodyAreIgnored) {
  Leave(3);
  std::string inner = Bytes(folder_.Segments()[0]);
  fs::remove_all(folder_.path());
  {
    auto queue = Open();
    Push(*queue, 1, 1);
    ASSERT_TRUE(queue->Push(inner, 1).ok());
    Push(*queue, 3, 3);
  }
  Flip(folder_.Segments()[1], kSegmentHeaderBytes + 6);  // its head: the search goes through its bytes
  auto queue = Open();
  EXPECT_THAT(Take(*queue), ElementsAre(1u, 3u));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 1u);
}

TEST_F(DiskQueueTest, APositionThatIsGoneOrDamagedMeansAgain) {
  Leave(3);
  ASSERT_EQ(Take(*Open(), 2), Range(1, 2));
  Flip(folder_.File("position"), 9);  // one of two slots
  EXPECT_EQ(Open()->stats().records, 2u) << "the number before it";
  Flip(folder_.File("position"), 512 + 9);
  EXPECT_EQ(Take(*Open()), Range(1, 3));
  EXPECT_EQ(folder_.Ending("position.unknown").size(), 1u);
  fs::remove(folder_.File("position"));
  Change(folder_.File("position"), "");
  EXPECT_EQ(Open()->stats().records, 0u) << "and the segment is gone";
}

// The first segment is set aside or removed: only the position shows that there was one.
TEST_F(DiskQueueTest, MissingFirstRecordsAreCountedOnce) {
  for (bool gone : {false, true}) {
    Leave(9);
    std::string first = folder_.Segments()[0], bytes = Bytes(first);
    if (gone) fs::remove(first);
    else Change(first, std::string(RecordAt(1), 'x') + bytes.substr(RecordAt(1)));
    EXPECT_EQ(Lost(*Open(), RecordDropReason::kDamaged), 3u) << gone;
    auto queue = Open();
    EXPECT_EQ(Take(*queue), Range(4, 9));
    EXPECT_EQ(AllLost(*queue), 0u) << gone << ", but only once";
    queue.reset();
    EXPECT_EQ(folder_.Ending(".unknown").size(), gone ? 0u : 1u);
    fs::remove_all(folder_.path());
  }
}

TEST_F(DiskQueueTest, RecordsPossiblyDeliveredAreNotMissing) {
  Leave(9);
  fs::remove(folder_.Segments()[0]);
  // After a power cut the file may be gone and the older position still be there.
  options_.boot_id = kOtherBoot;
  EXPECT_EQ(AllLost(*Open()), 0u);
  EXPECT_EQ(Take(*Open()), Range(4, 9));
  fs::remove_all(folder_.path());
  Leave(9);
  fs::remove(folder_.Segments()[0]);
  fs::remove(folder_.File("position"));
  EXPECT_EQ(AllLost(*Open()), 0u) << "somebody wants to deliver again what is there";
  fs::remove_all(folder_.path());
  options_.max_bytes = 20'000;
  Leave(40);  // the oldest had to go
  auto queue = Open();
  EXPECT_EQ(AllLost(*queue), 0u) << "that was counted when it was dropped";
  EXPECT_EQ(Take(*queue).back(), 40u);
}

// The format before positions had the boot of the machine: 24 bytes in each slot.
TEST_F(DiskQueueTest, AnOlderPositionIsRead) {
  Leave(9);
  ASSERT_EQ(Take(*Open(), 2), Range(1, 2));
  std::string position = Bytes(folder_.File("position"));
  ASSERT_EQ(position.size(), 512u + 60);
  position.resize(512 + 24);
  std::fill(position.begin() + 24, position.begin() + 512, '\0');
  Change(folder_.File("position"), position);
  auto queue = Open();
  EXPECT_EQ(Take(*queue), Range(3, 9));
  EXPECT_EQ(AllLost(*queue), 0u);
}

TEST_F(DiskQueueTest, ARemovedSegmentIsCounted) {
  Leave(9);
  fs::remove(folder_.Segments()[1]);
  auto queue = Open();
  EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 3u);
}

TEST_F(DiskQueueTest, FilesMayVanishOrShrinkWhileItRuns) {
  auto queue = Open();
  Push(*queue, 1, 12);
  auto segments = folder_.Segments();
  EXPECT_THAT(Take(*queue, 1), ElementsAre(1u));
  fs::remove(segments[1]);
  fs::resize_file(segments[2], RecordAt(1) + 50);
  fs::resize_file(segments[3], RecordAt(2) + 50);  // that which grows
  EXPECT_EQ(Take(*queue), (std::vector<uint64_t>{2, 3, 7, 10, 11}));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kDamaged), 6u);
  EXPECT_EQ(queue->stats().records, 0u);
  EXPECT_EQ(queue->stats().items, 0u);
  Push(*queue, 13, 14);
  EXPECT_EQ(Take(*queue), Range(13, 14));
  fs::remove_all(folder_.path());
  EXPECT_EQ(queue->Push(Numbered(15, 1000), 1).code, Code::kUnavailable);
  EXPECT_THAT(queue->stats().last.detail, HasSubstr(folder_.path()));
}

// Without a free descriptor, records wait, and no thread spins.
TEST_F(DiskQueueTest, AnUnopenableSegmentIsKept) {
  Leave(4);
  auto queue = Open();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(Take(*queue), Range(1, 3)) << "the segment that is open already";
  EXPECT_EQ(queue->stats().records, 1u);
  EXPECT_FALSE(queue->reader().ready());
  EXPECT_FALSE(queue->Front());
  EXPECT_EQ(queue->stats().last.code, Code::kExhausted);
  EXPECT_EQ(queue->Push(Numbered(5), 1).code, Code::kExhausted);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(Take(*queue), Range(4, 4));
  EXPECT_EQ(AllLost(*queue), 0u);
  EXPECT_TRUE(queue->Push(Numbered(5), 1).ok());
  EXPECT_TRUE(queue->stats().last.ok());
}

// --- What is not ours ---

TEST_F(DiskQueueTest, ForeignFilesAreKept) {
  Leave(9);
  std::string version2 = Bytes(folder_.Segments()[1]);
  version2[8] = version2[kSegmentHeaderBytes / 2 + 8] = 2;
  std::string copied = Bytes(folder_.Segments()[0]);
  Change(folder_.File("00000000000000000100.seg"), version2);
  Change(folder_.File("00000000000000000002.seg"), copied);
  Change(folder_.File("00000000000000000000.seg"), "somebody's notes");
  Change(folder_.File("18446744073709551615.seg"), copied);
  Change(folder_.File("notes.seg"), "stays");
  Change(folder_.File("99999999999999999999.seg"), "no such number");
  fs::create_directory(folder_.File("00000000000000000200.seg"));
  fs::create_symlink("/etc/passwd", folder_.File("00000000000000000201.seg"));
  ASSERT_EQ(::mkfifo(folder_.File("00000000000000000202.seg").c_str(), 0600), 0);
  Change(folder_.File("00000000000000000100.seg.unknown"), "from last time");
  auto queue = Open();
  EXPECT_EQ(Take(*queue), Range(1, 9));
  EXPECT_EQ(AllLost(*queue), 0u);
  EXPECT_EQ(Bytes(folder_.File("00000000000000000100.seg.unknown")), "from last time");
  EXPECT_EQ(Bytes(folder_.File("00000000000000000100.seg.unknown.1")), version2);
  EXPECT_EQ(Bytes(folder_.File("00000000000000000002.seg.unknown")), copied);
  EXPECT_EQ(Bytes(folder_.File("00000000000000000000.seg.unknown")), "somebody's notes");
  EXPECT_EQ(Bytes(folder_.File("18446744073709551615.seg.unknown")), copied);
  for (const char* name : {"200", "201", "202"})
    EXPECT_TRUE(fs::exists(
        fs::symlink_status(folder_.File("00000000000000000" + std::string(name) + ".seg.unknown"))));
  EXPECT_EQ(Bytes(folder_.File("notes.seg")), "stays");
  EXPECT_EQ(Bytes(folder_.File("99999999999999999999.seg")), "no such number");
}

// --- Clocks ---

TEST_F(DiskQueueTest, AgesGoOnOverARestartOfTheProgram) {
  options_.max_age = hours(1);
  Leave(1);
  clock_ = ManualClock({clock_.Now().boot_ns + 60'000'000'000, 42});  // and wall time is nonsense now
  EXPECT_EQ(Open()->stats().oldest_age, Duration(seconds(60)));
  clock_.Advance(hours(1));
  auto queue = Open();
  EXPECT_THAT(Take(*queue), IsEmpty());
  EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), 1u);
}

TEST_F(DiskQueueTest, AgeUsesWallTimeAcrossARestartOfTheMachine) {
  options_.max_age = hours(1);
  Leave(1);
  Instant queued = clock_.Now();
  options_.boot_id = kOtherBoot;
  clock_ = ManualClock({5, queued.unix_ns + 120'000'000'000});
  EXPECT_EQ(Open()->stats().oldest_age, Duration(seconds(120)));
  // The clock of the machine begins in 1970: nothing is negative, and nothing is kept for ever.
  clock_ = ManualClock({5, 0});
  auto queue = Open();
  EXPECT_EQ(queue->stats().oldest_age, Duration(0));
  EXPECT_TRUE(queue->Front());
  clock_.Advance(hours(1) + seconds(1));
  EXPECT_FALSE(queue->Front());
  EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), 1u);
}

TEST_F(DiskQueueTest, OldRecordsAfterARestartOfTheMachineAreCounted) {
  options_.max_age = hours(1);
  Leave(5);
  options_.boot_id = kOtherBoot;
  clock_.Advance(hours(24 * 365));
  auto queue = Open();
  EXPECT_EQ(queue->stats().records, 0u);
  Push(*queue, 6, 6);
  EXPECT_THAT(Take(*queue), ElementsAre(6u));
  EXPECT_EQ(Lost(*queue, RecordDropReason::kOld), 5u);
  EXPECT_EQ(LostItems(*queue, RecordDropReason::kOld), 10u);
}

// --- Policies, memory ---

TEST_F(DiskQueueTest, SyncsByItsPolicy) {
  for (auto sync : {SyncPolicy::kNone, SyncPolicy::kInterval, SyncPolicy::kAlways}) {
    options_.sync = sync;
    auto queue = Open();
    for (uint64_t n = 1; n <= 20; ++n) {
      Push(*queue, n, n);
      clock_.Advance(seconds(1));
    }
    EXPECT_EQ(Take(*queue), Range(1, 20));
    EXPECT_FALSE(queue->reader().ready());
    EXPECT_TRUE(queue->stats().last.ok()) << queue->stats().last.detail;
  }
}

TEST_F(DiskQueueTest, ABacklogCostsNoMemory) {
  if (kAddressSanitizer || kThreadSanitizer) GTEST_SKIP() << "memory is not measured under a sanitizer";
  options_.segment_bytes = 4 << 20;
  options_.max_bytes = uint64_t{256} << 20;
  auto in_use = [] {
    struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::string bytes = Numbered(1, 64 << 10);
  size_t before = in_use();
  auto queue = Open();
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(queue->Push(bytes, 1).ok());
  EXPECT_GT(queue->stats().bytes, uint64_t{249} << 20);
  EXPECT_LT(in_use() - before, size_t{64} << 10);
  queue.reset();
  queue = Open();
  EXPECT_EQ(queue->stats().records, 4000u);
  EXPECT_EQ(Take(*queue, 100).size(), 100u);
  EXPECT_LT(in_use() - before, size_t{64} << 10);
}

}  // namespace
}  // namespace gpulens
