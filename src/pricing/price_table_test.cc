#include "pricing/price_table.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/testing/allocations.h"
#include "pricing/pricing_testing.h"

namespace gpulens::pricing {
namespace {

using ::testing::HasSubstr;

int64_t PriceAt(const PriceTable& table, std::string_view model, LlmClass of, int64_t at = kNoon,
                PriceTier tier = PriceTier::kStandard, size_t step = 0) {
  const ModelPrices prices = table.Find("p", model, "");
  const PriceRow* row = prices.RowAt(at);
  if (!row) return -2;
  const auto steps = prices.Steps(*row, tier);
  return step < steps.size() ? prices.Prices(steps[step])[static_cast<size_t>(of)] : -3;
}

PriceTable One(const std::string& text) { return TableOf({{.name = "own.tsv", .text = Tsv(text)}}); }

std::string ErrorOf(const std::string& text) {
  const PriceFile file{.name = "own.tsv", .text = Tsv(text)};
  auto table = PriceTable::Load({&file, 1});
  return table ? "" : table.error().detail;
}

TEST(PriceTable, AnEmptyTableHasNoPrices) {
  const PriceTable table;
  EXPECT_FALSE(table.Find("openai", "gpt-5.6", "gpt-5.6"));
  EXPECT_FALSE(table.Default("openai"));
  EXPECT_EQ(table.models(), 0u);
  EXPECT_TRUE(table.sources().empty());
  EXPECT_EQ(ModelPrices().RowAt(0), nullptr);
}

TEST(PriceTable, NamesMatchExactlyOrWithoutADateAtTheirEnd) {
  const PriceTable table =
      One("provider model input\n"
          "p gpt-5.6 1\np gpt-5.6-sol 2\np gpt-5.6-sol-2026-07-09 3\nq gpt-5.6-sol 4\np claude 5\n"
          "p claude@default 6\np 20260423 7\n");
  EXPECT_EQ(PriceAt(table, "gpt-5.6-sol", LlmClass::kInput), 2);
  EXPECT_EQ(PriceAt(table, "gpt-5.6-sol-2026-07-09", LlmClass::kInput), 3);
  EXPECT_EQ(PriceAt(table, "gpt-5.6-sol-2026-08-01", LlmClass::kInput), 2);
  EXPECT_EQ(PriceAt(table, "gpt-5.6-2026-04-23", LlmClass::kInput), 1);
  EXPECT_EQ(PriceAt(table, "claude@20260423", LlmClass::kInput), 5);
  EXPECT_EQ(PriceAt(table, "claude-20260423", LlmClass::kInput), 5);
  EXPECT_EQ(PriceAt(table, "claude@default", LlmClass::kInput), 6);
  EXPECT_EQ(PriceAt(table, "20260423", LlmClass::kInput), 7);
  for (const char* model : {"gpt-5.6-solar", "gpt-5.6-sol-mini", "gpt-5", "openai/gpt-5.6-sol",
                            "gpt-5.6-sol-2026-13-09", "gpt-5.6-sol-2026-07-32", "gpt-5.6-sol-20260709x",
                            "gpt-5.6-sol-2026-07-09-preview", "gpt-5.6-sol-0709", "GPT-5.6-sol", "", "*",
                            "-2026-04-23", "claude#20260423", "gpt-5.6-sol-1926-07-09"})
    EXPECT_EQ(PriceAt(table, model, LlmClass::kInput), -2) << model;
  EXPECT_FALSE(table.Find("r", "gpt-5.6-sol", "gpt-5.6-sol"));
}

TEST(PriceTable, TheModelOfTheAnswerCountsBeforeTheOneThatWasSent) {
  const PriceTable table = One("provider model input\np a 1\np b 2\np chat-latest 3\n");
  EXPECT_EQ(table.Find("p", "b", "a").model(), "b");
  EXPECT_EQ(table.Find("p", "b", "a").match(), PriceMatch::kAnswer);
  EXPECT_EQ(table.Find("p", "deployment-7", "a").match(), PriceMatch::kSent);
  EXPECT_EQ(table.Find("p", "", "a").model(), "a");
  // What was sent moves; what the answer names was meant.
  EXPECT_FALSE(table.Find("p", "", "chat-latest"));
  EXPECT_FALSE(table.Find("p", "unknown", "chat-latest"));
  EXPECT_EQ(table.Find("p", "a", "chat-latest").model(), "a");
  EXPECT_EQ(table.Find("p", "chat-latest", "chat-latest").match(), PriceMatch::kAnswer);
  EXPECT_EQ(table.FindEstimate("p", "chat-latest").model(), "chat-latest");
  for (const char* alias :
       {"latest", "chat-latest", "grok-beta-latest-reasoning", "llama3:latest", "a@latest"})
    EXPECT_TRUE(PriceTable::IsAlias(alias)) << alias;
  for (const char* model : {"", "latestage", "a-latests", "greatest", "gpt-5.6"})
    EXPECT_FALSE(PriceTable::IsAlias(model)) << model;
}

TEST(PriceTable, TheStarIsADefaultAndNoPattern) {
  const PriceTable table = One("provider model input\np * 1\n* * 2\np a 3\n");
  EXPECT_FALSE(table.Find("p", "other", "other"));
  EXPECT_FALSE(table.Find("p", "*", "*"));
  EXPECT_FALSE(table.Find("*", "*", "*"));
  EXPECT_EQ(table.Default("p").provider(), "p");
  EXPECT_EQ(table.Default("q").provider(), "*");
  EXPECT_EQ(table.Default("q").match(), PriceMatch::kDefault);
}

TEST(PriceTable, LaterFilesOverrideWhatIsInForce) {
  const PriceFile list{.name = "list.tsv", .text = Tsv("provider model input\np a 10\np b 20\n")};
  const PriceFile own{.name = "own.tsv", .text = Tsv("provider model input valid_from\np a 5 2026-12-01\n")};
  const PriceTable table = TableOf({list, own});
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput), 10);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon + 8 * 24 * kHourNs), 5);
  EXPECT_EQ(PriceAt(table, "b", LlmClass::kInput), 20);
  ASSERT_EQ(table.sources().size(), 2u);
  EXPECT_EQ(table.sources()[1].name, "own.tsv");
  EXPECT_EQ(table.sources()[0].rows, 2u);
  const PriceRow* row = table.Find("p", "a", "").RowAt(kNoon);
  EXPECT_EQ(row->id, (PriceRowId{.file = table.sources()[0].id, .line = 2}));
}

