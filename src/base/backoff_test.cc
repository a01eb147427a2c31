#include "base/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpulens {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(Backoff, DoublesTheCeilingUpToTheCap) {
  // Over many seeds the longest wait of each turn comes near its ceiling, and none is above.
  constexpr int kTurns = 9;
  const int ceilings[kTurns] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
  Duration longest[kTurns] = {}, shortest[kTurns];
  std::fill(shortest, shortest + kTurns, hours(1));
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Backoff backoff(seed);
    for (int i = 0; i < kTurns; ++i) {
      Duration wait = backoff.Next();
      EXPECT_GE(wait, Duration(0));
      EXPECT_LE(wait, seconds(ceilings[i]));
      longest[i] = std::max(longest[i], wait);
      shortest[i] = std::min(shortest[i], wait);
    }
  }
  for (int i = 0; i < kTurns; ++i) {
    EXPECT_GT(longest[i], seconds(ceilings[i]) * 9 / 10) << i;
    EXPECT_LT(shortest[i], Duration(seconds(ceilings[i])) / 10) << i;
  }
}

TEST(Backoff, IsDeterministicForASeed) {
  Backoff one(7), two(7), other(8);
  bool differs = false;
  for (int i = 0; i < 20; ++i) {
    Duration wait = one.Next();
    EXPECT_EQ(wait, two.Next());
    differs |= wait != other.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(Backoff, StartsAgainAfterReset) {
  Backoff backoff(1);
  for (int i = 0; i < 10; ++i) (void)backoff.Next();
  backoff.AtLeast(seconds(30));
  backoff.Reset();
  EXPECT_LE(backoff.Next(), seconds(1));
}

TEST(Backoff, WaitsAtLeastAsLongAsTheServerRequests) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(seed);
    backoff.AtLeast(seconds(300));
    backoff.AtLeast(seconds(20));
    Duration wait = backoff.Next();
    EXPECT_GE(wait, seconds(300));
    EXPECT_LE(wait, seconds(330));
    EXPECT_LE(backoff.Next(), seconds(2));  // requests hold once
    backoff.AtLeast(seconds(-5));
    EXPECT_LE(backoff.Next(), seconds(4));
    backoff.AtLeast(Duration::max());
    EXPECT_LE(backoff.Next(), std::chrono::minutes(66));
  }
}

TEST(Backoff, CorrectsInvalidOptions) {
  Backoff::Options options;
  options.initial = seconds(-1);
  options.cap = seconds(0);
  options.factor = 1e300;
  Backoff backoff(options, 1);
  for (int i = 0; i < 10; ++i) EXPECT_GE(backoff.Next(), Duration(0));
  options.cap = seconds(10);
  options.initial = seconds(1);
  Backoff steep(options, 1);
  for (int i = 0; i < 10; ++i) EXPECT_LE(steep.Next(), seconds(10));
}

TEST(Backoff, WithoutJitterDoublesExactlyUpToTheCap) {
  Backoff backoff({.initial = seconds(1), .cap = seconds(5), .jitter = 0}, 1);
  EXPECT_FALSE(backoff.failed());
  for (int expected : {1, 2, 4, 5, 5}) EXPECT_EQ(backoff.Next(), seconds(expected));
  EXPECT_TRUE(backoff.failed());
  backoff.SetCap(seconds(3));
  EXPECT_EQ(backoff.Next(), seconds(3));
  backoff.AtLeast(seconds(90));
  EXPECT_EQ(backoff.Next(), seconds(90));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), seconds(1));
}

TEST(Backoff, JitterVariesAShareOfTheWait) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff({.initial = seconds(10), .jitter = 0.5}, seed);
    const Duration wait = backoff.Next();
    EXPECT_GE(wait, seconds(5));
    EXPECT_LE(wait, seconds(10));
  }
}

}  // namespace
}  // namespace gpulens
