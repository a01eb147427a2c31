#include "delivery/queue_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "delivery/request_log_testing.h"
#include "delivery/segment_file.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kRecord = 1000 + kRecordHeadBytes;

class QueueFoldersTest : public ::testing::Test {
 protected:
  // A log of "otlp" and "otlp/b" with 12 records, of which the first has taken 12 and the second 4.
  std::shared_ptr<RequestLog> Leave() {
    RequestLogOptions options;
    options.folder = place_.folder;
    options.owner = place_.owner;
    options.segment_bytes = 4096;
    auto log = RequestLog::Open(options, clock_);
    auto a = log->Attach("otlp", {}, {});
    auto b = log->Attach("otlp/b", {}, {});
    for (uint64_t n = 1; n <= 12; ++n) {
      clock_.Advance(seconds(1));
      EXPECT_TRUE(log->Append(Numbered(n, 1000), 2).ok());
    }
    for (int i = 0; i < 12; ++i) a->Done(a->Next()->id, true);
    for (int i = 0; i < 4; ++i) b->Done(b->Next()->id, true);
    return log;
  }
  QueueFolder Look(std::vector<std::string> configured = {"otlp"}) {
    QueueScanOptions options;
    options.configured = std::move(configured);
    return ScanQueue(place_, options);
  }
  static const QueueReader& Of(const QueueFolder& folder, const std::string& sink) {
    static const QueueReader none;
    for (const QueueReader& one : folder.readers)
      if (one.sink == sink) return one;
    ADD_FAILURE() << "no reader " << sink;
    return none;
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  TestFolder folder_;
  ManualClock clock_;
  QueuePlace place_{folder_.path(), "otlp"};
};

TEST_F(QueueFoldersTest, ListsWhatWaitsForEachReader) {
  Leave();
  const QueueFolder seen = Look();
  ASSERT_THAT(seen.readers, SizeIs(2));
  EXPECT_THAT(seen.problems, IsEmpty());
  EXPECT_FALSE(seen.in_use);
  EXPECT_EQ(seen.segments, 3u) << "of four the first is delivered to both";
  const QueueReader &a = Of(seen, "otlp"), &b = Of(seen, "otlp/b");
  EXPECT_TRUE(a.configured);
  EXPECT_EQ(a.records, 0u);
  EXPECT_EQ(a.oldest_unix_ns, 0);
  EXPECT_FALSE(b.configured);
  EXPECT_EQ(b.records, 8u);
  EXPECT_EQ(b.bytes, 8 * kRecord);
  EXPECT_EQ(b.oldest_unix_ns, clock_.Now().unix_ns - 7'000'000'000) << "the fifth of twelve";
}

TEST_F(QueueFoldersTest, RecordsDoneOutOfOrderDoNotWait) {
  auto log = Leave();
  auto b = log->Attach("otlp/b", {}, {});
  b->Next();
  const uint64_t second = b->Next()->id;
  b->Done(second, true);
  EXPECT_EQ(Of(Look(), "otlp/b").records, 7u);
}

TEST_F(QueueFoldersTest, LooksWhileALogIsInUse) {
  auto log = Leave();
  const QueueFolder seen = Look();
  EXPECT_TRUE(seen.in_use);
  EXPECT_EQ(seen.holder, ::getpid());
  EXPECT_EQ(Of(seen, "otlp/b").records, 8u);
  EXPECT_TRUE(log->disk().ok());
  auto b = log->Attach("otlp/b", {}, {});
  EXPECT_TRUE(b->Next()) << "a look disturbs nobody";
}

TEST_F(QueueFoldersTest, ASecondLookUsesWhatTheFirstCounted) {
  Leave();
  QueueCounts counts;
  QueueScanOptions options;
  options.counts = &counts;
  options.configured = {"otlp"};
  options.leftovers_only = true;
  ++counts.scan;
  EXPECT_EQ(Of(ScanQueue(place_, options), "otlp/b").records, 8u);
  EXPECT_THAT(counts.segments, SizeIs(3));
  // The bytes change and the size does not: only the segment with the position of a reader is read again.
  for (const std::string& segment : folder_.Segments())
    Change(segment, std::string(Bytes(segment).size(), 'x'));
  ++counts.scan;
  EXPECT_EQ(Of(ScanQueue(place_, options), "otlp/b").records, 6u);
  fs::remove_all(place_.folder);
  ++counts.scan;
  ScanQueue(place_, options);
  counts.Sweep();
  EXPECT_THAT(counts.segments, IsEmpty());
}

TEST_F(QueueFoldersTest, CountsNothingWhereAllAreConfigured) {
  Leave();
  QueueScanOptions options;
  options.configured = {"otlp", "otlp/b"};
  options.leftovers_only = true;
  EXPECT_EQ(Of(ScanQueue(place_, options), "otlp/b").records, 0u);
  options.configured = {"otlp"};
  EXPECT_EQ(Of(ScanQueue(place_, options), "otlp/b").records, 8u);
}

TEST_F(QueueFoldersTest, WithoutAPositionAllRecordsAreTheOwners) {
  Leave();
  fs::remove(File("position"));
  EXPECT_EQ(Of(Look(), "otlp").records, 9u);
  Change(File("owner_gone"), "");
  EXPECT_THAT(Look().readers, SizeIs(1)) << "it was dropped";
}

TEST_F(QueueFoldersTest, ReportsDamage) {
  Leave();
  Change(File("position.otlp.b"), std::string(600, 'x'));
  QueueFolder seen = Look();
  EXPECT_EQ(Of(seen, "otlp/b").records, 9u) << "as the log does: from the beginning";
  EXPECT_THAT(seen.problems, ElementsAre(HasSubstr("position.otlp.b is damaged")));
  Change(folder_.Segments()[1], std::string(500, 'x'));
  Flip(folder_.Segments()[2], kSegmentHeaderBytes + 5);
  seen = Look();
  EXPECT_EQ(Of(seen, "otlp/b").records, 5u) << "three of the first, two of the last";
  EXPECT_THAT(seen.problems, Contains(HasSubstr("1 segment is damaged")));
}

TEST_F(QueueFoldersTest, ForeignFilesAreCountedAndKept) {
  Leave();
  Change(File("notes.txt"), "x");
  Change(File("position.otlp.b.unknown"), "x");
  Change(File("position.\x1b[31m"), "x");
  fs::create_symlink("/etc/passwd", File("position.link"));
  fs::create_directory(File("position.folder"));
  ASSERT_EQ(::mkfifo(File("position.pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", File("00000000000000000099.seg"));
  fs::create_directory(File("00000000000000000100.seg"));
  ASSERT_EQ(::mkfifo(File("00000000000000000101.seg").c_str(), 0600), 0);
  Change(File("99999999999999999999.seg"), "x");
  const QueueFolder seen = Look();
  EXPECT_EQ(Of(seen, "otlp/b").records, 8u);
  EXPECT_THAT(seen.problems, Contains("4 files do not belong to the queue"));
  EXPECT_THAT(seen.problems, Contains("position.link is a symbolic link"));
  EXPECT_THAT(seen.problems, Contains("position.folder is not a regular file"));
  EXPECT_THAT(seen.problems, Contains("position.pipe is not a regular file"));
  EXPECT_THAT(seen.problems, Contains("3 segments are damaged"));
}

TEST_F(QueueFoldersTest, ReportsAnUnreadableFolder) {
  Leave();
  const QueuePlace link{folder_.root() + "/link", ""};
  fs::create_symlink(place_.folder, link.folder);
  EXPECT_THAT(ScanQueue(link, {}).problems, ElementsAre(HasSubstr("symbolic link")));
  EXPECT_THAT(ScanQueue({link.folder, "otlp", true}, {}).readers, SizeIs(2));
  Change(folder_.root() + "/file", "x");
  EXPECT_THAT(ScanQueue({folder_.root() + "/file", ""}, {}).problems, ElementsAre("it is not a folder"));
  EXPECT_THAT(ScanQueue({folder_.root() + "/none", ""}, {}).problems, IsEmpty());
}

TEST_F(QueueFoldersTest, ReportsAMissingPermission) {
  Leave();
  ::chmod(place_.folder.c_str(), 0);
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(root ? ::seteuid(65534) : 0, 0);
  const QueueFolder seen = Look();
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  EXPECT_EQ(root ? ::seteuid(0) : 0, 0);
  ::chmod(place_.folder.c_str(), 0700);
  EXPECT_THAT(seen.problems, ElementsAre(HasSubstr("ermission denied")));
  EXPECT_THAT(seen.readers, IsEmpty());
  ASSERT_FALSE(dropped.ok());
  EXPECT_THAT(dropped.error().detail, HasSubstr("ermission denied"));
  EXPECT_EQ(Of(Look(), "otlp/b").records, 8u);
}

TEST_F(QueueFoldersTest, FindsTheFoldersOfAStateFolder) {
  const std::string root = folder_.root() + "/state/queue";
  ASSERT_TRUE(QueuePlacesIn(root).ok());
  EXPECT_THAT(*QueuePlacesIn(root), IsEmpty());
  for (const char* name : {"otlp", "otlp.b", "otlp+1", "received", ".hidden"})
    fs::create_directories(root + "/" + name);
  std::vector<std::string> owners;
  const auto found = QueuePlacesIn(root);
  ASSERT_TRUE(found.ok());
  for (const QueuePlace& place : *found) owners.push_back(place.owner);
  EXPECT_THAT(owners, ElementsAre("", "otlp", "", "otlp/b", "")) << ".hidden, otlp, otlp+1, otlp.b, received";
  for (int i = 0; i < 1100; ++i) fs::create_directory(root + "/many" + std::to_string(i));
  EXPECT_EQ(QueuePlacesIn(root).error().code, Code::kExhausted);
}

TEST_F(QueueFoldersTest, FindsTheFoldersNextToAChosenOne) {
  const std::string chosen = folder_.root() + "/spool";
  for (const char* name : {"spool", "spool+2", "spool+x", "spoolx", "received", "received+1"})
    fs::create_directories(folder_.root() + "/" + name);
  std::vector<std::string> names;
  for (const QueuePlace& place : QueuePlacesNextTo(chosen, "otlp")) {
    EXPECT_EQ(place.owner, place.folder == chosen ? "otlp" : "");
    names.push_back(fs::path(place.folder).filename());
  }
  EXPECT_THAT(names, ElementsAre("spool", "received", "received+1", "spool+2"));
}

// --- Drops ---

TEST_F(QueueFoldersTest, DropsForASinkThatIsNotTheOwner) {
  Leave();
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().detail;
  EXPECT_FALSE(dropped->removed) << "the owner has its place here";
  EXPECT_FALSE(dropped->in_use);
  EXPECT_GT(dropped->freed_bytes, 8 * kRecord);
  EXPECT_THAT(folder_.Segments(), IsEmpty());
  EXPECT_TRUE(fs::exists(File("position")));
  EXPECT_EQ(DropFromQueue(place_, "otlp/b", clock_).error().code, Code::kUnavailable);
}

TEST_F(QueueFoldersTest, DropsForTheOwnerAndItReadsNothingAgain) {
  Leave();
  ASSERT_TRUE(DropFromQueue(place_, "otlp", clock_).ok());
  EXPECT_EQ(Of(Look(), "otlp/b").records, 8u) << "the other loses nothing";
  EXPECT_THAT(Look().readers, SizeIs(1));
  RequestLogOptions options;
  options.folder = place_.folder;
  options.owner = place_.owner;
  auto log = RequestLog::Open(options, clock_);
  auto a = log->Attach("otlp", {}, {});
  EXPECT_FALSE(a->Next()) << "what was dropped does not come back";
  EXPECT_FALSE(fs::exists(File("owner_gone"))) << "its position says it by now";
  auto b = log->Attach("otlp/b", {}, {});
  for (uint64_t n = 5; n <= 12; ++n) {
    auto record = b->Next();
    ASSERT_TRUE(record);
    EXPECT_EQ(NumberOf(record->bytes), n);
  }
}

TEST_F(QueueFoldersTest, TheFolderGoesWithItsLastReader) {
  Leave();
  ASSERT_TRUE(DropFromQueue(place_, "otlp", clock_).ok());
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().detail;
  EXPECT_TRUE(dropped->removed);
  EXPECT_FALSE(fs::exists(place_.folder));
}

TEST_F(QueueFoldersTest, AFileOfOthersKeepsTheFolder) {
  Leave();
  Change(File("notes.txt"), "mine");
  ASSERT_TRUE(DropFromQueue(place_, "otlp", clock_).ok());
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  ASSERT_TRUE(dropped.ok());
  EXPECT_FALSE(dropped->removed);
  EXPECT_EQ(Bytes(File("notes.txt")), "mine");
  EXPECT_THAT(folder_.Segments(), IsEmpty());
}

TEST_F(QueueFoldersTest, AnOwnerWithoutAPositionCanBeDropped) {
  Leave();
  fs::remove(File("position"));
  fs::remove(File("position.otlp.b"));
  const auto dropped = DropFromQueue(place_, "otlp", clock_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().detail;
  EXPECT_TRUE(dropped->removed);
}

TEST_F(QueueFoldersTest, RecordsOfAnOwnerWithoutAPositionAreKept) {
  Leave();
  fs::remove(File("position"));
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  ASSERT_TRUE(dropped.ok());
  EXPECT_FALSE(dropped->removed);
  EXPECT_EQ(Of(Look(), "otlp").records, 9u);
}

TEST_F(QueueFoldersTest, ARunningLogFreesTheRoom) {
  auto log = Leave();
  const auto dropped = DropFromQueue(place_, "otlp/b", clock_);
  ASSERT_TRUE(dropped.ok()) << dropped.error().detail;
  EXPECT_TRUE(dropped->in_use);
  EXPECT_EQ(dropped->holder, ::getpid());
  EXPECT_THAT(folder_.Segments(), SizeIs(3)) << "the process that has them removes them";
  clock_.Advance(seconds(31));
  log->Maintain();
  EXPECT_THAT(log->readers(), ElementsAre("otlp"));
  EXPECT_THAT(log->leftovers(), SizeIs(1)) << "the owner, for which nothing waits";
  EXPECT_LE(folder_.Segments().size(), 1u) << "one that may grow stays while it is small";
}

TEST_F(QueueFoldersTest, RemovesDataWithoutAReader) {
  auto log = Leave();
  EXPECT_FALSE(RemoveAbandoned(place_, clock_)) << "it is in use";
  log.reset();
  EXPECT_FALSE(RemoveAbandoned(place_, clock_)) << "it has readers";
  fs::remove(File("position"));
  fs::remove(File("position.otlp.b"));
  EXPECT_FALSE(RemoveAbandoned(place_, clock_)) << "all is the owner's";
  Change(File("owner_gone"), "");
  Change(File("notes.txt"), "x");
  EXPECT_FALSE(RemoveAbandoned(place_, clock_)) << "there is something else";
  fs::remove(File("notes.txt"));
  EXPECT_TRUE(RemoveAbandoned(place_, clock_));
  EXPECT_FALSE(fs::exists(place_.folder));
  EXPECT_FALSE(RemoveAbandoned(place_, clock_));
  EXPECT_FALSE(fs::exists(place_.folder)) << "nothing is made by looking";
}

TEST_F(QueueFoldersTest, FilesMadeByRootBelongToTheAgent) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user's files are made by root alone";
  Leave();
  fs::remove(File("lock"));
  for (const auto& file : fs::directory_iterator(place_.folder))
    ASSERT_EQ(::lchown(file.path().c_str(), 65534, 65534), 0);
  ASSERT_EQ(::lchown(place_.folder.c_str(), 65534, 65534), 0);
  ASSERT_TRUE(DropFromQueue(place_, "otlp", clock_).ok());
  for (const char* made : {"owner_gone", "lock"}) {
    struct stat info{};
    ASSERT_EQ(::stat(File(made).c_str(), &info), 0) << made;
    EXPECT_EQ(info.st_uid, 65534u) << made;
  }
}

TEST_F(QueueFoldersTest, ReportsDataThatCannotBeDropped) {
  Leave();
  EXPECT_EQ(DropFromQueue({folder_.root() + "/none", ""}, "otlp", clock_).error().code, Code::kUnavailable);
  fs::create_directory(File("position.c"));
  const auto refused = DropFromQueue(place_, "c", clock_);
  EXPECT_THAT(refused.error().detail, HasSubstr("remove " + File("position.c")));
  fs::create_directory(File("owner_gone"));
  EXPECT_FALSE(DropFromQueue(place_, "otlp", clock_).ok());
  EXPECT_TRUE(fs::exists(File("position"))) << "without its mark the owner's place stays";
}

}  // namespace
}  // namespace gpulens
