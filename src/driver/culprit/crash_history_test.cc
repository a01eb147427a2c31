#include "driver/culprit/crash_history.h"

#include <gtest/gtest.h>

namespace gpulens::driver {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FieldInfo kFields[] = {{"power", "W", Tier::kFast}};
constexpr Vendor kVendor{.name = "test",
                         .no_devices = "none",
                         .device = "GPU",
                         .fields = kFields,
                         .call_name = [](CallNumber call) noexcept -> std::string_view {
                           return call == 1 ? "get_power" : call == 2 ? "open" : "wait";
                         }};

class CrashHistoryTest : public testing::Test {
 protected:
  CrashHistoryTest() { Start(); }
  void Start() {
    history_.Start(clock_.Now());
    book_.Begin(clock_.Now(), minutes(5));
    book_.Expect(4);
  }
  // A process that lives for a second and then ends with this page.
  std::string End(const CallPage& page, Duration lived = seconds(1)) {
    clock_.Advance(lived);
    std::string said = history_.Blame(page, true, clock_.Now());
    Start();
    return said;
  }

  ManualClock clock_{Instant{1'000'000'000'000, 1'700'000'000'000'000'000}};
  PlainShelf shelf_;
  DeviceBook book_{kVendor, shelf_};
  CrashHistory history_{kVendor, book_, {seconds(1), seconds(2), minutes(1), minutes(5)}};
  CallPage nothing_;
};

TEST_F(CrashHistoryTest, ADeviceThatEndsItTwiceIsLeftOut) {
  CallPage page;
  page.devices[3].Begin(1, 1);
  EXPECT_EQ(End(page), " in get_power on GPU 3");
  EXPECT_EQ(book_.left_out(), 0U);
  EXPECT_EQ(End(page), " in get_power on GPU 3, which is left out for a while");
  EXPECT_EQ(book_.left_out(), 1U);
  EXPECT_FALSE(history_.one_by_one()) << "they were explained";
}

TEST_F(CrashHistoryTest, EndsThatNothingExplainsBeginDevicesOneAtATime) {
  EXPECT_EQ(End(nothing_), "");
  EXPECT_FALSE(history_.one_by_one()) << "once may be chance";
  EXPECT_EQ(End(nothing_), "");
  ASSERT_TRUE(history_.one_by_one());
  history_.Begun(0, clock_.Now());
  clock_.Advance(seconds(10));
  history_.Begun(2, clock_.Now());
  EXPECT_EQ(End(nothing_), ", the last begun was GPU 2");
  EXPECT_TRUE(history_.one_by_one()) << "until it lives";
  for (uint32_t device : {0U, 1U, 3U}) {
    history_.Begun(device, clock_.Now());
    clock_.Advance(seconds(10));
  }
  EXPECT_EQ(End(nothing_, minutes(2)), "") << "it was begun long before";
  EXPECT_FALSE(history_.one_by_one());
}

TEST_F(CrashHistoryTest, AnEndBeforeAnyDeviceIsBegunIsOfTheEvents) {
  End(nothing_);
  End(nothing_);
  EXPECT_EQ(End(nothing_), " outside of any GPU's calls");
  EXPECT_TRUE(history_.waits_for_events());
  EXPECT_EQ(End(nothing_), " outside of any GPU's calls: the library's events are not waited for");
  EXPECT_FALSE(history_.waits_for_events());
}

TEST_F(CrashHistoryTest, EventsAreWaitedForAgainAfterARest) {
  CallPage page;
  page.waiting.Begin(3, 1);
  page.ended_in = kEndedInWaiting;
  EXPECT_EQ(End(page), " in wait");
  EXPECT_EQ(End(page), " in wait: the library's events are not waited for");
  clock_.Advance(minutes(5) - seconds(1));
  Start();
  EXPECT_FALSE(history_.waits_for_events());
  clock_.Advance(seconds(1));
  Start();
  EXPECT_TRUE(history_.waits_for_events());
  EXPECT_EQ(End(page, minutes(2)), " in wait") << "the last one is long ago";
  EXPECT_EQ(End(page), " in wait: the library's events are not waited for");
  history_.Forget();
  EXPECT_TRUE(history_.waits_for_events());
}

}  // namespace
}  // namespace gpulens::driver
