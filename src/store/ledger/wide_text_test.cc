#include "store/ledger/wide_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpulens::ledger {
namespace {

TEST(WideText, IsExactAndWithoutTrailingZeros) {
  EXPECT_EQ(WideText(0, 12), "0");
  EXPECT_EQ(WideText(6'880'000'000'000, 12), "6.88");
  EXPECT_EQ(WideText(-1, 12), "-0.000000000001");
  EXPECT_EQ(WideText(-1'000, 3), "-1");
  EXPECT_EQ(WideText(120, 0), "120");
  const __int128 wide = static_cast<__int128>(std::numeric_limits<int64_t>::max()) * 1'000;
  EXPECT_EQ(WideText(wide), "9223372036854775807000");
  EXPECT_EQ(WideText(wide, 12), "9223372036.854775807");
}

TEST(WideText, RoundsHalfToEven) {
  EXPECT_EQ(RoundedText(1'250, 3, 1), "1.2");
  EXPECT_EQ(RoundedText(1'251, 3, 1), "1.3");
  EXPECT_EQ(RoundedText(1'350, 3, 1), "1.4");
  EXPECT_EQ(RoundedText(-1'350, 3, 1), "-1.4");
  EXPECT_EQ(RoundedText(-4, 3, 1), "0.0") << "no minus before nothing";
  EXPECT_EQ(RoundedText(999'950, 3, 1), "1000.0");
  EXPECT_EQ(RoundedText(2'500, 3, 0), "2");
  EXPECT_EQ(RoundedText(7, 0, 0), "7");
  EXPECT_EQ(RoundedText(1'234'567'890, 3, 2, true), "1,234,567.89");
  EXPECT_EQ(RoundedText(123'456, 3, 0, true), "123");
  EXPECT_EQ(RoundedText(-1'234'567, 0, 0, true), "-1,234,567");
}

TEST(WideText, ReadsWhatItWrites) {
  for (__int128 value : {__int128{0}, __int128{-7}, static_cast<__int128>(INT64_MAX) * INT64_MAX})
    EXPECT_TRUE(ParseWide(WideText(value)) == value);
  for (const char* bad : {"", "-", "1.0", "+1", " 1", "0x1", "999999999999999999999999999999999999999"})
    EXPECT_FALSE(ParseWide(bad)) << bad;
}

}  // namespace
}  // namespace gpulens::ledger
