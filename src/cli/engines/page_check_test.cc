#include "cli/engines/page_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/json/json_testing.h"

namespace gpulens {
namespace {

using engine_page::KnownFamily;
using json_testing::JsonReader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

PageCheck CheckOf(std::string_view body, std::string_view engine = {}) {
  ScrapedPage page;
  static_cast<void>(page.Update(body, ExpositionFormat::kText004));
  engine_page::PageFamilies families(engine.empty() ? nullptr : engine_page::FindEngine(engine));
  families.Update(page);
  return CheckPage("x", page, families);
}

constexpr std::string_view kPage =
    "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 1\n"
    "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n"
    "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n"
    "# TYPE vllm:request_params_n histogram\nvllm:request_params_n_sum 1\nvllm:request_params_n_count 1\n"
    "# TYPE python_info gauge\npython_info 1\n"
    "# TYPE vllm:prompt_tokens_created gauge\nvllm:prompt_tokens_created 1.7e9\n"
    "# TYPE vllm:num_requests_waiting counter\nvllm:num_requests_waiting{model_name=\"m\"} 1\n"
    "# TYPE vllm:swap_time_seconds histogram\nvllm:swap_time_seconds_sum 1\nvllm:swap_time_seconds_count 1\n"
    "no number\n";

TEST(PageCheck, ClassifiesFamilies) {
  PageCheck check = CheckOf(kPage);
  ASSERT_EQ(check.engines.size(), 1u);
  EXPECT_EQ(check.engines[0]->name, "vllm");
  std::map<std::string, KnownFamily::Kind> kinds;
  for (const CheckedFamily& family : check.families) kinds[family.name] = family.kind;
  EXPECT_EQ(kinds, (std::map<std::string, KnownFamily::Kind>{
                       {"vllm:num_requests_running", KnownFamily::kMapped},
                       {"vllm:kv_cache_usage_perc", KnownFamily::kMapped},
                       {"vllm:gpu_cache_usage_perc", KnownFamily::kAlias},
                       {"vllm:request_params_n", KnownFamily::kPass},
                       {"python_info", KnownFamily::kIgnored},
                       {"vllm:prompt_tokens_created", KnownFamily::kIgnored},
                       {"vllm:num_requests_waiting", KnownFamily::kMapped},
                       {"vllm:swap_time_seconds", KnownFamily::kUnknown},
                   }));
  EXPECT_EQ(check.bad_lines, 1u);
  EXPECT_EQ(CheckResult(check), 1);
}

TEST(PageCheck, TextHasRowsForUnknownFamilies) {
  std::string text = CheckText(CheckOf(kPage));
  EXPECT_THAT(text, HasSubstr("recognised: vllm (engine, 5 families)\n"));
  EXPECT_THAT(text, HasSubstr("\nvllm:swap_time_seconds\thistogram\t-\ts\tpass\t-\t-\t-\t-\t-\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_waiting is counter, expected gauge\n"));
  EXPECT_THAT(text, HasSubstr("vllm:gpu_cache_usage_perc  vllm:kv_cache_usage_perc\n"));
  EXPECT_THAT(text, HasSubstr("python_info                 interpreter\n"));
  EXPECT_THAT(text, HasSubstr("cannot be read: 1 line, the first is line 19 (bad_value): no number\n"));
}

TEST(PageCheck, JsonMatchesText) {
  std::string why;
  auto json = JsonReader::Read(CheckJson(CheckOf(kPage)), &why);
  ASSERT_TRUE(json) << why;
  EXPECT_EQ((*json)["counts"]["mapped"].number(), 3);
  EXPECT_EQ((*json)["counts"]["unknown"].number(), 1);
  EXPECT_EQ((*json)["engines"][0]["name"].text, "vllm");
  std::map<std::string, const json_testing::Json*> families;
  for (const auto& family : (*json)["families"].items) families[family["name"].text] = &family;
  EXPECT_EQ((*families["vllm:num_requests_running"])["metrics"][0].text, "inference.requests.running");
  EXPECT_EQ((*families["vllm:gpu_cache_usage_perc"])["alias_of"].text, "vllm:kv_cache_usage_perc");
  EXPECT_EQ((*families["python_info"])["reason"].text, "interpreter");
  EXPECT_EQ((*families["vllm:num_requests_waiting"])["expected_type"].text, "gauge");
  EXPECT_FALSE((*families["vllm:num_requests_running"])["expected_type"].here());
  EXPECT_TRUE((*families["vllm:swap_time_seconds"])["row"].here());
}

TEST(PageCheck, ExitCodeByUnknownFamilies) {
  EXPECT_EQ(CheckResult(CheckOf("# TYPE tgi_queue_size gauge\ntgi_queue_size 1\n")), 0);
  PageCheck foreign = CheckOf("# TYPE node_load1 gauge\nnode_load1 1\n");
  EXPECT_EQ(CheckResult(foreign), 1);
  EXPECT_THAT(CheckText(foreign), HasSubstr("no engine is recognised"));
  // Every family is known, but none is of an engine.
  EXPECT_EQ(CheckResult(CheckOf("# TYPE python_info gauge\npython_info 1\n")), 1);
  // Names without a prefix need the name of their engine.
  constexpr std::string_view kNim = "# TYPE num_requests_running gauge\nnum_requests_running 1\n";
  EXPECT_EQ(CheckResult(CheckOf(kNim)), 1);
  EXPECT_EQ(CheckResult(CheckOf(kNim, "nim")), 0);
}

TEST(PageCheck, EscapesForeignNames) {
  ScrapedPage page;
  ASSERT_TRUE(page.Update("{\"evil\x1b[31m\ttab\"} 1\n", ExpositionFormat::kText100).ok());
  engine_page::PageFamilies families(nullptr);
  families.Update(page);
  PageCheck check = CheckPage("x", page, families);
  EXPECT_THAT(CheckText(check), Not(HasSubstr("\x1b")));
  EXPECT_TRUE(JsonReader::Read(CheckJson(check)));
}

TEST(GuessPageFormat, DetectsFormat) {
  auto detail = [](std::string_view body) {
    auto guess = GuessPageFormat(body);
    return guess ? std::string() : guess.error().detail;
  };
  EXPECT_EQ(*GuessPageFormat("a 1\n"), ExpositionFormat::kText004);
  EXPECT_EQ(*GuessPageFormat("a 1\n# EOF\n"), ExpositionFormat::kOpenMetrics100);
  EXPECT_THAT(detail(""), HasSubstr("is empty"));
  EXPECT_THAT(detail(" \n"), HasSubstr("is empty"));
  EXPECT_THAT(detail("<!doctype html>"), HasSubstr("is HTML"));
  EXPECT_THAT(detail("{\"detail\":\"Not Found\"}"), HasSubstr("is JSON"));
}

}  // namespace
}  // namespace gpulens
