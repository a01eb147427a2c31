#include "proxy/admission/rate_limits.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gpulens::proxy {
namespace {

const Instant kBegin{.boot_ns = 1'000'000'000, .unix_ns = 1'795'780'800'000'000'000};  // 2026-11-27T12:00:00Z

TEST(KeyRates, AMinutesRequestsMayComeAtOnceAndComeBackEvenly) {
  for (const int64_t limit : {1, 7, 60, 999}) {
    auto rates = MakeRef<KeyRates>();
    rates->SetLimits(limit, 0, 0);
    for (int64_t i = 0; i < limit; ++i)
      ASSERT_EQ(rates->Admit(0, false, kBegin).answer, RateAnswer::kAdmitted) << i;
    const auto refused = rates->Admit(0, false, kBegin);
    EXPECT_EQ(refused.answer, RateAnswer::kRequests);
    EXPECT_NEAR(static_cast<double>(refused.wait_ns), 60e9 / static_cast<double>(limit), 1000);
    EXPECT_EQ(rates->Admit(0, false, kBegin + Duration(refused.wait_ns - 1)).answer, RateAnswer::kRequests);
    EXPECT_EQ(rates->Admit(0, false, kBegin + Duration(refused.wait_ns)).answer, RateAnswer::kAdmitted);
  }
}

TEST(KeyRates, AMinuteNeverHasTwiceTheLimitAndTheLongRunHasTheLimit) {
  std::mt19937_64 random(3);
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(100, 0, 0);
  Instant now = kBegin;
  int admitted = 0;
  for (int i = 0; i < 20'000; ++i) {
    now = now + Duration(static_cast<int64_t>(random() % 60'000'000));
    admitted += rates->Admit(0, false, now).answer == RateAnswer::kAdmitted;
  }
  const double minutes = static_cast<double>((now - kBegin).count()) / 60e9;
  EXPECT_NEAR(admitted, 100 * (minutes + 1), 2);
}

TEST(KeyRates, TokensAreReservedAndSettled) {
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(0, 1000, 0);
  auto first = rates->Admit(900, false, kBegin);
  EXPECT_EQ(rates->Admit(200, false, kBegin).answer, RateAnswer::kTokens);
  first.use.Settle(100, kBegin);
  first.use.Settle(100, kBegin);
  EXPECT_EQ(rates->View(kBegin).tokens.remaining, 900);
  {
    const auto dropped = rates->Admit(800, false, kBegin);
    EXPECT_EQ(rates->View(kBegin).tokens.remaining, 100);
  }
  EXPECT_EQ(rates->View(kBegin).tokens.remaining, 900)
      << "a request that ends without a settlement used none";
  EXPECT_EQ(rates->Admit(1001, false, kBegin).answer, RateAnswer::kTooLarge);
  auto more = rates->Admit(10, false, kBegin);
  more.use.Settle(5000, kBegin);
  EXPECT_EQ(rates->View(kBegin).tokens.remaining, 0) << "what was used beyond the estimate is waited for";
  EXPECT_NEAR(static_cast<double>(rates->Admit(1, false, kBegin).wait_ns), 4101 * 60e6, 1e6);
}

TEST(KeyRates, StreamsAtOnceAreLimited) {
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(0, 0, 2);
  auto one = rates->Admit(0, true, kBegin), two = rates->Admit(0, true, kBegin);
  EXPECT_EQ(rates->Admit(0, true, kBegin).answer, RateAnswer::kStreams);
  EXPECT_EQ(rates->Admit(0, false, kBegin).answer, RateAnswer::kAdmitted);
  one.use.Settle(0, kBegin);
  two.use = {};
  EXPECT_EQ(rates->open_streams(), 0);
  RateUse moved = rates->Admit(0, true, kBegin).use;
  EXPECT_EQ(rates->open_streams(), 1);
  moved.Undo(kBegin);
  EXPECT_EQ(rates->open_streams(), 0);
}

TEST(KeyRates, UndoGivesTheRequestBack) {
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(2, 100, 0);
  for (int i = 0; i < 10; ++i) {
    auto answer = rates->Admit(100, false, kBegin);
    ASSERT_EQ(answer.answer, RateAnswer::kAdmitted) << i;
    answer.use.Undo(kBegin);
  }
}

TEST(KeyRates, AReloadKeepsWhatIsUsed) {
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(10, 0, 0);
  for (int i = 0; i < 10; ++i) static_cast<void>(rates->Admit(0, false, kBegin));
  rates->SetLimits(20, 0, 0);
  EXPECT_EQ(rates->Admit(0, false, kBegin).answer, RateAnswer::kRequests);
  rates->SetLimits(0, 0, 0);
  EXPECT_EQ(rates->Admit(0, false, kBegin).answer, RateAnswer::kAdmitted);
}

TEST(RateHeaders, AreThoseOfOpenAiAndAnthropic) {
  auto rates = MakeRef<KeyRates>();
  rates->SetLimits(60, 100'000, 0);
  std::vector<RateUse> open;
  for (int i = 0; i < 3; ++i) open.push_back(rates->Admit(10'000, false, kBegin).use);
  std::string out;
  AppendRateHeaders(out, RateHeaders::kOpenAi, rates->View(kBegin), kBegin.unix_ns);
  EXPECT_EQ(out,
            "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: "
            "57\r\nx-ratelimit-reset-requests: 3s\r\n"
            "x-ratelimit-limit-tokens: 100000\r\nx-ratelimit-remaining-tokens: "
            "70000\r\nx-ratelimit-reset-tokens: 18s\r\n");
  out.clear();
  AppendRateHeaders(out, RateHeaders::kAnthropic, rates->View(kBegin), kBegin.unix_ns);
  EXPECT_EQ(out,
            "anthropic-ratelimit-requests-limit: 60\r\nanthropic-ratelimit-requests-remaining: 57\r\n"
            "anthropic-ratelimit-requests-reset: 2026-11-27T12:00:03Z\r\nanthropic-ratelimit-tokens-limit: "
            "100000\r\n"
            "anthropic-ratelimit-tokens-remaining: 70000\r\nanthropic-ratelimit-tokens-reset: "
            "2026-11-27T12:00:18Z\r\n");
  out.clear();
  rates->SetLimits(0, 0, 0);
  AppendRateHeaders(out, RateHeaders::kOpenAi, rates->View(kBegin), kBegin.unix_ns);
  EXPECT_EQ(out, "");
}

TEST(RateHeaders, ResetsAreRoundedUp) {
  EXPECT_EQ(RateResetText(0), "0s");
  EXPECT_EQ(RateResetText(1), "1ms");
  EXPECT_EQ(RateResetText(11'000'001), "12ms");
  EXPECT_EQ(RateResetText(999'000'000), "999ms");
  EXPECT_EQ(RateResetText(999'000'001), "1s");
  EXPECT_EQ(RateResetText(62'500'000'000), "1m3s");
  EXPECT_EQ(RateResetText(360'000'000'000), "6m0s");
  EXPECT_EQ(RateResetText(7'200'000'000'000), "2h0m0s");
  EXPECT_EQ(RetryAfterSeconds(0), 1);
  EXPECT_EQ(RetryAfterSeconds(1'000'000'001), 2);
}

}  // namespace
}  // namespace gpulens::proxy
