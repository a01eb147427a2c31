#include "reader/process/library_caller.h"

#include <gtest/gtest.h>

namespace gpulens::reader {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond;

TEST(QueryBackoff, ACallThatNeverWorkedIsDueEachHour) {
  QueryBackoff backoff;
  EXPECT_FALSE(backoff.Rests(0) || backoff.Due(0)) << "nothing is known yet";
  for (int64_t now : {int64_t{0}, kHour, 2 * kHour}) {
    backoff.Take(ReadStatus::kNotSupported, now);
    EXPECT_TRUE(backoff.Rests(now + kHour - 1));
    EXPECT_FALSE(backoff.Due(now + kHour - 1));
    EXPECT_TRUE(backoff.Due(now + kHour));
  }
}

TEST(QueryBackoff, ACallThatHasWorkedIsDueSoonAndThenLater) {
  QueryBackoff backoff;
  backoff.Take(ReadStatus::kOk, 0);
  int64_t now = 0;
  for (int64_t pause : {5, 10, 20, 40}) {
    backoff.Take(ReadStatus::kNotSupported, now);
    EXPECT_TRUE(backoff.Rests(now + pause * kSecond - 1)) << pause;
    now += pause * kSecond;
    EXPECT_TRUE(backoff.Due(now)) << pause;
  }
  for (int i = 0; i < 20; ++i) backoff.Take(ReadStatus::kNotSupported, now);
  EXPECT_TRUE(backoff.Due(now + kHour)) << "an hour at most";
  backoff.Take(ReadStatus::kOk, now);
  EXPECT_FALSE(backoff.Due(now + kHour) || backoff.Rests(now));
  backoff.Take(ReadStatus::kNotSupported, now);
  EXPECT_TRUE(backoff.Due(now + 5 * kSecond)) << "from the beginning";
}

TEST(QueryBackoff, AnErrorDoesNotRest) {
  QueryBackoff backoff;
  backoff.Take(ReadStatus::kError, 0);
  EXPECT_FALSE(backoff.Rests(0)) << "its tier calls it whenever it is due";
  EXPECT_TRUE(backoff.Waits(0));
  EXPECT_TRUE(backoff.Due(kSecond));
  for (int i = 0; i < 20; ++i) backoff.Take(ReadStatus::kError, 0);
  EXPECT_TRUE(backoff.Due(60 * kSecond));
  backoff.Take(ReadStatus::kNoPermission, 0);
  EXPECT_FALSE(backoff.Due(kHour));
}

}  // namespace
}  // namespace gpulens::reader
