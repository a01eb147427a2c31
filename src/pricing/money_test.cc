#include "pricing/money.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gpulens::pricing {
namespace {

constexpr int64_t kMostPico = std::numeric_limits<int64_t>::max();

TEST(Money, AThousandTokensAtTwoDollarsAMillionAreTwoThousandMicros) {
  const auto pico = PicoOf(1000, 2'000'000);
  ASSERT_EQ(pico, 2'000'000'000);
  PicoSum sum;
  sum.Add(*pico);
  EXPECT_EQ(sum.micros(), 2000);
  EXPECT_EQ(sum.remainder(), 0);
  EXPECT_EQ(UsdText(sum), "0.002");
}

TEST(Money, WhatDoesNotFitIsAnError) {
  EXPECT_EQ(PicoOf(3'037'000'500, 3'037'000'500), std::nullopt);
  EXPECT_EQ(PicoOf(3'037'000'499, 3'037'000'499), 9'223'372'030'926'249'001);
  EXPECT_EQ(PicoOf(-1, 5), std::nullopt);
  EXPECT_EQ(PicoOf(5, -1), std::nullopt);
  EXPECT_EQ(AddPico(kMostPico, 1), std::nullopt);
  EXPECT_EQ(AddPico(kMostPico - 1, 1), kMostPico);
  EXPECT_EQ(Scaled(kMostPico, {2, 1}), std::nullopt);
  EXPECT_EQ(Scaled(kMostPico, {kMostPico, kMostPico}), kMostPico);
  PicoSum sum;
  for (int i = 0; i < 1000; ++i) sum.Add(kMostPico);
  EXPECT_EQ(sum.micros(), 9'223'372'036'854'775);
  for (int i = 0; i < 14; ++i) sum.Add(PicoSum(sum));
  EXPECT_EQ(UsdText(sum), "151115727451828.646821888");
  EXPECT_EQ(sum.micros(), std::nullopt);
}

TEST(Money, MicrosRoundDownAndTheRemainderIsPositive) {
  const struct {
    int64_t pico, micros;
    int32_t remainder;
    const char* text;
  } rows[] = {{0, 0, 0, "0.000000"},
              {1, 0, 1, "0.000001"},
              {1'760'000'000, 1760, 0, "1760.000000"},
              {999'999, 0, 999'999, "0.999999"},
              {-1, -1, 999'999, "-0.000001"},
              {-1'000'000, -1, 0, "-1.000000"},
              {std::numeric_limits<int64_t>::min(), -9'223'372'036'855, 224'192, "-9223372036854.775808"}};
  for (const auto& row : rows) {
    const PicoSum sum{Int128{row.pico}};
    EXPECT_EQ(sum.micros(), row.micros) << row.text;
    EXPECT_EQ(sum.remainder(), row.remainder) << row.text;
    EXPECT_EQ(MicrosText(sum), row.text);
    EXPECT_EQ(ParseMicros(row.text), sum) << row.text;
    EXPECT_EQ(PicoSum::Of(row.micros, row.remainder), sum) << row.text;
  }
  EXPECT_EQ(PicoSum::Of(1, 1'000'000), std::nullopt);
  EXPECT_EQ(PicoSum::Of(1, -1), std::nullopt);
}

TEST(Money, UsdIsExact) {
  EXPECT_EQ(UsdText(PicoSum(0)), "0.00");
  EXPECT_EQ(UsdText(PicoSum(1'760'000'000)), "0.00176");
  EXPECT_EQ(UsdText(PicoSum(12'500'000'000'000)), "12.50");
  EXPECT_EQ(UsdText(PicoSum(-1)), "-0.000000000001");
  EXPECT_EQ(UsdText(PicoSum(Int128{kMostPico} * 1'000'000)), "9223372036854.775807");
  for (const char* text : {"", "-", ".", "1.", ".5", "1e3", "+1", " 1", "1.0000000000001", "1.2.3", "1,5",
                           "1000000000000000000.0"})
    EXPECT_EQ(ParseUsd(text), std::nullopt) << text;
  EXPECT_EQ(ParseUsd("0.00176"), PicoSum(1'760'000'000));
  EXPECT_EQ(ParseUsd("-12"), PicoSum(-12 * Int128{kPicoPerUsd}));
  for (const char* text : {"", "1", "1.00000", "1.0000000", "-.000000", "x.000000", "1.00000x"})
    EXPECT_EQ(ParseMicros(text), std::nullopt) << text;
}

TEST(Money, Ratios) {
  EXPECT_EQ(ParseRatio("11/10"), (Ratio{11, 10}));
  EXPECT_EQ(ParseRatio("1.1"), (Ratio{11, 10}));
  EXPECT_EQ(ParseRatio("2"), (Ratio{2, 1}));
  EXPECT_EQ(ParseRatio("0"), (Ratio{0, 1}));
  EXPECT_EQ(ParseRatio("0.50"), (Ratio{1, 2}));
  for (const char* text :
       {"", "/", "1/", "/2", "1/0", "-1", "1.", ".5", "1e1", "1/2/3", "1234567890", "1.123456789"})
    EXPECT_EQ(ParseRatio(text), std::nullopt) << text;
  EXPECT_EQ(Scaled(5, {1, 2}), 3);  // 2.5
  EXPECT_EQ(Scaled(5, {49, 100}), 2);
  EXPECT_EQ(Scaled(-5, {1, 2}), std::nullopt);
}

TEST(Money, StatementsRoundHalvesToTheEvenOne) {
  const auto cents = [](int64_t pico) { return MinorText(MinorUnits(PicoSum(Int128{pico}), 2), 2); };
  constexpr int64_t kCent = kPicoPerUsd / 100;
  EXPECT_EQ(cents(kCent / 2), "0.00");
  EXPECT_EQ(cents(kCent / 2 + 1), "0.01");
  EXPECT_EQ(cents(3 * kCent / 2), "0.02");
  EXPECT_EQ(cents(5 * kCent / 2), "0.02");
  EXPECT_EQ(cents(-3 * kCent / 2), "-0.02");
  EXPECT_EQ(cents(-kCent / 2), "0.00");
  EXPECT_EQ(MinorText(MinorUnits(PicoSum(Int128{3} * kPicoPerUsd / 2), 0), 0), "2");
}

TEST(Money, LinesOfAStatementAndTheirRoundingAddUpToItsTotal) {
  const std::vector<PicoSum> lines(3, PicoSum(333'333'333'333));
  EXPECT_EQ(RoundingLine(lines, 2), 1);  // 0.33 + 0.33 + 0.33 + 0.01 = 1.00
}

RC_GTEST_PROP(MoneyProperty, TextsAreReadBack, (int64_t a, int64_t b)) {
  const PicoSum sum(Int128{a} * 1'000'003 + b);
  RC_ASSERT(ParseUsd(UsdText(sum)) == sum);
  RC_ASSERT(ParseMicros(MicrosText(sum)) == sum);
}

RC_GTEST_PROP(MoneyProperty, ACounterOfWholeMicrosNeverDrifts, (std::vector<uint32_t> charges)) {
  PicoSum sum;
  int64_t counter = 0;  // grows by the difference of whole micros after each charge, as a counter does
  Int128 exact = 0;
  for (uint32_t pico : charges) {
    const int64_t before = *sum.micros();
    sum.Add(int64_t{pico});
    exact += pico;
    RC_ASSERT(*sum.micros() >= before);
    counter += *sum.micros() - before;
    RC_ASSERT(Int128{counter} == exact / kPicoPerMicro);
  }
}

RC_GTEST_PROP(MoneyProperty, ALineOfRoundingMakesStatementsAddUp, (std::vector<int64_t> amounts)) {
  std::vector<PicoSum> lines;
  PicoSum total;
  Int128 shown = 0;
  for (int64_t amount : amounts) {
    lines.emplace_back(Int128{amount});
    total.Add(amount);
    shown += MinorUnits(lines.back(), 2);
  }
  RC_ASSERT(shown + RoundingLine(lines, 2) == MinorUnits(total, 2));
}

}  // namespace
}  // namespace gpulens::pricing
