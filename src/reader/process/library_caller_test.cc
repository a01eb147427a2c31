#include "reader/process/library_caller.h"

#include <gtest/gtest.h>

namespace gpulens::reader {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond;

TEST(QueryBackoff, WhatNeverWorkedIsAskedEachHour) {
  QueryBackoff ask;
  EXPECT_FALSE(ask.Rests(0) || ask.Due(0)) << "nothing is known yet";
  for (int64_t now : {int64_t{0}, kHour, 2 * kHour}) {
    ask.Take(ReadStatus::kNotSupported, now);
    EXPECT_TRUE(ask.Rests(now + kHour - 1));
    EXPECT_FALSE(ask.Due(now + kHour - 1));
    EXPECT_TRUE(ask.Due(now + kHour));
  }
}

TEST(QueryBackoff, WhatHasWorkedIsAskedSoonAndThenLater) {
  QueryBackoff ask;
  ask.Take(ReadStatus::kOk, 0);
  int64_t now = 0;
  for (int64_t pause : {5, 10, 20, 40}) {
    ask.Take(ReadStatus::kNotSupported, now);
    EXPECT_TRUE(ask.Rests(now + pause * kSecond - 1)) << pause;
    now += pause * kSecond;
    EXPECT_TRUE(ask.Due(now)) << pause;
  }
  for (int i = 0; i < 20; ++i) ask.Take(ReadStatus::kNotSupported, now);
  EXPECT_TRUE(ask.Due(now + kHour)) << "an hour at most";
  ask.Take(ReadStatus::kOk, now);
  EXPECT_FALSE(ask.Due(now + kHour) || ask.Rests(now));
  ask.Take(ReadStatus::kNotSupported, now);
  EXPECT_TRUE(ask.Due(now + 5 * kSecond)) << "from the beginning";
}

TEST(QueryBackoff, AnErrorDoesNotRest) {
  QueryBackoff ask;
  ask.Take(ReadStatus::kError, 0);
  EXPECT_FALSE(ask.Rests(0)) << "its tier asks for it whenever it is due";
  EXPECT_TRUE(ask.Waits(0));
  EXPECT_TRUE(ask.Due(kSecond));
  for (int i = 0; i < 20; ++i) ask.Take(ReadStatus::kError, 0);
  EXPECT_TRUE(ask.Due(60 * kSecond));
  ask.Take(ReadStatus::kNoPermission, 0);
  EXPECT_FALSE(ask.Due(kHour));
}

}  // namespace
}  // namespace gpulens::reader
