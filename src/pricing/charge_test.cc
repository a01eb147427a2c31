#include "pricing/charge.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/parse.h"
#include "base/testing/allocations.h"
#include "pricing/pricing_testing.h"

namespace gpulens::pricing {
namespace {

using enum LlmClass;

struct Golden {
  const char *name, *provider, *model;
  PriceTier tier;
  LlmUsage usage;
  int64_t pico;
};

// Usages as the readers of answers give them: classes that do not overlap.
std::vector<Golden> GoldenCharges() {
  return {
      {"V1", "openai", "gpt-5.6-sol", PriceTier::kStandard,
       UsageOf({{kInput, 100}, {kInputCached, 900}, {kOutput, 20}, {kOutputReasoning, 30}}), 1'760'000'000},
      {"V2", "openai", "gpt-5.6-sol", PriceTier::kFlex,
       UsageOf({{kInput, 100}, {kInputCached, 900}, {kOutput, 20}, {kOutputReasoning, 30}}), 880'000'000},
      {"V3", "openai", "gpt-5.6-sol", PriceTier::kStandard, UsageOf({{kInput, 272'000}, {kOutput, 10}}),
       1'088'200'000'000},
      {"V4", "openai", "gpt-5.6-sol", PriceTier::kStandard,
       UsageOf({{kInput, 1}, {kInputCached, 272'000}, {kOutput, 10}}), 217'908'000'000},
      {"V5", "anthropic", "claude-opus-5", PriceTier::kStandard,
       UsageOf({{kInput, 9},
                {kInputCached, 17'102},
                {kInputWrite5m, 100},
                {kInputWriteLong, 200},
                {kOutput, 40},
                {kWebSearches, 2}}),
       32'221'000'000},
      {"V6", "gemini", "gemini-2.5-pro", PriceTier::kStandard,
       UsageOf({{kInput, 50'000}, {kInputCached, 200'000}, {kOutput, 100}, {kOutputReasoning, 900}}),
       190'000'000'000},
      {"V7", "cohere", "rerank-v3.5", PriceTier::kStandard, UsageOf({{kQueries, 3}}), 6'000'000'000},
      {"V9", "openai", "whisper-1", PriceTier::kStandard, UsageOf({{kMilliseconds, 61'000}}), 6'100'000'000},
  };
}

void ExpectGoldenCharges(const PriceTable& table) {
  for (const Golden& golden : GoldenCharges()) {
    const ModelPrices prices = table.Find(golden.provider, golden.model, golden.model);
    const LlmCharge charge =
        ChargeFor(prices, {.usage = golden.usage, .tier = golden.tier, .dispatched_ns = kNoon});
    EXPECT_EQ(ChargeStateName(charge.state), "priced") << golden.name;
    EXPECT_EQ(charge.pico, golden.pico) << golden.name;
    PicoSum sum;
    sum.Add(charge.pico);
    EXPECT_EQ(sum.micros(), golden.pico / 1'000'000) << golden.name;
    EXPECT_EQ(charge.row, prices.rows()[0].id) << golden.name;
  }
}

TEST(ChargeGolden, V1ToV9) { ExpectGoldenCharges(GoldenTable()); }

// The same of the list that the rows were taken from, and what it is as a whole.
TEST(ChargeGoldenCapture, TheListGivesTheSame) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/../shared/reference/llm_prices.tsv");
  if (!text.ok()) GTEST_SKIP() << "captures not here: reference/llm_prices.tsv";
  const PriceTable table = TableOf({{.name = "llm_prices.tsv", .text = *text}});
  ExpectGoldenCharges(table);
  ASSERT_EQ(table.sources().size(), 1u);
  EXPECT_GE(table.sources()[0].rows, 970u);
  // Each row prices a plain request of what it sells, or reports which class has no price.
  size_t unpriced = 0;
  for (size_t i = 0; i < table.models(); ++i) {
    const ModelPrices prices = table.ModelAt(i);
    EXPECT_EQ(table.Find(prices.provider(), prices.model(), "").model(), prices.model());
    const PriceRow* row = prices.RowAt(kNoon);
    ASSERT_NE(row, nullptr) << prices.model();
    LlmUsage usage = UsageOf({{kInput, 10}, {kInputCached, 5}});
    if (row->unit != PriceUnit::kToken)
      usage = UsageOf({{kPages, 1}, {kMilliseconds, 1000}, {kCharacters, 1}, {kImages, 1}, {kQueries, 1}});
    const LlmCharge charge = ChargeFor(prices, {.usage = usage, .dispatched_ns = kNoon});
    if (charge.state == ChargeState::kPriced) continue;
    EXPECT_EQ(charge.state, ChargeState::kClassUnknown) << prices.model();
    ++unpriced;
    // Video has no class of usage, and medlm has two prices of a character.
    EXPECT_TRUE(row->unit == PriceUnit::kUncounted || row->unit == PriceUnit::kCharacter) << prices.model();
  }
  EXPECT_EQ(unpriced, 24u);
}

// What the list has at the edge of its rules.
TEST(ChargeGoldenCapture, TheListsPeaksAndSteps) {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/../shared/reference/llm_prices.tsv");
  if (!text.ok()) GTEST_SKIP() << "captures not here: reference/llm_prices.tsv";
  const PriceTable table = TableOf({{.name = "llm_prices.tsv", .text = *text}});
  const auto charge = [&](const char* provider, const char* model, LlmUsage usage, int64_t at = kNoon) {
    return ChargeFor(table.Find(provider, model, ""), {.usage = usage, .dispatched_ns = at}).pico;
  };
  const LlmUsage thousand = UsageOf({{kInput, 1000}});
  EXPECT_EQ(charge("deepseek", "deepseek-v4-pro", thousand), 660'000'000);
  EXPECT_EQ(charge("deepseek", "deepseek-v4-pro", thousand, kNoon - 3 * kHourNs), 1'320'000'000);
  EXPECT_EQ(charge("deepseek", "deepseek-r1", thousand), 550'000'000);
  EXPECT_EQ(charge("dashscope", "qwen3-max", UsageOf({{kInput, 32'000}})), 32'000 * int64_t{1'200'000});
  EXPECT_EQ(charge("dashscope", "qwen3-max", UsageOf({{kInput, 32'001}})), 32'001 * int64_t{2'400'000});
  // An hour's writes of a long request: 2 x the long input price, as Anthropic has it.
  EXPECT_EQ(charge("anthropic", "claude-haiku-5-5", UsageOf({{kInputWriteLong, 100'001}})),
            100'001 * int64_t{1'000'000});
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", thousand, 1'780'000'000'000'000'000), 0);  // before its price
}

TEST(ChargeGolden, V8LinesOfABatchAreChargedOnceEach) {
  const PriceTable table = GoldenTable();
  const ModelPrices prices = table.Find("openai", "gpt-5.6-sol", "");
  const LlmUsage line = UsageOf({{kInput, 100}, {kInputCached, 900}, {kOutput, 20}, {kOutputReasoning, 30}});
  PicoSum sum;
  for (int i = 0; i < 3; ++i)
    sum.Add(ChargeFor(prices, {.usage = line, .tier = PriceTier::kBatch, .dispatched_ns = kNoon}).pico);
  EXPECT_EQ(sum.pico(), 3 * 880'000'000LL);
  // Lines are priced one by one: three of 100,000 tokens are no long request.
  const LlmUsage large = UsageOf({{kInput, 100'000}});
  sum = PicoSum();
  for (int i = 0; i < 3; ++i)
    sum.Add(ChargeFor(prices, {.usage = large, .tier = PriceTier::kBatch, .dispatched_ns = kNoon}).pico);
  EXPECT_EQ(sum.pico(), Int128{300'000} * 2'000'000);
}

// V9: a list that has the same price in both columns means one price.
TEST(ChargeGolden, V9APriceInBothColumnsIsChargedOnce) {
  const PriceTable table = TableOf({{.name = "f",
                                     .text = Tsv("provider model mode unit input output\n"
                                                 "openai whisper-1 audio_transcription second 100000000 "
                                                 "100000000\n")}});
  const LlmCharge charge = ChargeFor(table.Find("openai", "whisper-1", ""),
                                     {.usage = UsageOf({{kMilliseconds, 61'000}}), .dispatched_ns = kNoon});
  EXPECT_EQ(charge.pico, 6'100'000'000);
}

TEST(Charge, TheServedTierCountsAndOneThatIsNotSoldIsUnknown) {
  const PriceTable table = GoldenTable();
  const LlmUsage usage = UsageOf({{kInput, 100}, {kOutput, 10}});
  const auto charge = [&](const char* provider, const char* model, PriceTier tier) {
    return ChargeFor(table.Find(provider, model, ""), {.usage = usage, .tier = tier, .dispatched_ns = kNoon});
  };
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", PriceTier::kStandard).pico, 600'000'000);
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", PriceTier::kPriority).pico, 1'200'000'000);
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", PriceTier::kBatch).pico, 300'000'000);
  const LlmCharge fast = charge("openai", "gpt-5.6-sol", PriceTier::kFast);
  EXPECT_EQ(fast.state, ChargeState::kTierUnknown);
  EXPECT_EQ(fast.pico, 0);
  EXPECT_EQ(fast.tier, PriceTier::kFast);
  EXPECT_NE(fast.row.line, 0u);
  EXPECT_EQ(charge("anthropic", "claude-opus-5", PriceTier::kPriority).state, ChargeState::kTierUnknown);
  EXPECT_TRUE(IsPriceUnknown(ChargeState::kTierUnknown));
  EXPECT_FALSE(IsPriceUnknown(ChargeState::kPriced));
  EXPECT_FALSE(IsPriceUnknown(ChargeState::kOutOfRange));
}

TEST(Charge, AboveIsGreaterAndCountsEveryInputClass) {
  const PriceTable table = GoldenTable();
  const ModelPrices prices = table.Find("openai", "gpt-5.6-sol", "");
  for (LlmClass of : {kInput, kInputCached, kInputWrite5m, kInputWriteLong, kInputAudio, kInputAudioCached,
                      kInputImage, kInputVideo, kInputTool}) {
    ChargeRequest request{.usage = UsageOf({{kInput, 271'000}}), .dispatched_ns = kNoon};
    request.usage[of] += 1'000;
    EXPECT_EQ(ChargeFor(prices, request).above, -1) << LlmClassName(of);
    request.usage[of] += 1;
    EXPECT_EQ(ChargeFor(prices, request).above, 272'000) << LlmClassName(of);
  }
  ChargeRequest request{.usage = UsageOf({{kInput, 10}, {kOutput, 1'000'000}}), .dispatched_ns = kNoon};
  EXPECT_EQ(ChargeFor(prices, request).above, -1);
  request.total_input = 272'001;
  EXPECT_EQ(ChargeFor(prices, request).pico, 10 * 8'000'000LL + 1'000'000 * 30'000'000LL);
}

TEST(Charge, ModelsTimesAndClassesThatAreUnknown) {
  const PriceTable table = GoldenTable();
  const LlmUsage usage = UsageOf({{kInput, 100}});
  EXPECT_EQ(ChargeFor(ModelPrices(), {.usage = usage}).state, ChargeState::kModelUnknown);
  const ModelPrices sol = table.Find("openai", "gpt-5.6-sol", "");
  EXPECT_EQ(ChargeFor(sol, {.usage = usage, .dispatched_ns = 1'700'000'000'000'000'000}).state,
            ChargeState::kNotInForce);
  const LlmCharge image =
      ChargeFor(sol, {.usage = UsageOf({{kInput, 100}, {kOutputImage, 5}}), .dispatched_ns = kNoon});
  EXPECT_EQ(image.state, ChargeState::kClassUnknown);
  EXPECT_EQ(image.unknown, kOutputImage);
  EXPECT_EQ(image.pico, 400'000'000);  // at least
  EXPECT_EQ(ChargeFor(sol, {.dispatched_ns = kNoon}).state, ChargeState::kPriced);
}

TEST(Charge, ARowSellsOneUnit) {
  const PriceTable table = GoldenTable();
  const auto charge = [&](const char* provider, const char* model, LlmUsage usage) {
    return ChargeFor(table.Find(provider, model, ""), {.usage = usage, .dispatched_ns = kNoon});
  };
  // The tokens of a rerank are in its price.
  EXPECT_EQ(charge("cohere", "rerank-v3.5", UsageOf({{kQueries, 3}, {kInput, 900}})).pico, 6'000'000'000);
  // Without queries its price is unknown, and not 0.
  const LlmCharge tokens = charge("cohere", "rerank-v3.5", UsageOf({{kInput, 900}, {kRequests, 1}}));
  EXPECT_EQ(tokens.state, ChargeState::kClassUnknown);
  EXPECT_EQ(tokens.unknown, kInput);
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", UsageOf({{kMilliseconds, 5}})).state, ChargeState::kClassUnknown);
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", UsageOf({{kMilliseconds, 5}, {kInput, 1}})).pico, 4'000'000);
  // Searches come on top of every unit; counting requests costs nothing.
  EXPECT_EQ(charge("openai", "gpt-5.6-sol", UsageOf({{kWebSearches, 1}, {kRequests, 1}})).pico,
            10'000'000'000);
  EXPECT_EQ(charge("cohere", "rerank-v3.5", UsageOf({{kQueries, 1}, {kWebSearches, 1}})).unknown,
            kWebSearches);
}

TEST(Charge, PerRequestPrices) {
  const PriceTable table = TableOf(
      {{.name = "f",
        .text = Tsv("provider model input output request web_fetch\np a 1000000 2000000 5000000000 7\n")}});
  const LlmCharge charge =
      ChargeFor(table.Find("p", "a", ""),
                {.usage = UsageOf({{kInput, 1}, {kOutput, 1}, {kRequests, 1}, {kWebFetches, 2}}),
                 .dispatched_ns = kNoon});
  EXPECT_EQ(charge.pico, 1'000'000 + 2'000'000 + 5'000'000'000 + 14);
  EXPECT_EQ(charge.prices[static_cast<size_t>(kRequests)], 5'000'000'000);
}

TEST(Charge, MillisecondsAreExactForWholeSecondsAndHalfUpElse) {
  const PriceTable table =
      TableOf({{.name = "f",
                .text = Tsv("provider model unit input\np live second 833333333\np half second 500\n")}});
  const auto charge = [&](const char* model, int64_t ms) {
    return ChargeFor(table.Find("p", model, ""),
                     {.usage = UsageOf({{kMilliseconds, ms}}), .dispatched_ns = kNoon})
        .pico;
  };
  EXPECT_EQ(charge("live", 1000), 833'333'333);
  EXPECT_EQ(charge("live", 61'000), 61 * 833'333'333LL);
  EXPECT_EQ(charge("live", 1), 833'333);
  EXPECT_EQ(charge("live", 2), 1'666'667);
  EXPECT_EQ(charge("half", 1), 1);
  EXPECT_EQ(charge("half", 0), 0);
}

TEST(Charge, WhatDoesNotFitIsAnError) {
  const PriceTable table =
      TableOf({{.name = "f", .text = Tsv("provider model input output\np a 1000000 2000000\n")}});
  const ModelPrices prices = table.Find("p", "a", "");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const LlmUsage& usage :
       {UsageOf({{kInput, kMost}}), UsageOf({{kInput, kMost / 1'000'000}, {kOutput, 1'000'000}}),
        UsageOf({{kInput, kMost}, {kInputCached, kMost}}), UsageOf({{kInput, -1}, {kOutput, 5}})}) {
    const LlmCharge charge = ChargeFor(prices, {.usage = usage, .dispatched_ns = kNoon});
    EXPECT_EQ(charge.state, ChargeState::kOutOfRange);
    EXPECT_EQ(charge.pico, 0);
    EXPECT_EQ(*std::max_element(charge.lines.begin(), charge.lines.end()), 0);
  }
  EXPECT_EQ(ChargeFor(prices, {.usage = UsageOf({{kInput, kMost / 1'000'000}}), .dispatched_ns = kNoon}).pico,
            kMost / 1'000'000 * 1'000'000);
}

TEST(Charge, AllocatesNothing) {
  const PriceTable table = GoldenTable();
  const std::vector<Golden> golden = GoldenCharges();
  const uint64_t before = ThreadAllocations();
  int64_t sum = 0;
  for (const Golden& one : golden) {
    const ModelPrices prices = table.Find(one.provider, one.model, one.model);
    sum += ChargeFor(prices, {.usage = one.usage, .dispatched_ns = kNoon}).pico;
    sum +=
        ReserveFor(prices, {.input_tokens = 10, .output_tokens = 10, .from_ns = kNoon, .to_ns = kNoon}).pico;
  }
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_GT(sum, 0);
}

TEST(Reserve, IsTheDearestThatCanCome) {
  const PriceTable table = GoldenTable();
  const ModelPrices sol = table.Find("openai", "gpt-5.6-sol", "");
  ReserveRequest request{.input_tokens = 1000, .output_tokens = 50, .from_ns = kNoon, .to_ns = kNoon};
  EXPECT_EQ(ReserveFor(sol, request).pico, 1000 * 5'000'000LL + 50 * 20'000'000LL);  // written to the cache
  request.tiers |= TierBit(PriceTier::kPriority);
  EXPECT_EQ(ReserveFor(sol, request).pico, 1000 * 10'000'000LL + 50 * 40'000'000LL);
  request.input_tokens = 272'000;
  EXPECT_EQ(ReserveFor(sol, request).pico, 272'000 * 10'000'000LL + 50 * 40'000'000LL);
  request.input_tokens = 272'001;  // long, and priority, too
  EXPECT_EQ(ReserveFor(sol, request).pico, 272'001 * 20'000'000LL + 50 * 60'000'000LL);
  request.tiers |= TierBit(PriceTier::kFast);
  EXPECT_EQ(ReserveFor(sol, request).state, ChargeState::kTierUnknown);
  EXPECT_EQ(ReserveFor(sol, request).tier, PriceTier::kFast);
  EXPECT_EQ(ReserveFor(ModelPrices(), request).state, ChargeState::kModelUnknown);
}

TEST(Reserve, WithoutABoundTheModelsLimitsCount) {
  const PriceTable table = GoldenTable();
  const ModelPrices sol = table.Find("openai", "gpt-5.6-sol", ""),
                    whisper = table.Find("openai", "whisper-1", "");
  ReserveRequest request{.output_tokens = 0, .from_ns = kNoon, .to_ns = kNoon};
  EXPECT_EQ(ReserveFor(sol, request).pico, 922'000 * 10'000'000LL);
  request.input_tokens = 0;
  request.output_tokens.reset();
  request.answers = 2;
  EXPECT_EQ(ReserveFor(sol, request).pico, 2 * 128'000 * 20'000'000LL);
  request.answers = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ReserveFor(sol, request).state, ChargeState::kOutOfRange);
  EXPECT_EQ(ReserveFor(whisper, request).state, ChargeState::kUnbounded);
  request.others[kMilliseconds] = 61'000;
  EXPECT_EQ(ReserveFor(whisper, request).pico, 6'100'000'000);
  const PriceTable bare = TableOf({{.name = "f", .text = Tsv("provider model input output\np a 1 2\n")}});
  EXPECT_EQ(ReserveFor(bare.Find("p", "a", ""), {.output_tokens = 5}).state, ChargeState::kUnbounded);
  EXPECT_EQ(ReserveFor(bare.Find("p", "a", ""), {.input_tokens = 5}).state, ChargeState::kUnbounded);
  EXPECT_EQ(ReserveFor(bare.Find("p", "a", ""), {.input_tokens = -5, .output_tokens = 5}).state,
            ChargeState::kOutOfRange);
}

TEST(Reserve, CoversAPriceThatChangesBeforeTheRequestIsDispatched) {
  const PriceTable table = TableOf({{.name = "f",
                                     .text = Tsv("provider model input output hours valid_from\n"
                                                 "p a 10 10 - -\np a 20 20 13:00-14:00 -\n"
                                                 "p a 5 5 - 2026-11-25\n")}});
  const ModelPrices prices = table.Find("p", "a", "");
  const auto reserve = [&](int64_t from, int64_t to) {
    return ReserveFor(prices, {.input_tokens = 1, .output_tokens = 0, .from_ns = from, .to_ns = to}).pico;
  };
  EXPECT_EQ(reserve(kNoon, kNoon + kHourNs - 1), 10);
  EXPECT_EQ(reserve(kNoon, kNoon + kHourNs), 20);
  EXPECT_EQ(reserve(kNoon + kHourNs, kNoon + kHourNs), 20);
  EXPECT_EQ(reserve(kNoon + 48 * kHourNs, kNoon + 48 * kHourNs + 1), 5);
  EXPECT_EQ(reserve(kNoon, kNoon + 48 * kHourNs), 20);
}

TEST(Reserve, AClassThatHasNoPriceHasNoBound) {
  const PriceTable table = GoldenTable();
  const ModelPrices sol = table.Find("openai", "gpt-5.6-sol", "");
  ReserveRequest request{.input_tokens = 10, .output_tokens = 10, .from_ns = kNoon, .to_ns = kNoon};
  request.classes = kTextClasses | ClassBit(kOutputImage);
  EXPECT_EQ(ReserveFor(sol, request).state, ChargeState::kClassUnknown);
  EXPECT_EQ(ReserveFor(sol, request).unknown, kOutputImage);
  request.classes = kTextClasses | ClassBit(kInputWriteLong);
  EXPECT_EQ(ReserveFor(sol, request).pico, 10 * 10'000'000 + 10 * 20'000'000);
  request.others[kWebSearches] = 3;
  EXPECT_EQ(ReserveFor(sol, request).pico, 10 * 10'000'000 + 10 * 20'000'000 + 30'000'000'000);
}

TEST(Profile, ListAndChargedAmounts) {
  EXPECT_EQ(ChargedPico({.profile = Profile::kManaged}, 1'000), 1'000);
  EXPECT_EQ(ChargedPico({.profile = Profile::kManaged}, std::nullopt), std::nullopt);
  EXPECT_EQ(ChargedPico({.profile = Profile::kByok}, 1'000), 0);
  EXPECT_EQ(ChargedPico({.profile = Profile::kByok}, std::nullopt), 0);
  const ProfileTerms fee{.profile = Profile::kByok, .fee_pico = 7, .fee_share = {1, 20}};
  EXPECT_EQ(ChargedPico(fee, 1'010), 51 + 7);  // 50.5
  EXPECT_EQ(ChargedPico(fee, std::nullopt), std::nullopt);
  EXPECT_EQ(ChargedPico({.profile = Profile::kSubscription}, 1'000), 0);
  EXPECT_EQ(ChargedPico({.profile = Profile::kByoc}, 1'000), 0);
  EXPECT_EQ(ChargedPico({.profile = Profile::kByoc}, std::nullopt, 42), 42);
  for (const auto& [profile, name] :
       {std::pair(Profile::kManaged, "managed"), std::pair(Profile::kByok, "byok"),
        std::pair(Profile::kSubscription, "subscription"), std::pair(Profile::kByoc, "byoc")})
    EXPECT_EQ(ProfileName(profile), name);
}

}  // namespace
}  // namespace gpulens::pricing
