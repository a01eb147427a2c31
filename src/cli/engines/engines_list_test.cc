#include "cli/engines/engines_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "wire/json/json_testing.h"

namespace gpulens {
namespace {

using engine_page::AllEngines;
using engine_page::Engine;
using engine_page::FindEngine;
using json_testing::JsonReader;
using ::testing::HasSubstr;

bool OffersNamed(std::string_view engine, std::string_view role) {
  return Offers(*FindEngine(engine), *FindEngineMetric(role));
}

TEST(EnginesList, OffersRolesOfOwnAndReadTables) {
  EXPECT_TRUE(OffersNamed("vllm", "TimeToFirstToken"));
  EXPECT_FALSE(OffersNamed("tgi", "TimeToFirstToken"));
  EXPECT_FALSE(OffersNamed("triton", "TokenRate"));
  // NIM's own table has no families of speculative decoding; vLLM's has.
  EXPECT_TRUE(OffersNamed("nim", "SpecDrafts"));
}

TEST(EnginesList, NotOfferedRolesAreAbsent) {
  for (const NotOffered& row : KnownNotOffered()) {
    const Engine* engine = FindEngine(row.engine);
    ASSERT_NE(engine, nullptr) << row.engine;
    const EngineMetric* role = FindEngineMetric(row.role);
    ASSERT_NE(role, nullptr) << row.role;
    if (row.engine == "nim") continue;  // what vLLM offers is of later versions
    EXPECT_FALSE(Offers(*engine, *role)) << row.engine << " " << row.role;
    EXPECT_FALSE(row.reason.empty());
  }
}

// An engine offers the roles that dashboards and alerts need, or it is known why not.
TEST(EnginesList, ServersOfferBasicRolesOrReason) {
  for (const Engine& engine : AllEngines()) {
    if (engine.layer != "engine") continue;
    for (std::string_view name : {"RequestsRunning", "RequestsWaiting", "PromptTokens", "GenerationTokens",
                                  "RequestDuration", "RequestsFinished"}) {
      bool explained = std::ranges::any_of(KnownNotOffered(), [&](const NotOffered& row) {
        return row.engine == engine.name && row.role == name;
      });
      EXPECT_NE(Offers(engine, *FindEngineMetric(name)), explained) << engine.name << " " << name;
    }
  }
}

TEST(EnginesList, TableHasOneLinePerEngine) {
  std::string text = EnginesTable(nullptr);
  for (const Engine& engine : AllEngines())
    EXPECT_THAT(text, HasSubstr("\n" + std::string(engine.name) + "  "));
  EXPECT_THAT(text, HasSubstr(":8000/prometheus/metrics"));
  std::string one = EnginesTable(FindEngine("tgi"));
  EXPECT_THAT(one, HasSubstr("inference.requests.waiting                  tgi_queue_size\n"));
  EXPECT_THAT(one, HasSubstr("not offered   TimeToFirstToken: "));
}

TEST(EnginesList, JsonHasFamiliesByRole) {
  std::string why;
  auto json = JsonReader::Read(EnginesJson(nullptr), &why);
  ASSERT_TRUE(json) << why;
  EXPECT_EQ((*json)["schema"].text, "gpulens.engines/1");
  EXPECT_EQ((*json)["engines"].items.size(), AllEngines().size());
  auto one = JsonReader::Read(EnginesJson(FindEngine("tgi")), &why);
  ASSERT_TRUE(one) << why;
  const auto& engine = (*one)["engines"][0];
  EXPECT_EQ((*one)["engines"].items.size(), 1u);
  EXPECT_EQ(engine["port"].number(), 8080);
  bool found = false;
  for (const auto& role : engine["roles"].items) {
    if (role["role"].text != "RequestsWaiting") continue;
    found = true;
    EXPECT_EQ(role["metric"].text, "inference.requests.waiting");
    EXPECT_EQ(role["families"][0].text, "tgi_queue_size");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(engine["not_offered"][0]["role"].text, "TimeToFirstToken");
}

TEST(EnginesList, MarkdownHasEveryEngineInOneMatrix) {
  std::string text = EnginesMarkdown();
  for (const Engine& engine : AllEngines()) {
    std::string head = " " + std::string(engine.name) + " |";
    EXPECT_THAT(text, HasSubstr(head));
  }
  EXPECT_THAT(text, HasSubstr("| TimeToFirstToken | `inference.time_to_first_token` | yes | yes | – |"));
  EXPECT_THAT(text, HasSubstr("## Roles: layer `gateway`"));
}

}  // namespace
}  // namespace gpulens
