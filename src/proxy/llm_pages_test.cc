#include "proxy/llm_pages.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "wire/llm/llm_routes.h"

namespace gpulens::proxy {
namespace {

// Two providers behind one route, and one that has a model of its own.
std::unique_ptr<ProxyRules> Rules() {
  auto rules = std::make_unique<ProxyRules>();
  const auto add = [&](std::string name, LlmApi api) {
    ProviderConfig& one = rules->config.providers.emplace_back();
    one.prices = one.name = std::move(name);
    one.api = api;
  };
  add("openai", LlmApi::kOpenAi);
  add("anthropic", LlmApi::kAnthropic);
  add("lab", LlmApi::kOpenAi);
  rules->config.providers.front().models["fast"] = "gpt-test";
  rules->config.routes = {{.models = {"own", "own-*"}, .providers = {2}},
                          {.models = {"*"}, .providers = {0, 1}}};
  const std::vector<pricing::PriceFile> files = {
      {"prices.tsv",
       "provider\tmodel\tinput\toutput\nopenai\tgpt-test\t1\t1\nanthropic\tclaude-test\t1\t1\n"
       "lab\town-two\t1\t1\nlab\tunrouted\t1\t1\nelsewhere\tother\t1\t1\n"}};
  Result<pricing::PriceTable> prices = pricing::PriceTable::Load(files);
  CHECK(prices.ok());
  rules->prices = *std::move(prices);
  return rules;
}

TEST(LlmPages, AModelIsListedForTheApiOfItsProvider) {
  const auto rules = Rules();
  const VirtualKey key;
  const auto list = [&](LlmApi api) { return std::string(ListModels(*rules, key, api).body.bytes); };
  EXPECT_EQ(list(LlmApi::kOpenAi),
            R"({"object":"list","data":[{"id":"fast","object":"model","created":0,"owned_by":"gpulens"},)"
            R"({"id":"gpt-test","object":"model","created":0,"owned_by":"gpulens"},)"
            R"({"id":"own","object":"model","created":0,"owned_by":"gpulens"},)"
            R"({"id":"own-two","object":"model","created":0,"owned_by":"gpulens"}]})");
  EXPECT_EQ(list(LlmApi::kAnthropic),
            R"({"data":[{"type":"model","id":"claude-test","display_name":"claude-test",)"
            R"("created_at":"1970-01-01T00:00:00Z"}],"has_more":false})");
  EXPECT_EQ(list(LlmApi::kGemini), R"({"models":[]})");
  EXPECT_EQ(list(LlmApi::kOllama), R"({"models":[]})");
}

TEST(LlmPages, OneModelIsDescribedWhereTheKeyHasIt) {
  const auto rules = Rules();
  VirtualKey key;
  const auto one = DescribeModel(*rules, key, LlmApi::kOpenAi, "gpt-test");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->body.bytes, R"({"id":"gpt-test","object":"model","created":0,"owned_by":"gpulens"})");
  EXPECT_FALSE(DescribeModel(*rules, key, LlmApi::kAnthropic, "gpt-test"));
  EXPECT_FALSE(DescribeModel(*rules, key, LlmApi::kOpenAi, "gpt"));
  key.models = {"own*"};
  EXPECT_FALSE(DescribeModel(*rules, key, LlmApi::kOpenAi, "gpt-test"));
  EXPECT_TRUE(DescribeModel(*rules, key, LlmApi::kOpenAi, "own"));
}

}  // namespace
}  // namespace gpulens::proxy
