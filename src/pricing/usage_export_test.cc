#include "pricing/usage_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpulens::pricing {
namespace {

using ::testing::HasSubstr;

UsageExport Read(std::string_view text, const UsageExportOptions& options = {.name = "f"}) {
  auto read = ReadUsageExport(text, options);
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().detail);
  return read ? *std::move(read) : UsageExport();
}
std::string Wrong(std::string_view text, const UsageExportOptions& options = {.name = "f"}) {
  const auto read = ReadUsageExport(text, options);
  EXPECT_FALSE(read.ok()) << text;
  return read ? "" : read.error().detail;
}
int64_t Of(const UsageRow& row, UsageMeasure measure) {
  EXPECT_TRUE(row.amounts.Knows(measure)) << UsageMeasureName(measure);
  return static_cast<int64_t>(row.amounts[measure]);
}
// The amount of a table with one row.
int64_t Pico(const std::string& amount) {
  const UsageExport read = Read("date,usd\n2026-11-26," + amount + "\n");
  return read.rows.size() == 1 ? Of(read.rows[0], UsageMeasure::kPico) : -1;
}

TEST(UsageExport, PageOfOpenAisUsageApi) {
  const UsageExport read = Read(R"({"object":"page","data":[
    {"object":"bucket","start_time":1730419200,"end_time":1730505600,"results":[
      {"object":"organization.usage.completions.result","input_tokens":1000,"output_tokens":500,
       "input_cached_tokens":800,"input_cache_write_tokens":20,"input_audio_tokens":0,"num_model_requests":5,
       "project_id":null,"user_id":null,"api_key_id":null,"model":"gpt-5-2025-08-07","batch":false,
       "service_tier":"default"},
      {"object":"organization.usage.completions.result","input_tokens":7,"output_tokens":0,
       "num_model_requests":1,"model":"gpt-5-2025-08-07","batch":true}]},
    {"object":"bucket","start_time":1730505600,"end_time":1730592000,"results":[]}],
    "has_more":true,"next_page":"AAAA"})");
  EXPECT_EQ(read.format, "OpenAI usage");
  EXPECT_EQ(read.provider, "openai");
  EXPECT_FALSE(read.whole);
  EXPECT_EQ(read.begin_s, 1730419200);
  EXPECT_EQ(read.end_s, 1730592000);
  ASSERT_EQ(read.rows.size(), 2u);
  const UsageRow& row = read.rows[0];
  EXPECT_EQ(row.model, "gpt-5-2025-08-07");
  EXPECT_EQ(row.tier, "standard");
  EXPECT_EQ(row.end_s - row.begin_s, 86400);
  EXPECT_EQ(Of(row, UsageMeasure::kRequests), 5);
  EXPECT_EQ(Of(row, UsageMeasure::kInput), 1000);
  EXPECT_EQ(Of(row, UsageMeasure::kCached), 800);
  EXPECT_EQ(Of(row, UsageMeasure::kCacheWrite), 20);
  EXPECT_EQ(Of(row, UsageMeasure::kOutput), 500);
  EXPECT_FALSE(row.amounts.Knows(UsageMeasure::kPico));
  EXPECT_EQ(read.rows[1].tier, "batch");
}