TEST(PriceTable, TheIdIsTheHashOfTheFileAndTheLine) {
  const std::string text = Tsv("# comment\nprovider model input\np a 10\n");
  const PriceTable table = TableOf({{.name = "x", .text = text}});
  Sha256 sha;
  sha.Add(text);
  const PriceRowId id = table.Find("p", "a", "").rows()[0].id;
  EXPECT_EQ(PriceRowText(id), sha.Finish().substr(0, 16) + ":3");
  EXPECT_EQ(ParsePriceRow(PriceRowText(id)), id);
  for (const char* bad :
       {"", "0123456789abcdef", "0123456789abcdef:", "0123456789abcdex:1", "0123456789abcdef:-1"})
    EXPECT_EQ(ParsePriceRow(bad), std::nullopt) << bad;
}

TEST(PriceTable, ValidityIsFromInclusiveToExclusive) {
  const PriceTable table = One(
      "provider model input effective_from valid_to\n"
      "p a 1 - 2026-11-23T12:00:00Z\np a 2 2026-11-23T12:00:00Z 2026-11-24\np a 3 2026-11-23T18:00:00Z -\n");
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon - 1), 1);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon), 2);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon + 6 * kHourNs - 1), 2);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon + 6 * kHourNs), 3);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, -1), 1);
  EXPECT_EQ(PriceAt(One("provider model input valid_from\np a 1 2026-11-24\n"), "a", LlmClass::kInput), -2);
  const PriceTable ended = One("provider model input valid_to\np a 1 2026-11-23T12:00:00Z\n");
  EXPECT_EQ(PriceAt(ended, "a", LlmClass::kInput, kNoon - 1), 1);
  EXPECT_EQ(PriceAt(ended, "a", LlmClass::kInput, kNoon), -2);
}

