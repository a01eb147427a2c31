#include "cli/cost/charge_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gpulens {
namespace {

using ledger::RequestWork;
using ::testing::ElementsAre;

EngineAmount SumOf(const EngineParts& parts) {
  EngineAmount sum;
  for (const EngineAmount& part : parts.requests) sum += part;
  ((sum += parts.others) += parts.held) += parts.undivided;
  return sum;
}

TEST(ChargeShareTest, PromptsByPromptTokensAndGeneratingByGeneratedOnes) {
  EngineHour hour;
  hour.prefill = {{.pico = 1000, .energy_uj = 100}, 100};
  hour.decode = {{.pico = 3000, .energy_uj = 900}, 30};
  hour.held = {.pico = 500, .energy_uj = 50};
  hour.unknown = {.pico = 7, .energy_uj = 3};
  const RequestWork works[] = {{.prefill_tokens = 25, .generated_tokens = 20, .open_ns = 5},
                               {.prefill_tokens = 25, .generated_tokens = 10, .open_ns = 1}};
  const EngineParts parts = DivideHour(hour, works);
  EXPECT_THAT(parts.requests,
              ElementsAre(EngineAmount{250 + 2000, 25 + 600}, EngineAmount{250 + 1000, 25 + 300}));
  EXPECT_EQ(parts.others, (EngineAmount{500, 50})) << "50 prompt tokens did not come through the proxy";
  EXPECT_EQ(parts.held, hour.held);
  EXPECT_EQ(parts.undivided, hour.unknown);
  EXPECT_EQ(SumOf(parts), hour.total());
}

TEST(ChargeShareTest, WithoutARequestAllIsThatOfOthers) {
  EngineHour hour;
  hour.prefill = {{.pico = 1001, .energy_uj = 100}, 100};
  hour.decode = {{.pico = 5, .energy_uj = 2}, 0};  // without tokens
  const EngineParts parts = DivideHour(hour, {});
  EXPECT_EQ(parts.others, (EngineAmount{1006, 102}));
  EXPECT_EQ(SumOf(parts), hour.total());
}

TEST(ChargeShareTest, ACorrectionBelowZeroIsNotDivided) {
  EngineHour hour;
  hour.decode = {{.pico = -5, .energy_uj = 10}, 10};
  const RequestWork works[] = {{.prefill_tokens = 0, .generated_tokens = 10, .open_ns = 1}};
  const EngineParts parts = DivideHour(hour, works);
  EXPECT_EQ(parts.undivided, (EngineAmount{-5, 0}));
  EXPECT_EQ(parts.requests[0], (EngineAmount{0, 10}));
  EXPECT_EQ(SumOf(parts), hour.total());
}

TEST(ChargeShareTest, PartsAddUpWhateverTheNumbersAre) {
  std::mt19937_64 random(11);
  const auto up_to = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  for (int round = 0; round < 300; ++round) {
    EngineHour hour;
    for (EngineHour::Class* of : {&hour.prefill, &hour.decode}) {
      of->amount = {up_to(round % 3 == 0 ? 10 : int64_t{1} << 50), up_to(int64_t{1} << 45)};
      of->tokens = up_to(5000);
    }
    hour.held = {up_to(1000), up_to(1000)};
    std::vector<RequestWork> works(static_cast<size_t>(up_to(40)));
    for (RequestWork& work : works)
      work = {.prefill_tokens = up_to(200), .generated_tokens = up_to(200), .open_ns = up_to(1'000'000)};
    const EngineParts parts = DivideHour(hour, works);
    ASSERT_EQ(SumOf(parts), hour.total()) << round;
    for (const EngineAmount& part : parts.requests) ASSERT_TRUE(part.pico >= 0 && part.energy_uj >= 0);
    ASSERT_TRUE(parts.others.pico >= 0);
  }
}

}  // namespace
}  // namespace gpulens
