#include "pipeline/memory_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "pipeline/agent_stats.h"

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

TEST(MemoryWatch, OfAllProcesses) {
  AgentStats stats;
  const uint64_t alone = MemoryOfAllProcesses(&stats);
  EXPECT_GT(alone, 1u << 20);
  EXPECT_EQ(MemoryOfAllProcesses(nullptr) >> 24, alone >> 24);
  stats.nvml_driver_pid = static_cast<int32_t>(::getpid());  // any process will do
  EXPECT_GT(MemoryOfAllProcesses(&stats), alone);
}

}  // namespace
}  // namespace gpulens