TEST(PriceTable, HoursAndWeekdaysAreThoseOfUtc) {
  const PriceTable table =
      One("provider model input output hours weekdays\n"
          "p a 660000 1980000 - -\np a 1320000 3960000 01:00-04:00/06:00-10:00 mon-fri\n"
          "p n 1 1 - -\np n 2 2 22:00-02:00 -\np n 3 3 - sat,sun\np n 4 4 22:00-24:00 sun\n");
  constexpr int64_t kMonday = kNoon - 12 * kHourNs, kMinute = kHourNs / 60;
  const auto at = [&](const char* model, int64_t ns) { return PriceAt(table, model, LlmClass::kInput, ns); };
  EXPECT_EQ(at("a", kMonday), 660000);
  EXPECT_EQ(at("a", kMonday + kHourNs - 1), 660000);
  EXPECT_EQ(at("a", kMonday + kHourNs), 1320000);
  EXPECT_EQ(at("a", kMonday + 4 * kHourNs - 1), 1320000);
  EXPECT_EQ(at("a", kMonday + 4 * kHourNs), 660000);
  EXPECT_EQ(at("a", kMonday + 6 * kHourNs), 1320000);
  EXPECT_EQ(at("a", kMonday + 10 * kHourNs), 660000);
  for (int day = 1; day < 5; ++day) EXPECT_EQ(at("a", kMonday + (24 * day + 7) * kHourNs), 1320000) << day;
  EXPECT_EQ(at("a", kMonday + (24 * 5 + 7) * kHourNs), 660000);
  EXPECT_EQ(at("a", kMonday + (24 * 6 + 7) * kHourNs), 660000);
  EXPECT_EQ(at("n", kMonday + 22 * kHourNs), 2);
  EXPECT_EQ(at("n", kMonday + 26 * kHourNs - kMinute), 2);
  EXPECT_EQ(at("n", kMonday + 26 * kHourNs), 1);
  EXPECT_EQ(at("n", kMonday - 3 * kHourNs), 3);
  EXPECT_EQ(at("n", kMonday - kHourNs), 4);
  // 1969-12-31 was a Wednesday.
  EXPECT_EQ(at("a", -17 * kHourNs), 1320000);
}

TEST(PriceTable, APeakNoteIsTwoRows) {
  const PriceTable table = TableOf(
      {{.name = "list.tsv",
        .text =
            "provider\tmodel\tinput\tcached_input\toutput\tcheck\n"
            "p\ta\t300000\t6000\t1200000\t~peak 01:00-04:00/06:00-10:00Z; else input=150000,output=600000\n"
            "p\tb\t300000\t6000\t1200000\t~peak mon-fri 11:00-13:00Z; else input=150000\n"
            "p\tc\t1\t-\t-\t!input=5\np\td\t1\t-\t-\t=\n"}});
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon), 150000);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInputCached, kNoon), 6000);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kOutput, kNoon), 600000);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon - 3 * kHourNs), 300000);
  EXPECT_EQ(PriceAt(table, "b", LlmClass::kInput, kNoon), 300000);
  EXPECT_EQ(PriceAt(table, "b", LlmClass::kInput, kNoon - 24 * kHourNs), 150000);
  EXPECT_EQ(table.Find("p", "a", "").rows()[0].id, table.Find("p", "a", "").rows()[1].id);
  EXPECT_TRUE(table.Find("p", "c", "").rows()[0].disputed);
  EXPECT_FALSE(table.Find("p", "d", "").rows()[0].disputed);
  EXPECT_EQ(table.sources()[0].disputed, 1u);
  EXPECT_EQ(table.sources()[0].rows, 4u);
}

