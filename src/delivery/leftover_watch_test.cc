#include "delivery/queue_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "delivery/request_log_testing.h"
#include "delivery/segment_file.h"

namespace gpulens {
namespace {

using namespace request_log_testing;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LeftoverWatchTest : public ::testing::Test {
 protected:
  void Leave(const std::string& folder, const std::string& sink, uint64_t records) {
    RequestLogOptions options;
    options.folder = folder_.root() + "/" + folder;
    auto log = RequestLog::Open(options, clock_);
    auto reader = log->Attach(sink, {}, {});
    for (uint64_t n = 1; n <= records; ++n) ASSERT_TRUE(log->Append(Numbered(n), 1).ok());
  }
  // Scans if it is due, and waits until the scan has ended.
  std::vector<QueueLeftover> Scan() {
    watch_->ScanIfDue(clock_.Now(), workers_);
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false;
    // With one worker, earlier jobs have ended when this one runs.
    EXPECT_TRUE(workers_.Post([&] {
      std::lock_guard lock(mutex);
      done = true;
      wake.notify_all();
    }));
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return done; });
    return watch_->found();
  }

  TestFolder folder_;
  ManualClock clock_;
  Workers workers_{1};
  std::shared_ptr<LeftoverWatch> watch_ = std::make_shared<LeftoverWatch>();
};

TEST_F(LeftoverWatchTest, SumsUpWhatWaitsForEachSinkThatIsNotConfigured) {
  Leave("queue/otlp+1", "otlp/b", 2);
  Leave("queue/received", "otlp/b", 3);
  Leave("queue/otlp+2", "otlp/c", 1);
  Leave("queue/otlp+3", "otlp", 5);
  Leave("queue/otlp+4", "otlp/d", 0);
  Leave("spool/own+1", "webhook", 1);
  watch_->SetWhere({folder_.root() + "/queue", {{folder_.root() + "/spool/own", "otlp"}}, {"otlp"}});
  const auto found = Scan();
  ASSERT_THAT(found, SizeIs(3)) << "nothing waits for otlp/d";
  EXPECT_EQ(found[0].sink, "otlp/b");
  EXPECT_EQ(found[0].records, 5u);
  EXPECT_GT(found[0].bytes, 5 * kRecordHeadBytes);
  EXPECT_EQ(found[1].sink, "otlp/c");
  EXPECT_EQ(found[2].sink, "webhook") << "beside a folder that a sink has chosen";
}

TEST_F(LeftoverWatchTest, LooksOnceAMinuteOrWhenTheSinksChanged) {
  const std::string root = folder_.root() + "/queue";
  watch_->SetWhere({root, {}, {"otlp"}});
  EXPECT_THAT(Scan(), IsEmpty());
  Leave("queue/otlp+1", "otlp/b", 2);
  clock_.Advance(seconds(59));
  EXPECT_THAT(Scan(), IsEmpty());
  clock_.Advance(seconds(1));
  EXPECT_THAT(Scan(), SizeIs(1));
  watch_->SetWhere({root, {}, {"otlp", "otlp/b"}});
  EXPECT_THAT(Scan(), IsEmpty());
}

TEST_F(LeftoverWatchTest, WithoutAWorkerTheScanRunsLater) {
  Leave("queue/otlp+1", "otlp/b", 2);
  watch_->SetWhere({folder_.root() + "/queue", {}, {}});
  Workers stopped(1);
  stopped.Stop();
  watch_->ScanIfDue(clock_.Now(), stopped);
  EXPECT_THAT(watch_->found(), IsEmpty());
  EXPECT_THAT(Scan(), SizeIs(1));
}

TEST(LeftoversIn, HasABound) {
  QueueFolder folder;
  for (int i = 0; i < 100; ++i) {
    folder.readers.push_back({"sink" + std::to_string(100 + i), false, 1, 1, 1});
    folder.readers.push_back({"sink" + std::to_string(100 + i), false, 1, 1, 1});
  }
  const auto found = LeftoversIn({folder});
  ASSERT_THAT(found, SizeIs(64));
  EXPECT_EQ(found[63], (QueueLeftover{"sink163", 2, 2}));
}

}  // namespace
}  // namespace gpulens
