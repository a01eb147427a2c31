#include "scrape/engine/engine_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scrape/engine/engine_identity.h"
#include "scrape/engine/engine_plan.h"

namespace gpulens::engine_page {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class Drift : public ::testing::Test {
 protected:
  std::vector<std::string> Look(std::string_view body, ExpositionFormat format = ExpositionFormat::kText004) {
    EXPECT_TRUE(page.Update(body, format).ok());
    families.Update(page);
    std::vector<std::string> sentences;
    rows.clear();
    for (const DriftWatch::Finding& finding : watch.Check(page, families)) {
      sentences.push_back(finding.sentence);
      if (!finding.row.empty()) rows.push_back(finding.row);
    }
    return sentences;
  }
  ScrapedPage page;
  PageFamilies families{FindEngine("vllm")};
  DriftWatch watch;
  std::vector<std::string> rows;
};

TEST_F(Drift, UnknownFamilyIsReportedOnceWithARow) {
  const char* body =
      "# TYPE vllm:new_wait_seconds histogram\nvllm:new_wait_seconds_sum 1\nvllm:new_wait_seconds_count 1\n";
  EXPECT_THAT(Look(body), ElementsAre("family vllm:new_wait_seconds is in no table"));
  EXPECT_THAT(rows, ElementsAre("vllm:new_wait_seconds\thistogram\t-\ts\tpass\t-\t-\t-\t-\t-"));
  EXPECT_THAT(Look(body), IsEmpty());
  EXPECT_EQ(families.unknown(), 1u);
}

TEST_F(Drift, ReportsOtherTypeOrUnit) {
  EXPECT_THAT(
      Look("# TYPE vllm:num_requests_running counter\nvllm:num_requests_running 1\n"),
      ElementsAre("family vllm:num_requests_running is a counter now, which its row does not expect"));
  EXPECT_THAT(Look("# TYPE vllm:kv_cache_usage_perc gauge\n# UNIT vllm:kv_cache_usage_perc bytes\n"
                   "vllm:kv_cache_usage_perc 1\n# TYPE vllm:num_requests_running "
                   "gauge\nvllm:num_requests_running 1\n# EOF\n",
                   ExpositionFormat::kOpenMetrics100),
              ElementsAre("family vllm:kv_cache_usage_perc is in bytes, its row expects 1"));
}

TEST_F(Drift, ReportsGoneAndReturnedFamilies) {
  const std::string a = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n";
  const std::string b = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 1\n";
  EXPECT_THAT(Look(a + b), IsEmpty());
  EXPECT_THAT(Look(a), ElementsAre("family vllm:num_requests_waiting is no longer on the page"));
  EXPECT_THAT(Look(a), IsEmpty());
  EXPECT_THAT(Look(a + b), ElementsAre("family vllm:num_requests_waiting is back"));
}

TEST(ReadFacts, ReadsAnswersOfEngines) {
  EngineFacts facts;
  ReadFacts("/version", R"({"version":"0.11.0"})", facts);
  ReadFacts("/v1/models", R"({"data":[{"id":"m"}]})", facts);
  EXPECT_EQ(facts, (EngineFacts{"m", "0.11.0"}));
  facts = {};
  ReadFacts("/info", R"({"model_id":"tgi","version":"3.0"})", facts);
  EXPECT_EQ(facts, (EngineFacts{"tgi", "3.0"}));
  facts = {};
  ReadFacts("/get_model_info", R"({"model_path":"sg"})", facts);
  ReadFacts("/get_server_info", R"({"version":"0.4"})", facts);
  EXPECT_EQ(facts, (EngineFacts{"sg", "0.4"}));
}

TEST(ReadFacts, OmitsUnknownFacts) {
  EngineFacts facts;
  for (const char* body : {"", "<html>", "[]", "{}", R"({"version":7})", R"({"data":[]})"}) {
    ReadFacts("/version", body, facts);
    ReadFacts("/v1/models", body, facts);
  }
  // With two models it is unknown which one a series is about.
  ReadFacts("/v1/models", R"({"data":[{"id":"a"},{"id":"b"}]})", facts);
  EXPECT_EQ(facts, EngineFacts{});
  ReadFacts("/version", "{\"version\":\"" + std::string(1000, 'x') + "\"}", facts);
  EXPECT_EQ(facts.version.size(), 256u);
  ReadFacts("/version", R"({"version":"a\u001b[2J"})", facts);
  EXPECT_EQ(facts.version, "a\\x1b[2J");
}

TEST(LabelPlan, AppliesOperations) {
  LabelPlan plan("model_name>model.name,source>s(a:x b*:y),user!,kind=k,+added=v");
  LabelPlan::Attributes out;
  const std::vector<PageLabel> labels = {{"model_name", "m"}, {"source", "bee"}, {"user", "u"},
                                         {"kind", "k"},       {"other", "o"},    {"empty", ""}};
  EXPECT_TRUE(plan.Takes(labels));
  plan.Apply(labels, true, out);
  EXPECT_THAT(out,
              ElementsAre(Pair("model.name", "m"), Pair("s", "y"), Pair("other", "o"), Pair("added", "v")));
  plan.Apply({{"source", "c"}}, false, out);
  EXPECT_THAT(out, ElementsAre(Pair("s", "c"), Pair("added", "v")));
  EXPECT_FALSE(plan.Takes({{"kind", "other"}}));
  EXPECT_FALSE(plan.Takes({}));
}

}  // namespace
}  // namespace gpulens::engine_page