TEST(PriceTable, MultipliersAreAppliedOnceAndRoundedHalfUp) {
  const PriceTable table =
      One("provider model input cached_input output multiplier fast_multiplier long_above long_multiplier "
          "batch_output\n"
          "p a 5 15 1000000 11/10 - - - -\np b 3 - 25000000 - 2.0 - - -\np c 5 - 7 1/10 - 100 3/2 -\n"
          "p d 4000000 - 6 - - - - 3\n");
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput), 6);         // 5.5
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInputCached), 17);  // 16.5
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kOutput), 1'100'000);
  EXPECT_EQ(PriceAt(table, "a", LlmClass::kInput, kNoon, PriceTier::kFast), -3);
  EXPECT_EQ(PriceAt(table, "b", LlmClass::kInput, kNoon, PriceTier::kFast), 6);
  EXPECT_EQ(PriceAt(table, "b", LlmClass::kOutputReasoning, kNoon, PriceTier::kFast), 50'000'000);
  // 5 x 3/2 / 10 is 0.75: one rounding gives 1, and rounding 7.5 first would, too; 7 x 3/2 / 10 is 1.05.
  EXPECT_EQ(PriceAt(table, "c", LlmClass::kInput), 1);
  EXPECT_EQ(PriceAt(table, "c", LlmClass::kInput, kNoon, PriceTier::kStandard, 1), 1);
  EXPECT_EQ(PriceAt(table, "c", LlmClass::kOutput, kNoon, PriceTier::kStandard, 1), 1);
  // A tier that has a price for one direction gives none for the other.
  EXPECT_EQ(PriceAt(table, "d", LlmClass::kOutput, kNoon, PriceTier::kBatch), 3);
  EXPECT_EQ(PriceAt(table, "d", LlmClass::kInput, kNoon, PriceTier::kBatch), kUnpriced);
}

TEST(PriceTable, WhatTiersAndLongRequestsLackFollowsTheirDirection) {
  const PriceTable table =
      One("provider model input cached_input cache_write cache_write_long output web_search long_above "
          "long_input "
          "long_output batch_input batch_output flex_input flex_cached_input flex_output\n"
          "p a 4000000 400000 5000000 8000000 20000000 10 272000 8000000 30000000 2000000 10000000 1000000 "
          "400000 5000000\n");
  const auto price = [&](LlmClass of, PriceTier tier, size_t step) {
    return PriceAt(table, "a", of, kNoon, tier, step);
  };
  EXPECT_EQ(price(LlmClass::kInputCached, PriceTier::kStandard, 1), 800000);
  EXPECT_EQ(price(LlmClass::kInputWriteLong, PriceTier::kStandard, 1), 16000000);
  EXPECT_EQ(price(LlmClass::kOutputReasoning, PriceTier::kStandard, 1), 30000000);
  EXPECT_EQ(price(LlmClass::kInputCached, PriceTier::kBatch, 0), 200000);
  EXPECT_EQ(price(LlmClass::kInputWrite5m, PriceTier::kBatch, 0), 2500000);
  EXPECT_EQ(price(LlmClass::kInput, PriceTier::kBatch, 1), 4000000);
  EXPECT_EQ(price(LlmClass::kInputCached, PriceTier::kBatch, 1), 400000);
  EXPECT_EQ(price(LlmClass::kOutput, PriceTier::kBatch, 1), 15000000);
  EXPECT_EQ(price(LlmClass::kInputCached, PriceTier::kFlex, 0), 400000);
  EXPECT_EQ(price(LlmClass::kInputCached, PriceTier::kFlex, 1), 800000);
  for (size_t step : {0u, 1u}) EXPECT_EQ(price(LlmClass::kWebSearches, PriceTier::kBatch, step), 10);
  EXPECT_EQ(price(LlmClass::kInput, PriceTier::kPriority, 0), -3);
}

TEST(PriceTable, ClassesWithoutAPrice) {
  const PriceTable table =
      One("provider model mode input cached_input cache_write output audio_input audio_output image_output\n"
          "p text chat 10 - - 20 - - -\np cached chat 10 1 12 20 - - -\np audio chat 10 1 - 20 30 40 -\n"
          "p live realtime 10 1 - 20 - - -\np tts audio_speech 10 - - 20 - - -\np image image_generation 10 "
          "- - - - - 50\n"
          "p hear chat 10 1 - 20 30 - -\np speaks chat 10 1 - 20 - 40 -\n");
  using enum LlmClass;
  const auto price = [&](const char* model, LlmClass of) { return PriceAt(table, model, of); };
  for (LlmClass of : {kInputCached, kInputWrite5m, kInputWriteLong, kInputAudio, kInputAudioCached,
                      kInputImage, kInputVideo, kInputTool})
    EXPECT_EQ(price("text", of), 10) << LlmClassName(of);
  EXPECT_EQ(price("text", kOutputReasoning), 20);
  for (LlmClass of : {kOutputAudio, kOutputImage, kWebSearches, kPages, kMilliseconds, kQueries})
    EXPECT_EQ(price("text", of), kUnpriced) << LlmClassName(of);
  for (LlmClass of : {kWebFetches, kRequests}) EXPECT_EQ(price("text", of), 0);
  EXPECT_EQ(price("cached", kInputWriteLong), kUnpriced);
  EXPECT_EQ(price("cached", kInputAudioCached), 1);
  EXPECT_EQ(price("audio", kInputAudioCached), 30);
  EXPECT_EQ(price("audio", kOutputAudio), 40);
  EXPECT_EQ(price("live", kInputAudio), kUnpriced);
  EXPECT_EQ(price("live", kInputAudioCached), kUnpriced);
  EXPECT_EQ(price("live", kOutputAudio), kUnpriced);
  EXPECT_EQ(price("tts", kOutputAudio), 20);
  EXPECT_EQ(price("image", kOutput), 50);
  EXPECT_EQ(price("hear", kInputAudioCached), 30);
  EXPECT_EQ(price("speaks", kInputAudio), kUnpriced);
}