TEST(UsageExport, PagesOfOpenAisCostsApiWithNumbersAndTexts) {
  const UsageExport read = Read(R"([{"object":"page","data":[
    {"object":"bucket","start_time":1730419200,"end_time":1730505600,"results":[
      {"object":"organization.costs.result","amount":{"value":0.06,"currency":"usd"},"line_item":null},
      {"object":"organization.costs.result","amount":{"currency":"usd","value":"0.30000000000000004"},
       "line_item":"gpt-5-2025-08-07, input"},
      {"object":"organization.costs.result","amount":{"value":1.2e-05,"currency":"usd"},"line_item":"web search"}
    ]}],"has_more":true},{"object":"page","data":[],"has_more":false}])");
  EXPECT_EQ(read.format, "OpenAI costs");
  EXPECT_TRUE(read.whole);
  ASSERT_EQ(read.rows.size(), 3u);
  EXPECT_EQ(Of(read.rows[0], UsageMeasure::kPico), 60'000'000'000);
  EXPECT_EQ(read.rows[0].model, "");
  EXPECT_EQ(Of(read.rows[1], UsageMeasure::kPico), 300'000'000'000);
  EXPECT_EQ(read.rows[1].model, "gpt-5-2025-08-07");
  EXPECT_EQ(Of(read.rows[2], UsageMeasure::kPico), 12'000'000);
  EXPECT_EQ(read.rows[2].model, "web search");
  EXPECT_EQ(read.rounded, 1u);
}

TEST(UsageExport, ReportsOfAnthropic) {
  const UsageExport usage = Read(R"({"data":[{"starting_at":"2026-11-26T00:00:00Z",
    "ending_at":"2026-11-27T00:00:00Z","results":[{"uncached_input_tokens":1500,
    "cache_creation":{"ephemeral_1h_input_tokens":1000,"ephemeral_5m_input_tokens":500},
    "cache_read_input_tokens":200,"output_tokens":500,"server_tool_use":{"web_search_requests":10},
    "api_key_id":null,"workspace_id":null,"model":"claude-opus-4-20250514","service_tier":"batch",
    "context_window":"0-200k"}]}],"has_more":false,"next_page":null})");
  EXPECT_EQ(usage.format, "Anthropic usage");
  ASSERT_EQ(usage.rows.size(), 1u);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kInput), 3200);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kCached), 200);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kCacheWrite), 500);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kCacheWriteLong), 1000);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kWebSearches), 10);
  EXPECT_EQ(usage.rows[0].tier, "batch");
  const UsageExport costs = Read(R"({"data":[{"starting_at":"2026-11-26T00:00:00Z",
    "ending_at":"2026-11-27T00:00:00Z","results":[{"currency":"USD","amount":"123.78912","workspace_id":null,
    "description":"Claude Sonnet 4 Usage - Input Tokens","cost_type":"tokens","context_window":"0-200k",
    "model":"claude-sonnet-4-20250514","service_tier":"standard","token_type":"uncached_input_tokens"}]}],
    "has_more":false,"next_page":null})");
  EXPECT_EQ(costs.format, "Anthropic costs");
  EXPECT_EQ(costs.provider, "anthropic");
  ASSERT_EQ(costs.rows.size(), 1u);
  EXPECT_EQ(Of(costs.rows[0], UsageMeasure::kPico), 1'237'891'200'000);
  EXPECT_EQ(costs.rows[0].model, "claude-sonnet-4-20250514");
}

TEST(UsageExport, TablesOfOpenAisDashboard) {
  const UsageExport usage = Read(
      "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,model,batch,service_"
      "tier,"
      "input_tokens,output_tokens,input_cached_tokens,input_uncached_tokens\n"
      "1759622400,1759708800,2025-10-05T00:00:00+00:00,2025-10-06T00:00:00+00:00,proj_1,10.0,gpt-4o-2024-08-"
      "06,"
      "FALSE,default,59200.0,10646.0,5760.0,53440.0\n"
      "1759708800,1759795200,2025-10-06T00:00:00+00:00,2025-10-07T00:00:00+00:00,,,,,,,,,\n");
  EXPECT_EQ(usage.format, "OpenAI usage (table)");
  EXPECT_EQ(usage.provider, "openai");
  ASSERT_EQ(usage.rows.size(), 1u);
  EXPECT_EQ(usage.end_s, 1759795200);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kInput), 59200);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kCached), 5760);
  EXPECT_EQ(usage.rows[0].tier, "standard");
  const UsageExport costs = Read(
      "start_time\tend_time\tstart_time_iso\tend_time_iso\tamount_value\tamount_currency\tline_item\tproject_"
      "id\n"
      "1759622400\t1759708800\t2025-10-05T00:00:00+00:00\t2025-10-06T00:00:00+00:00\t0."
      "8958740000000000\tusd\t\t\n"
      "1759968000\t1760054400\t2025-10-09T00:00:00+00:00\t2025-10-10T00:00:00+00:00\t\t\t\t\n");
  EXPECT_EQ(costs.format, "OpenAI costs (table)");
  ASSERT_EQ(costs.rows.size(), 1u);
  EXPECT_EQ(Of(costs.rows[0], UsageMeasure::kPico), 895'874'000'000);
  EXPECT_EQ(costs.rounded, 0u);
  EXPECT_EQ(costs.end_s, 1760054400);
}

