#include "base/memory_watch.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(MemoryWatch, RefusesAboveTheLimitUntilThereIsRoomAgain) {
  ManualClock clock;
  uint64_t used = 100, looks = 0;
  MemoryWatch watch(clock, [&] { return ++looks, used; });
  EXPECT_TRUE(watch.HasRoom()) << "no limit";
  EXPECT_EQ(looks, 0u);
  watch.SetLimit(100);
  EXPECT_TRUE(watch.HasRoom());
  used = 101;
  EXPECT_TRUE(watch.HasRoom()) << "the kernel is not asked for each series";
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_FALSE(watch.HasRoom());
  used = 99;
  clock.Advance(std::chrono::milliseconds(100));
  EXPECT_TRUE(watch.HasRoom());
}

TEST(MemoryWatch, ManySeriesAtOnceAreSeen) {
  ManualClock clock;
  uint64_t used = 0;
  MemoryWatch watch(clock, [&] { return used; });
  watch.SetLimit(1 << 20);
  int taken = 0;
  // A kilobyte each, all in one moment.
  for (; taken < 100'000 && watch.HasRoom(); ++taken) used += 1 << 10;
  EXPECT_GE(taken, 1024);
  EXPECT_LE(taken, 1024 + 256);
}

}  // namespace
}  // namespace gpulens
