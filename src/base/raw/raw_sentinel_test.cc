#include "base/raw/raw_sentinel.h"

#include <gtest/gtest.h>

#include "base/raw/wrapping_counter.h"

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

TEST(RawSentinel, TheOnesThatWereSeenInTheField) {
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

TEST(RawSentinel, HigherBitsAreNotLookedAt) { EXPECT_TRUE(IsSentinel(0x1FFFF, 16)); }

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

TEST(WrappingCounter, CountsOn) {
  WrappingCounter counter(32);
  EXPECT_EQ(counter.Read(0xFFFFFF00), 0xFFFFFF00u);
  EXPECT_EQ(counter.Read(0x10), 0x100000010u);
  EXPECT_EQ(counter.Read(0x10), 0x100000010u);
  EXPECT_EQ(counter.Read(0xC0000000), 0x1C0000000u);
  EXPECT_EQ(counter.Read(5), 0x200000005u);
}

TEST(WrappingCounter, AResetForgetsWhatWasBefore) {
  WrappingCounter counter(32);
  counter.Read(0xFFFFFF00);
  counter.Read(0x1000);
  EXPECT_EQ(counter.Read(5), 5u);
  EXPECT_EQ(counter.Read(0x80000000), 0x80000000u);
  EXPECT_EQ(counter.Read(1), 1u) << "from the middle: began anew";
}

TEST(WrappingCounter, OfSixteenBits) {
  WrappingCounter counter(16);
  EXPECT_EQ(counter.Read(0x1FFFF), 0xFFFFu);
  EXPECT_EQ(counter.Read(0), 0x10000u);
}

}  // namespace
}  // namespace gpulens