TEST(UsageExport, TablesOfAnthropicsConsole) {
  const UsageExport usage = Read(
      "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,"
      "usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,"
      "usage_output_tokens,web_search_count,inference_geo,speed\r\n"
      "2026-08-05,claude-opus-5,\"Closer, App\",Default,standard,≤ 200k,46981,15969,0,3,16932,0,global,\r\n"
      "2026-08-05,claude-opus-5,App,Default,standard,≤ 200k,1,0,0,0,1,0,global,fast\r\n",
      {.name = "f", .zone_s = 7200});
  EXPECT_EQ(usage.format, "Anthropic usage (table)");
  ASSERT_EQ(usage.rows.size(), 2u);
  EXPECT_EQ(usage.begin_s, 1785888000) << "its dates are of UTC, whatever the zone is";
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kInput), 46981 + 15969 + 3);
  EXPECT_EQ(Of(usage.rows[0], UsageMeasure::kCached), 3);
  EXPECT_EQ(usage.rows[0].tier, "standard");
  EXPECT_EQ(usage.rows[1].tier, "fast");
  const UsageExport costs = Read(
      "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,"
      "cost_type\n"
      "2026-08-04,Claude Haiku 4.5,Default,demo-key,message,≤ 200k,input_no_cache,0.05,0.05,token\n");
  EXPECT_EQ(costs.format, "Anthropic costs (table)");
  EXPECT_EQ(costs.rows.at(0).model, "Claude Haiku 4.5");
  EXPECT_EQ(costs.rows.at(0).tier, "");
}

TEST(UsageExport, OtherTablesByHeaderAndByChoice) {
  const UsageExport named =
      Read("Date;Model;Prompt tokens;Completion-Tokens;Cost USD\n2026/11/26;m;5;2;$0.50\n",
           {.name = "f", .zone_s = -8 * 3600});
  EXPECT_EQ(named.format, "table");
  EXPECT_EQ(named.provider, "");
  ASSERT_EQ(named.rows.size(), 1u);
  EXPECT_EQ(named.rows[0].begin_s, 1795651200 + 8 * 3600);
  EXPECT_EQ(named.rows[0].end_s - named.rows[0].begin_s, 86400);
  EXPECT_EQ(Of(named.rows[0], UsageMeasure::kInput), 5);
  // A table of Google's billing export.
  const UsageExport google = Read(
      "service.description,sku.description,usage_start_time,usage_end_time,cost,currency\n"
      "Gemini API,Generate content input,2026-11-26 07:00:00 UTC,2026-11-26 08:00:00 UTC,0.0000125,USD\n",
      {.name = "f", .columns = "model=sku.description"});
  ASSERT_EQ(google.rows.size(), 1u);
  EXPECT_EQ(google.rows[0].model, "Generate content input");
  EXPECT_EQ(google.rows[0].end_s - google.rows[0].begin_s, 3600);
  EXPECT_EQ(Of(google.rows[0], UsageMeasure::kPico), 12'500'000);
  const UsageExport less = Read("date,model,usd\n2026-11-26,m,1\n", {.name = "f", .columns = "model=-"});
  EXPECT_EQ(less.rows.at(0).model, "");
}

TEST(UsageExport, AmountsAreExactAndRoundedHalfToEven) {
  EXPECT_EQ(Pico("1"), kPicoPerUsd);
  EXPECT_EQ(Pico("-0.5"), -kPicoPerUsd / 2);
  EXPECT_EQ(Pico("0.0000000000015"), 2);
  EXPECT_EQ(Pico("0.0000000000025"), 2);
  EXPECT_EQ(Pico("0.00000000000250001"), 3);
  EXPECT_EQ(Pico("5e-13"), 0);
  EXPECT_EQ(Pico("6e-13"), 1);
  EXPECT_EQ(Pico("9e-14"), 0);
  EXPECT_EQ(Pico("9e-300"), 0);
  EXPECT_EQ(Pico("1E+3"), 1000 * kPicoPerUsd);
  EXPECT_EQ(Pico("0e300"), 0);
  EXPECT_EQ(Pico("123456.000000000001"), 123456 * kPicoPerUsd + 1);
}

