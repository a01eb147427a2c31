#include "base/raw_sentinel.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(RawSentinel, EachWidthHasItsOwn) {
  EXPECT_TRUE(IsSentinel(0xFF, 8));
  EXPECT_TRUE(IsSentinel(0xFFFF, 16));
  EXPECT_TRUE(IsSentinel(0xFFFFFFFF, 32));
  EXPECT_TRUE(IsSentinel(UINT64_MAX, 64));
  EXPECT_FALSE(IsSentinel(0xFF, 16));
  EXPECT_FALSE(IsSentinel(0xFFFF, 32));
  EXPECT_FALSE(IsSentinel(0xFFFFFFFF, 64)) << "4.3 MJ in millijoules, reached in two hours";
  EXPECT_FALSE(IsSentinel(7, 12)) << "no such width";
}

TEST(RawSentinel, MatchesSentinelsOfDrivers) {
  EXPECT_TRUE(IsSentinel(static_cast<uint32_t>(INT32_MIN), 32));
  EXPECT_TRUE(IsSentinel(uint64_t{1} << 63, 64));
  EXPECT_TRUE(IsSentinel(9223372036854775792ull, 64));
  EXPECT_TRUE(IsSentinel(9223372036854775794ull, 64)) << "DCGM: not supported";
  EXPECT_TRUE(IsSentinel(2147483632, 32));
  EXPECT_FALSE(IsSentinel(2147483631, 32));
}

TEST(RawSentinel, MinusOneMayBeANumberOfASignedField) {
  EXPECT_FALSE(IsSentinel(static_cast<uint64_t>(-1), 64, true));
  EXPECT_FALSE(IsSentinel(0xFFFFFFFF, 32, true));
  EXPECT_TRUE(IsSentinel(static_cast<uint64_t>(INT64_MIN), 64, true));
  EXPECT_TRUE(IsSentinel(0x80000000, 32, true));
}

TEST(RawSentinel, IgnoresHigherBits) { EXPECT_TRUE(IsSentinel(0x1FFFF, 16)); }

TEST(RawSentinel, DecimalOnes) {
  EXPECT_TRUE(IsSentinel(140737488355328.0));
  EXPECT_TRUE(IsSentinel(140737488355330.0));
  EXPECT_TRUE(IsSentinel(9223372036854775794.0));
  EXPECT_TRUE(IsSentinel(18446744073709551615.0));
  EXPECT_TRUE(IsSentinel(-9223372036854775808.0));
  EXPECT_FALSE(IsSentinel(0.0));
  EXPECT_FALSE(IsSentinel(-1.0));
  EXPECT_FALSE(IsSentinel(140737488355000.0));
}

}  // namespace
}  // namespace gpulens
