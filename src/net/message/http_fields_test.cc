#include "net/message/http_message.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Sun, 06 Nov 1994 08:49:37.25 GMT.
constexpr Instant kNow{5, 784'111'777'250'000'000};

TEST(RetryAfter, SecondsAreTakenAsTheyAre) {
  EXPECT_EQ(RetryAfter("120", kNow), seconds(120));
  EXPECT_EQ(RetryAfter(" 7\t", kNow), seconds(7));
  EXPECT_EQ(RetryAfter("0", kNow), seconds(0));
  EXPECT_EQ(RetryAfter("0060", kNow), seconds(60));
  EXPECT_EQ(RetryAfter("86400", kNow), hours(24));
}

TEST(RetryAfter, NothingIsLongerThanADay) {
  EXPECT_EQ(RetryAfter("86401", kNow), hours(24));
  EXPECT_EQ(RetryAfter("9223372036854775807", kNow), hours(24)) << "in seconds it fits, in nanoseconds not";
  EXPECT_EQ(RetryAfter("99999999999999999999999", kNow), hours(24));
  EXPECT_EQ(RetryAfter("Mon, 07 Nov 1994 08:49:37 GMT", kNow), hours(24) - milliseconds(250));
  EXPECT_EQ(RetryAfter("Mon, 07 Nov 1994 08:49:38 GMT", kNow), hours(24));
  EXPECT_EQ(RetryAfter("Fri, 31 Dec 9999 23:59:59 GMT", kNow), hours(24));
}

TEST(RetryAfter, TheThreeFormsOfADate) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:50:37 GMT", "Sunday, 06-Nov-94 08:50:37 GMT", "Sun Nov  6 08:50:37 1994"}) {
    EXPECT_EQ(RetryAfter(text, kNow), milliseconds(59'750)) << text;
  }
  EXPECT_EQ(RetryAfter("Sun Nov 06 08:50:37 1994", kNow), milliseconds(59'750));
  EXPECT_EQ(RetryAfter("Sun, 06 Nov 1994 08:49:60 GMT", kNow), milliseconds(22'750)) << "a leap second";
  EXPECT_EQ(RetryAfter("Mon, 06 Nov 1994 08:49:40 GMT", kNow), milliseconds(2'750)) << "a Sunday, truly";
}

TEST(RetryAfter, ADateInThePastIsNow) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
        "Sat, 01 Jan 0000 00:00:00 GMT", "Sunday, 06-Nov-93 08:50:37 GMT"}) {
    EXPECT_EQ(RetryAfter(text, kNow), seconds(0)) << text;
  }
}

TEST(RetryAfter, TwoDigitsOfAYearAreNear) {
  EXPECT_EQ(RetryAfter("Friday, 06-Nov-44 08:50:37 GMT", kNow), seconds(0)) << "1944";
  EXPECT_EQ(RetryAfter("Monday, 06-Nov-45 08:50:37 GMT", kNow), seconds(0))
      << "1945: 51 years ahead is behind";
  Instant eve{0, 4'102'444'799'000'000'000};  // the last second of 2099
  EXPECT_EQ(RetryAfter("Thursday, 31-Dec-99 23:59:58 GMT", eve), seconds(0));
  EXPECT_EQ(RetryAfter("Friday, 01-Jan-00 00:00:09 GMT", eve), seconds(10)) << "2100";
}

TEST(RetryAfter, AnyClockWillDo) {
  Instant first{0, INT64_MIN}, last{0, INT64_MAX};
  EXPECT_EQ(RetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", first), hours(24));
  EXPECT_EQ(RetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", last), seconds(0));
  EXPECT_EQ(RetryAfter("Sunday, 06-Nov-94 08:49:37 GMT", Instant{}), hours(24)) << "1994, from 1970";
}

struct BadRetryAfter {
  const char *name, *text;
};
class RetryAfterBad : public ::testing::TestWithParam<BadRetryAfter> {};

TEST_P(RetryAfterBad, IsRejected) { EXPECT_EQ(RetryAfter(GetParam().text, kNow), std::nullopt); }

INSTANTIATE_TEST_SUITE_P(
    Each, RetryAfterBad,
    ::testing::Values(BadRetryAfter{"empty", ""}, BadRetryAfter{"blank", "  \t"},
                      BadRetryAfter{"minus", "-1"}, BadRetryAfter{"plus", "+1"},
                      BadRetryAfter{"fraction", "1.5"}, BadRetryAfter{"unit", "10s"},
                      BadRetryAfter{"hexadecimal", "0x10"}, BadRetryAfter{"two_numbers", "1 2"},
                      BadRetryAfter{"list", "1, 2"}, BadRetryAfter{"word", "soon"},
                      BadRetryAfter{"infinity", "inf"}, BadRetryAfter{"quoted", "\"120\""},
                      BadRetryAfter{"escape", "\x1b[31m"}, BadRetryAfter{"iso_8601", "1994-11-06T08:50:37Z"},
                      BadRetryAfter{"day_alone", "Sun"},
                      BadRetryAfter{"no_zone", "Sun, 06 Nov 1994 08:50:37"},
                      BadRetryAfter{"other_zone", "Sun, 06 Nov 1994 08:50:37 UTC"},
                      BadRetryAfter{"offset", "Sun, 06 Nov 1994 08:50:37 +0000"},
                      BadRetryAfter{"behind", "Sun, 06 Nov 1994 08:50:37 GMT x"},
                      BadRetryAfter{"no_such_weekday", "Sum, 06 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"no_such_month", "Sun, 06 Nom 1994 08:50:37 GMT"},
                      BadRetryAfter{"day_0", "Sun, 00 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"day_31_of_30", "Sun, 31 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"february_29_of_no_leap_year", "Sun, 29 Feb 1994 08:50:37 GMT"},
                      BadRetryAfter{"hour_24", "Sun, 06 Nov 1994 24:00:00 GMT"},
                      BadRetryAfter{"minute_60", "Sun, 06 Nov 1994 08:60:37 GMT"},
                      BadRetryAfter{"second_61", "Sun, 06 Nov 1994 08:50:61 GMT"},
                      BadRetryAfter{"one_digit", "Sun, 6 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"minus_year", "Sun, 06 Nov -994 08:50:37 GMT"},
                      BadRetryAfter{"minus_hour", "Sun, 06 Nov 1994 -8:50:37 GMT"},
                      BadRetryAfter{"two_blanks", "Sun,  06 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"cut", "Sun, 06 Nov 1994 08:50:3"},
                      BadRetryAfter{"lower_case", "sun, 06 nov 1994 08:50:37 gmt"},
                      BadRetryAfter{"long_weekday_in_the_fixed_form", "Sunday, 06 Nov 1994 08:50:37 GMT"},
                      BadRetryAfter{"short_weekday_in_rfc850", "Sun, 06-Nov-94 08:50:37 GMT"},
                      BadRetryAfter{"four_digits_in_rfc850", "Sunday, 06-Nov-1994 08:50:37 GMT"},
                      BadRetryAfter{"asctime_with_zone", "Sun Nov  6 08:50:37 1994 GMT"},
                      BadRetryAfter{"asctime_two_blank_digits", "Sun Nov    08:50:37 1994"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace gpulens