TEST(PriceTable, UnitsThatAreNoTokens) {
  const PriceTable table =
      One("provider model mode unit input output\n"
          "p both audio_transcription second 100 100\np in audio_transcription second 100 0\np out "
          "image_generation image - 7\n"
          "p two chat character 5 15\np video video_generation second - 9\np clip video_generation "
          "video_second - 9\n"
          "p zero ocr page 0 -\n");
  using enum LlmClass;
  EXPECT_EQ(PriceAt(table, "both", kMilliseconds), 100);
  EXPECT_EQ(PriceAt(table, "in", kMilliseconds), 100);
  EXPECT_EQ(PriceAt(table, "in", kInput), kUnpriced);
  EXPECT_EQ(PriceAt(table, "out", kImages), 7);
  EXPECT_EQ(PriceAt(table, "two", kCharacters), kUnpriced);
  EXPECT_EQ(PriceAt(table, "video", kMilliseconds), kUnpriced);
  EXPECT_EQ(PriceAt(table, "clip", kMilliseconds), kUnpriced);
  EXPECT_EQ(PriceAt(table, "zero", kPages), 0);
}

TEST(PriceTable, StepsOfTiers) {
  const PriceTable table =
      One("provider model tiers batch_input batch_output\n"
          "p q 0:300000:1500000:80000;32000:500000:2500000:120000;128000:800000:4000000: 150000 750000\n");
  const auto steps = [&](PriceTier tier) {
    const ModelPrices prices = table.Find("p", "q", "");
    std::string text;
    for (const auto& step : prices.Steps(prices.rows()[0], tier)) {
      const ClassPrices& of = prices.Prices(step);
      text += std::to_string(step.above) + ":" + std::to_string(of[0]) + ":" + std::to_string(of[9]) + ":" +
              std::to_string(of[1]) + ";";
    }
    return text;
  };
  EXPECT_EQ(steps(PriceTier::kStandard),
            "-1:300000:1500000:80000;32000:500000:2500000:120000;128000:800000:4000000:213333;");
  EXPECT_EQ(steps(PriceTier::kBatch),
            "-1:150000:750000:40000;32000:250000:1250000:60000;128000:400000:2000000:106667;");
}

