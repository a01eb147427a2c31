#include "core/judge.h"

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

TEST(Judge, SentinelsComeBeforeLimits) {
  EXPECT_EQ(Judge(kTemperature, 65535, NsAt(0), nullptr), Verdict::kSentinel);
  EXPECT_EQ(Judge(kTemperature, -1, NsAt(0), nullptr), Verdict::kSentinel);
  EXPECT_EQ(Judge(kTemperature, 131, NsAt(0), nullptr), Verdict::kOutOfRange);
  EXPECT_EQ(Judge(kTemperature, -41, NsAt(0), nullptr), Verdict::kOutOfRange);
  EXPECT_EQ(Judge(kTemperature, 130, NsAt(0), nullptr), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, -40, NsAt(0), nullptr), Verdict::kAccepted);
}

TEST(Judge, NotANumberIsOutOfRange) {
  EXPECT_EQ(Judge(kTemperature, std::nan(""), NsAt(0), nullptr), Verdict::kOutOfRange);
  EXPECT_EQ(Judge(kTemperature, std::numeric_limits<double>::infinity(), NsAt(0), nullptr),
            Verdict::kOutOfRange);
  EXPECT_EQ(Judge(kPlain, std::nan(""), NsAt(0), nullptr), Verdict::kAccepted) << "no rule, no opinion";
}

TEST(Judge, ImpossibleValuesAreNeverAgreedOn) {
  JudgeMemory memory;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Judge(kTemperature, 200, NsAt(i), &memory), Verdict::kOutOfRange);
    EXPECT_EQ(Judge(kTemperature, 65535, NsAt(i), &memory), Verdict::kSentinel);
  }
  EXPECT_EQ(Judge(kTemperature, 40, NsAt(11), &memory), Verdict::kAccepted);
}

TEST(Judge, NeedsMemoryOnlyForJumpsAndFalls) {
  EXPECT_TRUE(NeedsMemory(kTemperature));
  EXPECT_TRUE(NeedsMemory(kNeverFalls));
  EXPECT_TRUE(NeedsMemory(kBounded));
  EXPECT_FALSE(NeedsMemory(kPlain));
  EXPECT_FALSE(NeedsMemory(kFree));
}

TEST(Judge, AJumpIsMeasuredPerSecond) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 30, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 55, NsAt(1), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 80.1, NsAt(2), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 80.1, NsAt(3), &memory), Verdict::kAccepted) << "2 s after the last good one";
  EXPECT_EQ(Judge(kTemperature, 50, NsAt(4), &memory), Verdict::kImpossibleJump) << "downwards, too";
}

TEST(Judge, ThreeAgreeingReadingsAreANewLevel) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.1), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 118, NsAt(0.2), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 121, NsAt(0.3), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 121, NsAt(0.4), &memory), Verdict::kAccepted);
}

TEST(Judge, ReadingsThatDisagreeBeginTheCountAnew) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  for (int i = 1; i <= 6; ++i) {
    EXPECT_EQ(Judge(kTemperature, i % 2 ? 120 : 90, NsAt(i * 0.01), &memory), Verdict::kImpossibleJump) << i;
  }
}

TEST(Judge, AGoodReadingForgetsTheCandidate) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.1), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.2), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0.3), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.4), &memory), Verdict::kImpossibleJump);
}

TEST(Judge, ASentinelBetweenDoesNotBreakAgreement) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.1), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 65535, NsAt(0.2), &memory), Verdict::kSentinel);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.3), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 120, NsAt(0.4), &memory), Verdict::kAccepted);
}

TEST(Judge, TheSameMomentTwiceDividesByNothing) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 20, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kTemperature, 21, NsAt(0), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kTemperature, 21, NsAt(-0.5), &memory), Verdict::kImpossibleJump) << "time going back";
}

TEST(Judge, ACounterThatMayResetFallsFreely) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kFree, 100, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kFree, 3, NsAt(1), &memory), Verdict::kAccepted);
}

TEST(Judge, AStrictCounterDoesNotFall) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kNeverFalls, 100, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kNeverFalls, 3, NsAt(1), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 100, NsAt(2), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kNeverFalls, 99, NsAt(3), &memory), Verdict::kCounterDecreased);
}

TEST(Judge, AStrictCounterThatStaysLowWasReset) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kNeverFalls, 100, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kNeverFalls, 0, NsAt(1), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 0, NsAt(2), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 0, NsAt(3), &memory), Verdict::kAccepted);
}

// After a reset a busy counter doubles from one reading to the next.
TEST(Judge, AStrictCounterThatRisesAgainWasReset) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kNeverFalls, 1e6, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kNeverFalls, 500, NsAt(1), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 1000, NsAt(2), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 1500, NsAt(3), &memory), Verdict::kAccepted);
}

TEST(Judge, AStrictCounterThatGlitchesTwiceIsNotReset) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kNeverFalls, 1e6, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kNeverFalls, 900, NsAt(1), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 400, NsAt(2), &memory), Verdict::kCounterDecreased);
  EXPECT_EQ(Judge(kNeverFalls, 500, NsAt(3), &memory), Verdict::kCounterDecreased);
}

TEST(Judge, ACounterGrowsNoFasterThanItCan) {
  JudgeMemory memory;
  EXPECT_EQ(Judge(kBounded, 100, NsAt(0), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kBounded, 109, NsAt(1), &memory), Verdict::kAccepted);
  EXPECT_EQ(Judge(kBounded, 1e9, NsAt(2), &memory), Verdict::kImpossibleJump);
  EXPECT_EQ(Judge(kBounded, 125, NsAt(3), &memory), Verdict::kAccepted);
}

TEST(VerdictName, IsClosedAndUnique) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kVerdicts; ++i) {
    EXPECT_TRUE(names.insert(VerdictName(static_cast<Verdict>(i))).second);
  }
  EXPECT_EQ(VerdictName(Verdict::kAccepted), "none");
  EXPECT_EQ(VerdictName(Verdict::kCounterDecreased), "counter_decreased");
  EXPECT_EQ(VerdictName(static_cast<Verdict>(kVerdicts)), "unknown");
}

}  // namespace
}  // namespace gpulens
