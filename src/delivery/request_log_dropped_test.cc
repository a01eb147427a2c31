// Readers whose position was removed while the log is open, and owners that leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "delivery/request_log_testing.h"

namespace gpulens {
namespace {

namespace fs = std::filesystem;
using namespace request_log_testing;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class DroppedReaderTest : public ::testing::Test {
 protected:
  DroppedReaderTest() { Open(); }
  void Open() {
    RequestLogOptions options;
    options.folder = folder_.path();
    options.owner = "a";
    options.segment_bytes = 4096;
    log_ = RequestLog::Open(options, clock_);
  }
  void Push(uint64_t first, uint64_t last) {
    for (uint64_t n = first; n <= last; ++n) ASSERT_TRUE(log_->Append(Numbered(n, 1000), 1).ok());
  }
  static std::vector<uint64_t> TakeAll(LogReader& reader) {
    std::vector<uint64_t> numbers;
    while (auto record = reader.Next()) {
      numbers.push_back(NumberOf(record->bytes).value_or(0));
      reader.Done(record->id, true);
    }
    return numbers;
  }
  void Later() {
    clock_.Advance(seconds(31));
    log_->Maintain();
  }

  TestFolder folder_;
  ManualClock clock_;
  std::shared_ptr<RequestLog> log_;
};

TEST_F(DroppedReaderTest, ADetachedReaderIsForgottenAndItsSegmentsGo) {
  auto a = log_->Attach("a", {}, {});
  log_->Attach("b", {}, {});
  Push(1, 12);
  EXPECT_EQ(TakeAll(*a), Range(1, 12));
  EXPECT_THAT(folder_.Segments(), SizeIs(4));
  fs::remove(folder_.File("position.b"));
  log_->Maintain();
  EXPECT_THAT(folder_.Segments(), SizeIs(4)) << "it is looked at now and then";
  Later();
  EXPECT_THAT(log_->readers(), ElementsAre("a"));
  EXPECT_THAT(log_->leftovers(), IsEmpty());
  EXPECT_LE(folder_.Segments().size(), 1u);
}

TEST_F(DroppedReaderTest, AReaderThatIsAttachedGetsItsPositionAgain) {
  auto a = log_->Attach("a", {}, {});
  auto b = log_->Attach("b", {}, {});
  Push(1, 6);
  a->Done(a->Next()->id, true);
  b->Done(b->Next()->id, true);
  fs::remove(folder_.File("position"));
  fs::remove(folder_.File("position.b"));
  Change(folder_.File("owner_gone"), "");
  Later();
  EXPECT_FALSE(fs::exists(folder_.File("owner_gone")));
  a.reset(), b.reset(), log_.reset();
  Open();
  EXPECT_EQ(TakeAll(*log_->Attach("a", {}, {})), Range(2, 6));
  EXPECT_EQ(TakeAll(*log_->Attach("b", {}, {})), Range(2, 6));
}

TEST_F(DroppedReaderTest, AReaderThatComesBackAfterADropBeginsAsNew) {
  auto a = log_->Attach("a", {}, {});
  log_->Attach("b", {}, {});
  Push(1, 6);
  fs::remove(folder_.File("position.b"));
  auto b = log_->Attach("b", {}, {});
  EXPECT_THAT(TakeAll(*b), IsEmpty());
  Push(7, 8);
  EXPECT_EQ(TakeAll(*b), Range(7, 8));
  EXPECT_EQ(TakeAll(*a), Range(1, 8));
  Later();
  EXPECT_THAT(log_->readers(), UnorderedElementsAre("a", "b"));
}

TEST_F(DroppedReaderTest, AnOwnerThatIsForgottenDoesNotReadWhatIsKeptForOthers) {
  auto a = log_->Attach("a", {}, {});
  auto b = log_->Attach("b", {}, {});
  Push(1, 6);
  EXPECT_EQ(TakeAll(*a), Range(1, 6));
  a->ForgetOnDetach();
  a.reset(), b.reset(), log_.reset();
  EXPECT_FALSE(fs::exists(folder_.File("position")));
  Open();
  EXPECT_THAT(TakeAll(*log_->Attach("a", {}, {})), IsEmpty());
  EXPECT_EQ(TakeAll(*log_->Attach("b", {}, {})), Range(1, 6));
}

TEST_F(DroppedReaderTest, ThePositionReplacesAMarkThatCannotBeMade) {
  auto a = log_->Attach("a", {}, {});
  auto b = log_->Attach("b", {}, {});
  Push(1, 6);
  fs::create_directory(folder_.File("owner_gone"));
  a.reset();
  log_->Forget("a");
  EXPECT_TRUE(fs::exists(folder_.File("position")));
  b.reset(), log_.reset();
  Open();
  EXPECT_THAT(TakeAll(*log_->Attach("a", {}, {})), IsEmpty());
  EXPECT_EQ(TakeAll(*log_->Attach("b", {}, {})), Range(1, 6));
}

TEST_F(DroppedReaderTest, ADropJustBeforeTheLastReaderLeavesIsSeen) {
  auto a = log_->Attach("a", {}, {});
  log_->Attach("b", {}, {});
  Push(1, 3);
  fs::remove(folder_.File("position.b"));
  a->ForgetOnDetach();
  a.reset();
  EXPECT_TRUE(log_->RemoveIfDone());
  EXPECT_FALSE(fs::exists(folder_.path()));
}

TEST_F(DroppedReaderTest, TheMarkGoesWithTheFolder) {
  auto a = log_->Attach("a", {}, {});
  Push(1, 3);
  EXPECT_EQ(TakeAll(*a), Range(1, 3));
  a->ForgetOnDetach();
  a.reset();
  EXPECT_TRUE(fs::exists(folder_.File("owner_gone")));
  EXPECT_TRUE(log_->RemoveIfDone());
  EXPECT_FALSE(fs::exists(folder_.path()));
}

}  // namespace
}  // namespace gpulens