TEST(UsageExport, WrongFilesAreRefusedWithThePlace) {
  EXPECT_THAT(Wrong(""), HasSubstr("f:1: the file is empty"));
  EXPECT_THAT(Wrong("model,usd\nm,1\n"), HasSubstr("no column has the date"));
  EXPECT_THAT(Wrong("date,model\n2026-11-26,m\n"), HasSubstr("no column has requests, tokens or an amount"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,1\nyesterday,1\n"), HasSubstr("f:3: \"yesterday\" is no time"));
  EXPECT_THAT(Wrong("date,usd\n2026-13-26,1\n"), HasSubstr("is no time"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,1.2.3\n"), HasSubstr("is no amount"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,1e99\n"), HasSubstr("is no amount"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,nan\n"), HasSubstr("is no amount"));
  EXPECT_THAT(Wrong("date,requests\n2026-11-26,-1\n"), HasSubstr("no whole number"));
  EXPECT_THAT(Wrong("date,requests\n2026-11-26,1.5\n"), HasSubstr("no whole number"));
  EXPECT_THAT(Wrong("date,usd,currency\n2026-11-26,1,EUR\n"), HasSubstr("only USD is compared"));
  EXPECT_THAT(Wrong("date,usd\n\"2026-11-26,1\n"), HasSubstr("without an end"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,1\n", {.name = "f", .columns = "price=x"}),
              HasSubstr("--columns price"));
  EXPECT_THAT(Wrong("date,usd\n2026-11-26,1\n", {.name = "f", .columns = "usd=x"}),
              HasSubstr("no column \"x\""));
  EXPECT_THAT(Wrong("{}"), HasSubstr("f: neither a page of a usage or cost API nor a table"));
  EXPECT_THAT(Wrong("{\"data\":["), HasSubstr("f: byte"));
  EXPECT_THAT(Wrong(R"({"data":[{"results":[]}]})"), HasSubstr("without a begin"));
  EXPECT_THAT(Wrong(R"({"data":[{"start_time":2,"end_time":1,"results":[]}]})"),
              HasSubstr("without a begin"));
  EXPECT_THAT(Wrong(R"({"data":[{"start_time":1,"end_time":2,"results":[{"model":"m"}]}]})"),
              HasSubstr("without a count or an amount"));
  EXPECT_THAT(Wrong(R"({"data":[{"start_time":1,"end_time":2,"results":[{"input_tokens":1.5}]}]})"),
              HasSubstr("no whole number"));
  EXPECT_THAT(Wrong(R"({"data":[{"start_time":1,"end_time":2,"results":[
      {"object":"organization.usage.images.result","images":1}]}]})"),
              HasSubstr("are not read"));
  EXPECT_THAT(Wrong(R"({"data":[{"start_time":1,"end_time":2,"results":[
      {"object":"organization.costs.result","amount":{"value":1,"currency":"eur"}}]}]})"),
              HasSubstr("only USD"));
}

TEST(UsageExport, NamesOfModelsTiersAndZones) {
  EXPECT_EQ(UsageModelStem("Claude Haiku 4.5"), "claude-haiku-4-5");
  EXPECT_EQ(UsageModelStem("claude-haiku-4-5-20251001"), "claude-haiku-4-5");
  EXPECT_EQ(UsageModelStem("gpt-5-2025-08-07"), "gpt-5");
  EXPECT_EQ(UsageModelStem("gpt-5"), "gpt-5");
  EXPECT_EQ(UsageTier("default"), "standard");
  EXPECT_EQ(UsageTier(""), "standard");
  EXPECT_EQ(UsageTier("flex"), "flex");
  EXPECT_EQ(UsageTier("scale"), "scale");
  int64_t zone = -1;
  EXPECT_TRUE(ParseZone("-08:00", zone));
  EXPECT_EQ(zone, -8 * 3600);
  EXPECT_TRUE(ParseZone("UTC", zone));
  EXPECT_EQ(zone, 0);
  for (const char* wrong : {"", "8", "+8:00", "+15:00", "+01:60", "PST"})
    EXPECT_FALSE(ParseZone(wrong, zone)) << wrong;
}

}  // namespace
}  // namespace gpulens::pricing
