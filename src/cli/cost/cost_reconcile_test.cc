#include "cli/cost/cost_reconcile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace gpulens {
namespace {

using pricing::UsageMeasure;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kDay = 1'795'651'200;  // 2026-11-26T00:00:00Z
constexpr const char* kModel = "gpt-5-mini-2025-08-07";

// A settled request of 100 + 20 cached tokens in and 30 out, for 0.001 USD.
ChargeRecord Charged(int64_t second = kDay + 60) {
  ChargeRecord record;
  record.dispatch_unix_ns = (second - 1) * 1'000'000'000;
  record.settled_unix_ns = second * 1'000'000'000;
  record.provider = "openai";
  record.profile = "managed";
  record.model_requested = "gpt-5-mini";
  record.model_answered = kModel;
  record.tier = "default";
  record.status = 200;
  record.counted_by = CountedBy::kUsage;
  record.usage[LlmClass::kInput] = 100;
  record.usage[LlmClass::kInputCached] = 20;
  record.usage[LlmClass::kOutput] = 25;
  record.usage[LlmClass::kOutputReasoning] = 5;
  record.list_pico = 1'000'000'000;
  record.charged_pico = 1'000'000'000;
  record.price_row = 3;
  record.price_version = "9f3a5c0012345678";
  return record;
}

ChargedUsage Here(const std::vector<ChargeRecord>& records, int64_t zone_s = 0) {
  ChargedUsage charged(zone_s);
  for (const ChargeRecord& record : records) EXPECT_TRUE(charged.Add(record));
  return charged;
}

UsageFile File(const std::string& text, const std::string& name = "usage") {
  auto read = pricing::ReadUsageExport(text, {.name = name});
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().detail);
  return {name, read ? *std::move(read) : pricing::UsageExport()};
}

// A page of OpenAI's usage API with one bucket of a day.
std::string Bucket(int64_t begin_s, const std::string& results) {
  return R"({"object":"page","data":[{"object":"bucket","start_time":)" + std::to_string(begin_s) +
         R"(,"end_time":)" + std::to_string(begin_s + 86400) + R"(,"results":[)" + results +
         R"(]}],"has_more":false})";
}
std::string Usage(int requests, int input, int cached, int output, const std::string& model = kModel,
                  const std::string& tier = "default") {
  return R"({"object":"organization.usage.completions.result","num_model_requests":)" +
         std::to_string(requests) + R"(,"input_tokens":)" + std::to_string(input) +
         R"(,"input_cached_tokens":)" + std::to_string(cached) + R"(,"output_tokens":)" +
         std::to_string(output) + R"(,"model":")" + model + R"(","batch":false,"service_tier":")" + tier +
         R"("})";
}
std::string Cost(const std::string& value, const std::string& line) {
  return R"({"object":"organization.costs.result","amount":{"value":)" + value +
         R"(,"currency":"usd"},"line_item":")" + line + R"("})";
}

Reconciliation Made(const std::vector<UsageFile>& files, const ChargedUsage& charged,
                    const ReconcileTerms& terms = {}) {
  auto made = Reconcile(files, charged, terms);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().detail);
  return made ? *std::move(made) : Reconciliation();
}

TEST(CostReconcile, EqualWhereEachCountAgrees) {
  const Reconciliation made = Made({File(Bucket(kDay, Usage(2, 240, 40, 60))),
                                    File(Bucket(kDay, Cost("0.0015", "gpt-5-mini-2025-08-07, input") + "," +
                                                          Cost("0.0005", "gpt-5-mini-2025-08-07, output")),
                                         "costs")},
                                   Here({Charged(), Charged()}));
  EXPECT_TRUE(made.equal()) << ReconcileText(made, true, 80);
  ASSERT_EQ(made.sections.size(), 2u);
  EXPECT_EQ(made.sections[0].format, "OpenAI costs");
  EXPECT_EQ(made.sections[1].groups.size(), 1u);
  EXPECT_EQ(made.sections[0].groups.size(), 1u);
  EXPECT_THAT(ReconcileText(made, false, 80), HasSubstr("1 group is equal, 0 differ."));
}

TEST(CostReconcile, NamesWhatIsOnlyOnOneSide) {
  ChargeRecord other = Charged();
  other.model_answered = "gpt-5-2025-08-07";
  const Reconciliation made =
      Made({File(Bucket(kDay, Usage(1, 120, 20, 30) + "," + Usage(4, 9, 0, 9, "o3-2025-04-16")))},
           Here({Charged(), other}));
  EXPECT_FALSE(made.equal());
  const auto& groups = made.sections.at(0).groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].key.model, "gpt-5-2025-08-07");
  EXPECT_TRUE(groups[0].here && !groups[0].there);
  EXPECT_THAT(groups[0].causes.at(0), HasSubstr("Only here"));
  EXPECT_EQ(groups[1].different, 0);
  EXPECT_TRUE(groups[2].there && !groups[2].here);
  EXPECT_THAT(groups[2].causes.at(0), HasSubstr("did not pass the proxy"));
}