TEST(PriceTable, ErrorsNameLineAndColumn) {
  const struct {
    const char *text, *error;
  } rows[] = {
      {"", "own.tsv: the file has no line with the names of its columns"},
      {"# c\n\n", "own.tsv:2: the file has no line with"},
      {"model input\na 1\n",
       "own.tsv:1: the first line must name the columns, among them provider and model"},
      {"provider model cache_input\n",
       "own.tsv:1: column cache_input: no column has this name; did you mean"},
      {"provider model input input\n", "own.tsv:1: column input: the file has input already"},
      {"provider model valid_from effective_from\n",
       "column effective_from: the file has valid_from already"},
      {"provider model input\n# c\np a\n", "own.tsv:3: the row has 2 cells, and the file has 3 columns"},
      {"provider model input\np a -1\n", "own.tsv:2: column input: not a whole number of micro-dollars"},
      {"provider model input\np a 1.5\n", "own.tsv:2: column input: not a whole number"},
      {"provider model input\np a 1000000000000001\n", "column input: not a whole number"},
      {"provider model input\np a 99999999999999999999\n", "column input: not a whole number"},
      {"provider model input\n- a 1\n", "column provider: the row has none"},
      {"provider model unit\np a tokens\n", "own.tsv:2: column unit: not token, second,"},
      {"provider model multiplier\np a 1/0\n", "column multiplier: not a fraction"},
      {"provider model input long_input\np a 1 2\n",
       "column long_above: the row has long_… prices and lacks it"},
      {"provider model input output long_above long_input\np a 1 2 3 4\n",
       "column long_output: the row has long_above"},
      {"provider model input tiers\np a 1 0:1:1:\n", "column tiers: the row has input"},
      {"provider model tiers\np a 1:1:1:\n", "column tiers: not from:input:output:cached"},
      {"provider model tiers\np a 0:1:1:;0:1:1:\n", "column tiers: not from:input:output:cached"},
      {"provider model tiers\np a 0:1:1\n", "column tiers: not from:input:output:cached"},
      {"provider model tiers\np a 0:1:-1:\n", "column tiers: not from:input:output:cached"},
      {"provider model valid_from\np a 2026-02-30\n", "column valid_from: no day"},
      {"provider model valid_from\np a 1\n", "column valid_from: no day"},
      {"provider model valid_from valid_to\np a 2026-02-03 2026-02-03\n",
       "column valid_to: not after valid_from"},
      {"provider model hours\np a 1-2\n", "column hours: not up to four hours"},
      {"provider model hours\np a 01:00-01:00\n", "column hours: not up to four hours"},
      {"provider model hours\np a 01:00-25:00\n", "column hours: not up to four hours"},
      {"provider model hours\np a 01:00-02:00/\n", "column hours: not up to four hours"},
      {"provider model hours\np a 24:00-02:00\n", "column hours: not up to four hours"},
      {"provider model hours\np a 01:00-02:00,03:00-04:00,05:00-06:00,07:00-08:00,09:00-10:00\n",
       "column hours"},
      {"provider model weekdays\np a mon-\n", "column weekdays: not weekdays"},
      {"provider model weekdays\np a monday\n", "column weekdays: not weekdays"},
      {"provider model check\np a ~peak\n", "column check: not \"~peak"},
      {"provider model max_input\np a -5\n", "column max_input: not a number of tokens"},
      {"provider model input multiplier\np a 1000000000000000 2\n", "above 10^15"},
      {"provider model input\np a 1\nq b 1\np a 2\n",
       "own.tsv:4: p a has a row with the same valid_from, hours and "
       "weekdays at line 2"},
      {"provider model input hours\np a 1 01:00-02:00\np a 1 03:00-04:00\np a 2 01:00-02:00\n", "at line 2"},
  };
  for (const auto& row : rows) EXPECT_THAT(ErrorOf(row.text), HasSubstr(row.error)) << row.text;
  EXPECT_EQ(ErrorOf("provider model input x_note retires\np a 1 anything ?\n"), "");
}

TEST(PriceTable, HasLimits) {
  const auto error = [](std::string text) {
    const PriceFile file{.name = "f", .text = std::move(text)};
    auto table = PriceTable::Load({&file, 1});
    return table ? std::string() : table.error().detail;
  };
  EXPECT_THAT(error(std::string((16u << 20) + 1, 'x')), HasSubstr("longer than 16 MiB"));
  EXPECT_THAT(error("provider\tmodel\np\t" + std::string(9000, 'x')), HasSubstr("f:2: the line is longer"));
  EXPECT_THAT(error("provider\tmodel\np\t" + std::string(201, 'x')), HasSubstr("longer than 200 bytes"));
  EXPECT_THAT(error("provider\tmodel\np\t\x1b[2J"), HasSubstr("cannot be printed"));
  EXPECT_THAT(error("provider\tmodel\np\t\xff"), HasSubstr("not text in UTF-8"));
  EXPECT_THAT(error(std::string("provider\tmodel\np\ta\0b", 20)), HasSubstr("not text in UTF-8"));
  std::string columns = "provider\tmodel";
  for (int i = 0; i < 127; ++i) columns += "\tx_" + std::to_string(i);
  EXPECT_THAT(error(columns), HasSubstr("more than 128 cells"));
  EXPECT_EQ(error("\xEF\xBB\xBFprovider\tmodel\tinput\r\np\ta\t1\r\n"), "");
  std::string rows = "provider\tmodel\tinput\tvalid_from\n";
  for (int i = 0; i < 1000; ++i)
    rows +=
        "p\ta\t1\t2026-01-01T00:" + std::to_string(10 + i / 50) + ":" + std::to_string(10 + i % 50) + "Z\n";
  EXPECT_EQ(error(rows), "");
  EXPECT_THAT(error(rows + "p\ta\t1\t-\n"), HasSubstr("f:1002: p a has more than 1000 rows"));
  const std::vector<PriceFile> many(65);
  EXPECT_FALSE(PriceTable::Load(many).ok());
}

