#include "core/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace gpulens {
namespace {

constexpr double kSentinels[] = {65535, -1};
constexpr Rule kTemperatureRule{
    .low = -40, .high = 130, .max_change_per_second = 25, .sentinels = kSentinels};
constexpr MetricDesc kTemperature{
    .name = "t", .unit = "Cel", .help = "", .kind = Kind::kGauge, .rule = &kTemperatureRule};
constexpr MetricDesc kPlain{.name = "p", .unit = "", .help = ""};
constexpr MetricDesc kNeverFalls{
    .name = "c", .unit = "", .help = "", .kind = Kind::kCounter, .on_decrease = OnDecrease::kReject};
constexpr MetricDesc kFree{.name = "c", .unit = "", .help = "", .kind = Kind::kCounter};
constexpr Rule kGrowth{.low = 0, .max_change_per_second = 10};
constexpr MetricDesc kBounded{.name = "c",
                              .unit = "",
                              .help = "",
                              .kind = Kind::kCounter,
                              .on_decrease = OnDecrease::kReject,
                              .rule = &kGrowth};

int64_t NsAt(double second) { return static_cast<int64_t>((second + 1) * 1e9); }

TEST(Validate, SentinelsComeBeforeLimits) {
  EXPECT_EQ(Validate(kTemperature, 65535, NsAt(0), nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kTemperature, -1, NsAt(0), nullptr), Validation::kSentinel);
  EXPECT_EQ(Validate(kTemperature, 131, NsAt(0), nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kTemperature, -41, NsAt(0), nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kTemperature, 130, NsAt(0), nullptr), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, -40, NsAt(0), nullptr), Validation::kAccepted);
}

TEST(Validate, NotANumberIsOutOfRange) {
  EXPECT_EQ(Validate(kTemperature, std::nan(""), NsAt(0), nullptr), Validation::kOutOfRange);
  EXPECT_EQ(Validate(kTemperature, std::numeric_limits<double>::infinity(), NsAt(0), nullptr),
            Validation::kOutOfRange);
  EXPECT_EQ(Validate(kPlain, std::nan(""), NsAt(0), nullptr), Validation::kAccepted) << "no rule, no opinion";
}

TEST(Validate, ImpossibleValuesAreNeverAgreedOn) {
  ValidatorState memory;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Validate(kTemperature, 200, NsAt(i), &memory), Validation::kOutOfRange);
    EXPECT_EQ(Validate(kTemperature, 65535, NsAt(i), &memory), Validation::kSentinel);
  }
  EXPECT_EQ(Validate(kTemperature, 40, NsAt(11), &memory), Validation::kAccepted);
}

TEST(Validate, NeedsMemoryOnlyForJumpsAndFalls) {
  EXPECT_TRUE(NeedsMemory(kTemperature));
  EXPECT_TRUE(NeedsMemory(kNeverFalls));
  EXPECT_TRUE(NeedsMemory(kBounded));
  EXPECT_FALSE(NeedsMemory(kPlain));
  EXPECT_FALSE(NeedsMemory(kFree));
}

TEST(Validate, AJumpIsMeasuredPerSecond) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 30, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 55, NsAt(1), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 80.1, NsAt(2), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 80.1, NsAt(3), &memory), Validation::kAccepted)
      << "2 s after the last good one";
  EXPECT_EQ(Validate(kTemperature, 50, NsAt(4), &memory), Validation::kImpossibleJump) << "downwards, too";
}

TEST(Validate, AGaugeMayChangeAtOnceByWhatItMayInASecond) {
  // An H100 at the begin of a matrix product, read each 200 ms.
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 45, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 59, NsAt(0.2), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 48, NsAt(0.4), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 74, NsAt(0.6), &memory), Validation::kImpossibleJump);
}

TEST(Validate, ThreeAgreeingReadingsAreANewLevel) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.1), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 118, NsAt(0.2), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 121, NsAt(0.3), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 121, NsAt(0.4), &memory), Validation::kAccepted);
}

TEST(Validate, ReadingsThatDisagreeRestartTheCount) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  for (int i = 1; i <= 6; ++i) {
    EXPECT_EQ(Validate(kTemperature, i % 2 ? 120 : 90, NsAt(i * 0.01), &memory), Validation::kImpossibleJump)
        << i;
  }
}

TEST(Validate, AGoodReadingForgetsTheCandidate) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.1), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.2), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0.3), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.4), &memory), Validation::kImpossibleJump);
}

TEST(Validate, ASentinelBetweenDoesNotBreakAgreement) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.1), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 65535, NsAt(0.2), &memory), Validation::kSentinel);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.3), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 120, NsAt(0.4), &memory), Validation::kAccepted);
}

TEST(Validate, TheSameMomentTwiceDividesByNothing) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 20, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kTemperature, 46, NsAt(0), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kTemperature, 50, NsAt(-0.5), &memory), Validation::kImpossibleJump)
      << "time going back";
}

TEST(Validate, ACounterThatMayResetFallsFreely) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kFree, 100, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kFree, 3, NsAt(1), &memory), Validation::kAccepted);
}

TEST(Validate, AStrictCounterDoesNotFall) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kNeverFalls, 100, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kNeverFalls, 3, NsAt(1), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 100, NsAt(2), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kNeverFalls, 99, NsAt(3), &memory), Validation::kCounterDecreased);
}

TEST(Validate, AStrictCounterThatStaysLowWasReset) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kNeverFalls, 100, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kNeverFalls, 0, NsAt(1), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 0, NsAt(2), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 0, NsAt(3), &memory), Validation::kAccepted);
}

// After a reset a busy counter doubles from one reading to the next.
TEST(Validate, AStrictCounterThatRisesAgainWasReset) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kNeverFalls, 1e6, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kNeverFalls, 500, NsAt(1), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 1000, NsAt(2), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 1500, NsAt(3), &memory), Validation::kAccepted);
}

TEST(Validate, AStrictCounterThatGlitchesTwiceIsNotReset) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kNeverFalls, 1e6, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kNeverFalls, 900, NsAt(1), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 400, NsAt(2), &memory), Validation::kCounterDecreased);
  EXPECT_EQ(Validate(kNeverFalls, 500, NsAt(3), &memory), Validation::kCounterDecreased);
}

TEST(Validate, ACounterGrowsNoFasterThanItCan) {
  ValidatorState memory;
  EXPECT_EQ(Validate(kBounded, 100, NsAt(0), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kBounded, 109, NsAt(1), &memory), Validation::kAccepted);
  EXPECT_EQ(Validate(kBounded, 1e9, NsAt(2), &memory), Validation::kImpossibleJump);
  EXPECT_EQ(Validate(kBounded, 125, NsAt(3), &memory), Validation::kAccepted);
}

TEST(ValidationName, IsClosedAndUnique) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kValidations; ++i) {
    EXPECT_TRUE(names.insert(ValidationName(static_cast<Validation>(i))).second);
  }
  EXPECT_EQ(ValidationName(Validation::kAccepted), "none");
  EXPECT_EQ(ValidationName(Validation::kCounterDecreased), "counter_decreased");
  EXPECT_EQ(ValidationName(static_cast<Validation>(kValidations)), "unknown");
}

}  // namespace
}  // namespace gpulens