TEST(CostReconcile, CausesAreThoseThatTheRowsHave) {
  ChargeRecord unsettled = Charged();
  unsettled.counted_by = CountedBy::kUnsettled;
  unsettled.outcome = ChargeOutcome::kUnsettled;
  unsettled.usage = {};
  unsettled.list_pico = unsettled.charged_pico = 0;
  unsettled.reserved_pico = 5'000'000'000;
  ChargeRecord cut = Charged();
  cut.counted_by = CountedBy::kPartial;
  ChargeRecord counted = Charged(kDay);  // began the day before
  counted.counted_by = CountedBy::kCalibrated;
  ChargeRecord failed = Charged();
  failed.outcome = ChargeOutcome::kUpstreamFailed;
  failed.usage = {};
  failed.attempts = {{.provider = "openai", .result = "timeout", .uncertain_list_pico = 7'000'000'000}};
  const Reconciliation made =
      Made({File(Bucket(kDay, Cost("0.005", kModel)))}, Here({unsettled, cut, counted, failed}));
  ASSERT_EQ(made.sections.at(0).groups.size(), 1u);
  const ReconcileGroup& group = made.sections[0].groups[0];
  const std::string causes = ReconcileText(made, false, 1000);
  EXPECT_THAT(causes,
              HasSubstr("1 request is unsettled, since the proxy was ended: at most 0.005 USD, which covers "
                        "the difference."));
  EXPECT_THAT(causes, HasSubstr("1 attempt got no answer and may be billed: at most 0.007 USD."));
  EXPECT_THAT(causes, HasSubstr("1 request was counted up to where the answer was cut"));
  EXPECT_THAT(causes, HasSubstr("1 request was counted by bytes or events."));
  EXPECT_THAT(causes, HasSubstr("1 request began on one day and ended on the next"));
  EXPECT_THAT(causes, HasSubstr("price version 9f3a5c0012345678"));
  EXPECT_EQ(static_cast<int64_t>(group.charged.amounts[UsageMeasure::kRequests]), 3);
}

TEST(CostReconcile, PricesAreNamedWhereCountsAgree) {
  const UsageFile table = File(
      "date,model,requests,input_tokens,output_tokens,usd\n2026-11-26,gpt-5-mini-2025-08-07,1,120,30,0."
      "0009\n");
  ReconcileTerms terms;
  terms.providers = {"openai"};
  const Reconciliation made = Made({table}, Here({Charged()}), terms);
  EXPECT_THAT(
      made.sections.at(0).groups.at(0).causes,
      ElementsAre("Counts agree, so prices differ (price version 9f3a5c0012345678): a discount, a credit, a "
                  "tax, or a changed price."));
  EXPECT_THAT(ReconcileText(made, false, 80), HasSubstr("+0.000100"));
}

TEST(CostReconcile, ToleranceIsAPartOfTheLargerSide) {
  Tolerance tolerance;
  ASSERT_TRUE(ParseTolerance("0.5%", tolerance));
  EXPECT_TRUE(tolerance.Allows(1000, 995));
  EXPECT_FALSE(tolerance.Allows(1000, 994));
  EXPECT_TRUE(tolerance.Allows(-1000, -995));
  EXPECT_FALSE(tolerance.Allows(0, 1));
  ASSERT_TRUE(ParseTolerance("100%", tolerance));
  EXPECT_TRUE(tolerance.Allows(0, 1));
  ASSERT_TRUE(ParseTolerance("0", tolerance));
  EXPECT_TRUE(tolerance.Allows(7, 7));
  EXPECT_FALSE(tolerance.Allows(7, 8));
  for (const char* wrong : {"", "1", "%", "-1%", "101%", "1.%", "1.0000001%", "100.1%", "x%"})
    EXPECT_FALSE(ParseTolerance(wrong, tolerance)) << wrong;
  const std::vector<UsageFile> files{File(Bucket(kDay, Usage(1, 121, 20, 30)))};
  ReconcileTerms terms;
  EXPECT_FALSE(Made(files, Here({Charged()}), terms).equal());
  ASSERT_TRUE(ParseTolerance("1%", terms.tolerance));
  EXPECT_TRUE(Made(files, Here({Charged()}), terms).equal());
}

TEST(CostReconcile, ModelsMatchWithoutDatesOnlyWhereTheDatedNameIsMissing) {
  ReconcileTerms terms;
  terms.providers = {"claude"};
  ChargeRecord haiku = Charged();
  haiku.provider = "claude", haiku.model_answered = "claude-haiku-4-5-20251001", haiku.tier = "standard";
  const Reconciliation made = Made({File("usage_date_utc,model,token_type,cost_usd\n"
                                         "2026-11-26,Claude Haiku 4.5,output,0.001\n")},
                                   Here({haiku}), terms);
  EXPECT_TRUE(made.equal()) << ReconcileText(made, true, 80);
  EXPECT_EQ(made.sections.at(0).groups.at(0).key.model, "claude-haiku-4-5");
}

TEST(CostReconcile, DaysAreThoseOfTheZone) {
  // 2026-11-25 in California.
  const int64_t zone = -8 * 3600;
  const ChargedUsage charged = Here({Charged(kDay + 3600)}, zone);
  ReconcileTerms terms;
  terms.providers = {"openai"};
  terms.zone_s = zone;
  const auto read = pricing::ReadUsageExport("date,requests\n2026-11-25,1\n", {.name = "f", .zone_s = zone});
  ASSERT_TRUE(read);
  const Reconciliation made = Made({{"f", *read}}, charged, terms);
  EXPECT_TRUE(made.equal()) << ReconcileText(made, true, 80);
  EXPECT_THAT(ReconcileText(made, true, 80), HasSubstr("Days of -08:00"));
  // The same day of UTC is of two days there.
  const auto span = SpanOf({File(Bucket(kDay, Usage(1, 1, 0, 1)))}, terms);
  ASSERT_FALSE(span);
  EXPECT_THAT(span.error().detail, HasSubstr("is of two days of -08:00"));
}

TEST(CostReconcile, WhatCannotBeComparedIsRefused) {
  std::string page = Bucket(kDay, Usage(1, 120, 20, 30));
  const UsageFile whole = File(page);
  page.replace(page.find("false}"), 6, "true}");
  const auto first = SpanOf({File(page)}, {});
  ASSERT_FALSE(first);
  EXPECT_THAT(first.error().detail, HasSubstr("has_more"));
  EXPECT_TRUE(SpanOf({File(page), whole}, {}));
  const auto twice =
      Reconcile({whole, File(Bucket(kDay, Usage(1, 120, 20, 30)), "again")}, Here({Charged()}), {});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().detail, HasSubstr("usage and again both have the bucket"));
  EXPECT_FALSE(SpanOf({File("date,requests\n2026-11-26,1\n")}, {})) << "no provider";
  ReconcileTerms later;
  later.since_s = kDay + 10 * 86400;
  EXPECT_FALSE(SpanOf({whole}, later));
  const auto nothing = Reconcile({File(Bucket(kDay, ""))}, Here({}), {});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().detail, HasSubstr("neither side"));
}