TEST(PriceTable, KeepsRowsOfTheGivenProviders) {
  const PriceFile file{.name = "f", .text = Tsv("provider model input\np a 1\nq b 2\n* * 3\n")};
  const std::vector<std::string> providers = {"q"};
  auto table = PriceTable::Load({&file, 1}, providers);
  ASSERT_TRUE(table.ok());
  EXPECT_FALSE(table->Find("p", "a", ""));
  EXPECT_TRUE(table->Find("q", "b", ""));
  EXPECT_TRUE(table->Default("q"));
  EXPECT_EQ(table->models(), 2u);
  const PriceFile bad{.name = "f", .text = Tsv("provider model input\np a x\n")};
  EXPECT_FALSE(PriceTable::Load({&bad, 1}, providers).ok());
}

TEST(PriceTable, ACopyOutlivesWhatItWasCopiedFrom) {
  PriceTable table = One("provider model input\np a 1\n");
  const PriceTable kept = table;
  const ModelPrices prices = kept.Find("p", "a", "");
  table = One("provider model input\np a 2\n");
  EXPECT_EQ(prices.Prices(prices.Steps(prices.rows()[0], PriceTier::kStandard)[0])[0], 1);
}

TEST(PriceTable, ALookupFindsEachOfThousandsAndAllocatesNothing) {
  std::string text = "provider\tmodel\tinput\n";
  for (int i = 0; i < 20'000; ++i)
    text += "p" + std::to_string(i % 30) + "\tmodel-" + std::to_string(i) + "\t" + std::to_string(i) + "\n";
  const PriceTable table = TableOf({{.name = "f", .text = text}});
  ASSERT_EQ(table.models(), 20'000u);
  std::vector<std::pair<std::string, std::string>> names;
  for (int i = 0; i < 20'000; ++i)
    names.emplace_back("p" + std::to_string(i % 30),
                       "model-" + std::to_string(i) + (i % 2 ? "-2026-04-23" : ""));
  const uint64_t before = ThreadAllocations();
  size_t wrong = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const ModelPrices prices = table.Find(names[i].first, "unknown", names[i].second);
    const PriceRow* row = prices.RowAt(kNoon);
    if (!row || prices.Prices(prices.Steps(*row, PriceTier::kStandard)[0])[0] != static_cast<int64_t>(i))
      ++wrong;
  }
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(wrong, 0u);
}

TEST(PriceTable, TiersHaveNames) {
  for (size_t i = 0; i < kPriceTiers; ++i) {
    const auto tier = static_cast<PriceTier>(i);
    EXPECT_EQ(ParsePriceTier(PriceTierName(tier)), tier);
  }
  EXPECT_EQ(ParsePriceTier("default"), std::nullopt);
  for (const char* name : {"", "auto", "default", "standard", "on_demand", "ON_DEMAND"})
    EXPECT_EQ(ServedTier(name), PriceTier::kStandard) << name;
  EXPECT_EQ(ServedTier("batch"), PriceTier::kBatch);
  EXPECT_EQ(ServedTier("flex"), PriceTier::kFlex);
  EXPECT_EQ(ServedTier("ON_DEMAND_FLEX"), PriceTier::kFlex);
  EXPECT_EQ(ServedTier("priority"), PriceTier::kPriority);
  EXPECT_EQ(ServedTier("ON_DEMAND_PRIORITY"), PriceTier::kPriority);
  EXPECT_EQ(ServedTier("fast"), PriceTier::kFast);
  for (const char* name : {"scale", "PROVISIONED_THROUGHPUT", "performance", "reserved", "Flex"})
    EXPECT_EQ(ServedTier(name), std::nullopt) << name;
}

}  // namespace
}  // namespace gpulens::pricing
