#include "reader/reader_child.h"

#include <gtest/gtest.h>

namespace gpulens::reader {
namespace {

TEST(CulpritOf, IsTheCallThatTheProcessNames) {
  CallPage page;
  page.devices[3].Begin(7, 1);
  page.devices[5].Begin(8, 1);
  page.ended_in = kEndedInDevice + 5;
  EXPECT_EQ(CulpritOf(page, false), (CrashCulprit{CrashCulprit::kDevice, 5, 8}));
  page.ended_in = kEndedInWaiting;
  page.waiting.Begin(9, 1);
  EXPECT_EQ(CulpritOf(page, true), (CrashCulprit{CrashCulprit::kWaiting, 0, 9}));
  page.ended_in = kEndedInMain;
  EXPECT_EQ(CulpritOf(page, true).who, CrashCulprit::kMain);
}

TEST(CulpritOf, IsTheOnlyDeviceInACall) {
  CallPage page;
  page.waiting.Begin(9, 1);
  EXPECT_EQ(CulpritOf(page, true).who, CrashCulprit::kUnknown) << "to wait for events is no fault";
  page.devices[63].Begin(7, 1);
  EXPECT_EQ(CulpritOf(page, true), (CrashCulprit{CrashCulprit::kDevice, 63, 7}));
  EXPECT_EQ(CulpritOf(page, false).who, CrashCulprit::kUnknown);
  page.devices[0].Begin(7, 1);
  EXPECT_EQ(CulpritOf(page, true).who, CrashCulprit::kUnknown) << "two may be it";
  page.main.Begin(2, 1);
  EXPECT_EQ(CulpritOf(page, true), (CrashCulprit{CrashCulprit::kMain, 0, 2}));
}

// The page is written by the process that has just failed.
TEST(CulpritOf, BelievesNoNumberOutOfRange) {
  CallPage page;
  for (uint32_t number : {kEndedInWaiting + 1, 1000U, ~0U}) {
    page.ended_in = number;
    EXPECT_EQ(CulpritOf(page, false).who, CrashCulprit::kUnknown) << number;
  }
}

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class CrashHistoryTest : public testing::Test {
 protected:
  CrashHistoryTest() { Start(); }
  void Start() { history_.Start(clock_.Now()); }
  // A process that lives for a second and then ends with this page.
  CrashCulprit End(const CallPage& page, Duration lived = seconds(1)) {
    clock_.Advance(lived);
    CrashCulprit culprit = history_.Blame(page, true, clock_.Now());
    Start();
    return culprit;
  }

  ManualClock clock_{Instant{1'000'000'000'000, 1'700'000'000'000'000'000}};
  CrashHistory history_{{seconds(1), seconds(2), minutes(1), minutes(5)}};
  CallPage nothing_;
  const CrashCulprit unknown_, events_{CrashCulprit::kWaiting, 0, kNoCall};
};

TEST_F(CrashHistoryTest, ACallThatIsNamedIsExplained) {
  CallPage page;
  page.devices[3].Begin(1, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(End(page), (CrashCulprit{CrashCulprit::kDevice, 3, 1}));
  EXPECT_FALSE(history_.one_by_one());
  EXPECT_TRUE(history_.waits_for_events());
}

TEST_F(CrashHistoryTest, EndsThatNothingExplainsBeginDevicesOneAtATime) {
  EXPECT_EQ(End(nothing_), unknown_);
  EXPECT_FALSE(history_.one_by_one()) << "once may be chance";
  EXPECT_EQ(End(nothing_), unknown_);
  ASSERT_TRUE(history_.one_by_one());
  history_.Begun(0, clock_.Now());
  clock_.Advance(seconds(10));
  history_.Begun(2, clock_.Now());
  EXPECT_EQ(End(nothing_), (CrashCulprit{CrashCulprit::kDevice, 2, kNoCall}));
  EXPECT_TRUE(history_.one_by_one()) << "until it lives";
  for (uint32_t device : {0U, 1U, 3U}) {
    history_.Begun(device, clock_.Now());
    clock_.Advance(seconds(10));
  }
  EXPECT_EQ(End(nothing_, minutes(2)), unknown_) << "it was begun long before";
  EXPECT_FALSE(history_.one_by_one());
}

TEST_F(CrashHistoryTest, AnEndBeforeAnyDeviceIsBegunIsOfTheEvents) {
  End(nothing_);
  End(nothing_);
  EXPECT_EQ(End(nothing_), events_);
  EXPECT_TRUE(history_.waits_for_events());
  EXPECT_EQ(End(nothing_), events_);
  EXPECT_FALSE(history_.waits_for_events());
}

TEST_F(CrashHistoryTest, EventsAreWaitedForAgainAfterARest) {
  CallPage page;
  page.waiting.Begin(3, 1);
  page.ended_in = kEndedInWaiting;
  EXPECT_EQ(End(page), (CrashCulprit{CrashCulprit::kWaiting, 0, 3}));
  EXPECT_TRUE(history_.waits_for_events());
  End(page);
  EXPECT_FALSE(history_.waits_for_events());
  clock_.Advance(minutes(5) - seconds(1));
  Start();
  EXPECT_FALSE(history_.waits_for_events());
  clock_.Advance(seconds(1));
  Start();
  EXPECT_TRUE(history_.waits_for_events());
  End(page, minutes(2));
  EXPECT_TRUE(history_.waits_for_events()) << "the last one is long ago";
  End(page);
  EXPECT_FALSE(history_.waits_for_events());
  history_.Forget();
  EXPECT_TRUE(history_.waits_for_events());
}

}  // namespace

}  // namespace gpulens::reader
