#include "base/memory.h"

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens {
namespace {

// Kilobytes of memory that this process has mapped and touched.
uint64_t TouchedKilobytes() {
  std::string text = *ReadFile("/proc/self/smaps_rollup", 1 << 16);
  std::string_view rest = std::string_view(text).substr(text.find("Rss:") + 4);
  return *ParseInt<uint64_t>(Trim(TakeUntil(rest, 'k')));
}

// Touched page by page; then the program must go on with every byte where it was.
constexpr char kConstants[4 << 20] = "not all zero, so that it is in the file";

TEST(ReleaseStartPages, ReleasesPagesThatWereOnlyRead) {
  const volatile char* first = kConstants;  // the compiler knows the bytes, too
  auto add = [first] {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof kConstants; i += 512) sum += static_cast<unsigned char>(first[i]);
    return sum;
  };
  uint64_t sum = add(), before = TouchedKilobytes();
  std::string kept = "memory that was written stays";
  ReleaseStartPages();
  uint64_t after = TouchedKilobytes();
  EXPECT_LT(after + 2048, before) << "most of four megabytes";
  EXPECT_EQ(*first, 'n');
  EXPECT_EQ(add(), sum);
  EXPECT_EQ(kept, "memory that was written stays");
  EXPECT_GT(TouchedKilobytes(), after + 2048);
}

TEST(MemoryWatch, RefusesAboveTheLimitUntilThereIsRoomAgain) {
  ManualClock clock;
  uint64_t used = 100, looks = 0;
  MemoryWatch watch(clock, [&] { return ++looks, used; });
  EXPECT_TRUE(watch.HasRoom()) << "no limit";
  EXPECT_EQ(looks, 0u);
  watch.SetLimit(100);
  EXPECT_TRUE(watch.HasRoom());
  used = 101;
  EXPECT_TRUE(watch.HasRoom()) << "memory is not read for each series";
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