TEST(CostReconcile, WhatOthersPayIsLeftOutWithANote) {
  ChargeRecord byok = Charged(), refused = Charged();
  byok.profile = "byok";
  refused.outcome = ChargeOutcome::kRefused;
  const Reconciliation made =
      Made({File(Bucket(kDay, Usage(1, 120, 20, 30)))}, Here({Charged(), byok, refused}));
  EXPECT_TRUE(made.equal());
  EXPECT_THAT(made.notes.at(0), HasSubstr("1 request with clients' own keys"));
}

TEST(CostReconcile, TextFitsAndJsonAndCsvAreExact) {
  const Reconciliation made = Made({File(Bucket(kDay, Usage(3, 1'234'567, 40, 60))),
                                    File(Bucket(kDay, Cost("0.001000000001", kModel)), "costs")},
                                   Here({Charged()}));
  const std::string text = ReconcileText(made, false, 80);
  std::string_view rest = text;
  while (!rest.empty()) EXPECT_LE(TakeUntil(rest, '\n').size(), 80u);
  EXPECT_THAT(text, HasSubstr("-0.000000000001"));
  EXPECT_THAT(text, HasSubstr("1,234,567"));
  EXPECT_THAT(text, Not(HasSubstr("cache_write")));
  const auto json = JsonDocument::Parse(ReconcileJson(made));
  ASSERT_TRUE(json) << ReconcileJson(made);
  EXPECT_EQ(json->Truth("/equal"), false);
  EXPECT_EQ(json->Text("/sections/0/groups/0/there/list_usd"), "0.001000000001");
  EXPECT_EQ(json->Integer("/sections/0/groups/0/here/list_pico"), 1'000'000'000);
  EXPECT_EQ(json->Text("/sections/1/groups/0/different/0"), "requests");
  EXPECT_EQ(json->Text("/sections/1/groups/0/tier"), "standard");
  const std::string csv = ReconcileCsv(made);
  EXPECT_THAT(csv, HasSubstr("OpenAI costs,2026-11-26,openai,gpt-5-mini-2025-08-07,,usd,0.001,0.001000000001,"
                             "-0.000000000001,false,"));
  EXPECT_THAT(csv, HasSubstr(",cached,20,40,-20,false,"));
}

}  // namespace
}  // namespace gpulens
