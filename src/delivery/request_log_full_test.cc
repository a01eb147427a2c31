// A disk that takes no more, in all its forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using ::testing::HasSubstr;

constexpr int kNoMount = 77;  // this machine does not let us mount

class FullDiskTest : public ::testing::Test {
 protected:
  FullDiskTest() {
    options_.folder = folder_.path();
    options_.sync = SyncPolicy::kNone;
  }
  std::unique_ptr<OneLog> Open() {
    auto queue = OneLog::Open(options_, clock_);
    EXPECT_TRUE(queue.ok()) << queue.error().detail;
    return *std::move(queue);
  }
  // Runs in a process of its own, with the folder above the queue on a file system of 256 KiB.
  template <class Body>
  void OnSmallFileSystem(Body body) {
    pid_t child = ::fork();
    if (child == 0) {
      bool alone = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
      if (alone) ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
      alone = alone && ::mount("none", folder_.root().c_str(), "tmpfs", 0, "size=256k") == 0;
      ::_exit(alone ? body() : kNoMount);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    if (WEXITSTATUS(status) == kNoMount) GTEST_SKIP() << "mounting a small file system is not allowed here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the step that failed";
  }
  // Pushes until it fails: how many were taken. Each is `size` bytes.
  static uint64_t Fill(OneLog& queue, uint64_t from, size_t size, Status& status) {
    uint64_t n = from;
    while (n < from + 1000 && (status = queue.Push(Numbered(n, size), 1)).ok()) ++n;
    return n - from;
  }

  TestFolder folder_;
  ManualClock clock_;
  OneLog::Options options_;
};

TEST_F(FullDiskTest, AFullDiskRefusesAndContinuesWhenThereIsRoom) {
  OnSmallFileSystem([&] {
    options_.segment_bytes = 32 << 10;
    auto queue = Open();
    Status status;
    uint64_t fitted = Fill(*queue, 1, 5000, status);
    if (fitted < 35 || fitted > 52 || status.code != Code::kExhausted) return 1;
    if (!::testing::Value(status.detail, HasSubstr(options_.folder))) return 2;
    if (queue->Push(Numbered(fitted + 1, 5000), 1).ok()) return 3;
    if (queue->stats().records != fitted || queue->stats().last.code != Code::kExhausted) return 4;
    // A delivered segment makes room.
    if (Take(*queue, 10) != Range(1, 10)) return 5;
    uint64_t more = Fill(*queue, fitted + 1, 5000, status);
    if (more < 5) return 6;
    queue.reset();
    queue = Open();  // on the full disk
    if (Take(*queue) != Range(11, fitted + more)) return 7;
    if (AllLost(*queue) != 0) return 8;
    return queue->Push(Numbered(1), 1).ok() && queue->stats().last.ok() ? 0 : 9;
  });
}

// What is delivered may not hold the room that the next record needs, though its file is not full yet.
TEST_F(FullDiskTest, DeliveredRecordsMakeRoom) {
  OnSmallFileSystem([&] {
    options_.segment_bytes = 4 << 20;
    auto queue = Open();
    for (int round = 0; round < 3; ++round) {
      Status status;
      uint64_t fitted = Fill(*queue, 1, 20'000, status);
      if (fitted < 8) return 10 + round;
      if (Take(*queue) != Range(1, fitted)) return 20 + round;
    }
    return AllLost(*queue) == 0 ? 0 : 30;
  });
}

// With memory to wait in, a full disk refuses nothing and the order holds.
TEST_F(FullDiskTest, RecordsBeyondTheDiskWaitInMemory) {
  OnSmallFileSystem([&] {
    options_.segment_bytes = 32 << 10;
    options_.memory_bytes = 50'000;
    auto queue = Open();
    uint64_t pushed = 0;
    while (pushed < 1000 && (pushed == 0 || queue->kept() == RequestLog::Kept::kOnDisk))
      if (!queue->Push(Numbered(++pushed, 5000), 1).ok()) return 1;
    if (pushed < 36 || pushed > 53) return 2;
    if (!queue->Push(Numbered(++pushed, 5000), 1).ok()) return 3;
    if (queue->kept() != RequestLog::Kept::kInMemory || queue->stats().last.ok()) return 4;
    if (Take(*queue, 20) != Range(1, 20)) return 5;
    while (queue->kept() == RequestLog::Kept::kInMemory && pushed < 60)
      if (!queue->Push(Numbered(++pushed, 5000), 1).ok()) return 6;
    if (queue->kept() != RequestLog::Kept::kOnDisk || !queue->stats().last.ok()) return 7;
    if (Take(*queue) != Range(21, pushed)) return 8;
    return AllLost(*queue) == 0 ? 0 : 9;
  });
}

TEST_F(FullDiskTest, ReadOnlyMeansWaiting) {
  OnSmallFileSystem([&] {
    options_.segment_bytes = 4096;
    auto queue = Open();
    for (uint64_t n = 1; n <= 10; ++n)
      if (!queue->Push(Numbered(n, 2000), 1).ok()) return 1;
    auto remount = [&](unsigned long flags) {
      return ::mount("none", folder_.root().c_str(), "tmpfs", MS_REMOUNT | flags, "size=256k") == 0;
    };
    queue.reset();
    if (!remount(MS_RDONLY)) return 2;
    if (OneLog::Open(options_, clock_).ok()) return 3;
    if (!remount(0)) return 4;
    queue = Open();
    return Take(*queue) == Range(1, 10) ? 0 : 5;
  });
}

TEST_F(FullDiskTest, TheLimitOnFilesMeansSmallerSegments) {
  auto queue = Open();
  {
    FileSizeLimit limit(10'000);
    for (uint64_t n = 1; n <= 9; ++n) {
      Status status = queue->Push(Numbered(n, 3000), 1);
      ASSERT_TRUE(status.ok()) << status.detail;
    }
    EXPECT_EQ(folder_.Segments().size(), 3u);
    Status status = queue->Push(Numbered(10, 12'000), 1);
    EXPECT_EQ(status.code, Code::kExhausted) << status.detail;
    EXPECT_EQ(folder_.Segments().size(), 3u) << "no empty file is left";
    uint64_t sum = 0;
    for (const std::string& path : folder_.Segments()) sum += fs::file_size(path);
    EXPECT_EQ(sum, queue->stats().held_bytes) << "the part that fitted was taken back";
  }
  ASSERT_TRUE(queue->Push(Numbered(10, 12'000), 1).ok());
  EXPECT_EQ(Take(*queue), Range(1, 10));
  EXPECT_EQ(AllLost(*queue), 0u);
}

TEST_F(FullDiskTest, APositionThatCannotBeWrittenIsWrittenLater) {
  auto queue = Open();
  for (uint64_t n = 1; n <= 3; ++n) ASSERT_TRUE(queue->Push(Numbered(n, 100), 1).ok());
  {
    FileSizeLimit limit(0);
    EXPECT_EQ(Take(*queue, 2), Range(1, 2)) << "delivery goes on";
    EXPECT_FALSE(queue->stats().last.ok());
  }
  EXPECT_EQ(Take(*queue, 1), Range(3, 3));
  EXPECT_TRUE(queue->stats().last.ok());
  queue.reset();
  EXPECT_EQ(Open()->stats().records, 0u);
}

}  // namespace
}  // namespace gpulens
