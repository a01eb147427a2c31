// Every number must read as std::to_chars writes it, and never touch more than it may.
#include "base/number_text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace gpulens {
namespace {

constexpr char kGuard = '#';

template <class Number>
std::string Written(char* (*write)(char*, Number) noexcept, Number value) {
  char text[kNumberBytes + 8];
  std::fill(std::begin(text), std::end(text), kGuard);
  char* end = write(text, value);
  for (size_t i = kNumberBytes; i < sizeof text; ++i) EXPECT_EQ(text[i], kGuard) << value;
  return {text, end};
}
std::string Int(int64_t value) { return Written<int64_t>(&WriteInteger, value); }
std::string Double(double value) { return Written<double>(&WriteNumber, value); }

template <class Number>
std::string Expected(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

TEST(NumberText, IntegersAroundEveryPowerOfTen) {
  for (uint64_t power = 1, i = 0; i < 19; ++i, power *= 10) {
    auto value = static_cast<int64_t>(power);
    for (int64_t near : {value - 1, value, value + 1, value * 9, -value, 1 - value, -1 - value})
      EXPECT_EQ(Int(near), std::to_string(near));
  }
  for (int64_t value : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), int64_t{0},
                        int64_t{1'0000'0000'0000'0000}, int64_t{9999'9999'9999'9999}})
    EXPECT_EQ(Int(value), std::to_string(value));
}

TEST(NumberText, AllNumbersOfEightDigitsInSteps) {
  for (int64_t value = 0; value < 100'000'000; value += value < 20'000 ? 1 : 997)
    ASSERT_EQ(Int(value), std::to_string(value));
}

TEST(NumberText, WholeDoublesHaveNoExponentBelow2To53) {
  EXPECT_EQ(Double(0), "0");
  EXPECT_EQ(Double(-0.0), "-0");
  EXPECT_EQ(Double(1e15), "1000000000000000");
  EXPECT_EQ(Double(-9007199254740991.0), "-9007199254740991");
  EXPECT_EQ(Double(1e300), "1e+300");
}

TEST(NumberText, WritesNaNAndInfinities) {
  EXPECT_EQ(Double(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(Double(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(Double(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(NumberText, DecimalsAsToCharsWritesThem) {
  for (double value : {0.1, 0.001, 0.000999, 0.5, 54.125, 1.000001, 999999999.999999, 123456789.5, 0.999999,
                       -0.001, -5.15, 1e-7, 4.35, 0.30000000000000004, 5e-324})
    EXPECT_EQ(Double(value), Expected(value));
  std::mt19937_64 random(7);
  for (int i = 0; i < 300'000; ++i) {
    double scale = std::pow(10.0, static_cast<double>(random() % 7));
    double value =
        static_cast<double>(static_cast<int64_t>(random() % 2'000'000'000'000) - 1'000'000'000'000) / scale;
    if (value == std::trunc(value)) continue;
    ASSERT_EQ(Double(value), Expected(value));
  }
}

TEST(NumberText, DoublesOfAnyBitsReadBackTheSame) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 300'000; ++i) {
    double value = std::bit_cast<double>(random());
    if (std::isnan(value)) continue;
    std::string text = Double(value);
    if (std::isinf(value)) continue;
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    ASSERT_EQ(back, value) << text;
  }
}

}  // namespace
}  // namespace gpulens
