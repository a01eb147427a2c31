#include "cli/migrate/litellm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/proxy/proxy_options.h"
#include "config/loader.h"

namespace gpulens {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

LiteLlmDraft Converted(const std::string& text) {
  auto draft = ProxyFromLiteLlm(text, "config.yaml");
  EXPECT_TRUE(draft.ok()) << (draft.ok() ? "" : draft.error().detail);
  return draft ? *std::move(draft) : LiteLlmDraft();
}

// What the proxy makes of a draft; each variable is "key-NAME".
proxy::ProxyOptions Accepted(const LiteLlmDraft& draft, const std::vector<std::string>& variables = {}) {
  ConfigSources sources;
  sources.file_name = "proxy.yaml", sources.file_text = draft.yaml, sources.expand = true;
  for (const std::string& name : variables) sources.environment.push_back({name, "key-" + name});
  LoadOutcome loaded = Load(ProxySchema(), sources);
  EXPECT_TRUE(loaded.ok()) << loaded.FullReport() << draft.yaml;
  std::vector<std::string> errors;
  proxy::ProxyOptions options;
  if (loaded.ok()) options = MakeProxyOptions(loaded.config, errors);
  EXPECT_THAT(errors, ElementsAre()) << draft.yaml;
  return options;
}

constexpr const char* kCommon = R"(
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o-2024-08-06
      api_key: os.environ/OPENAI_API_KEY
      rpm: 480
      timeout: 300
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://acme.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_EU
      api_version: "2024-10-21"
      tpm: 100000
  - model_name: claude
    litellm_params:
      model: anthropic/claude-sonnet-4-20250514
      api_key: sk-ant-very-secret
  - model_name: local
    litellm_params:
      model: hosted_vllm/Qwen/Qwen3-8B
      api_base: http://10.0.0.5:8000/v1
      input_cost_per_token: 2.5e-07
      output_cost_per_token: 0.000001
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 2
  model_group_alias: {gpt-4: gpt-4o}
  fallbacks: [{gpt-4o: [claude]}]
  redis_host: os.environ/REDIS_HOST
litellm_settings:
  drop_params: true
  max_budget: 100
  budget_duration: 30d
  request_timeout: 120
  callbacks: [prometheus]
general_settings:
  master_key: sk-1234-master
  database_url: postgresql://u:secret@db/litellm
environment_variables:
  SOME_SECRET: hidden-value
)";

TEST(LiteLlm, CommonConfigurationIsAcceptedByTheProxy) {
  const LiteLlmDraft draft = Converted(kCommon);
  const proxy::ProxyOptions options =
      Accepted(draft, {"OPENAI_API_KEY", "AZURE_API_KEY_EU", "ANTHROPIC_API_KEY"});
  const auto& providers = options.config.providers;
  ASSERT_EQ(providers.size(), 4u);
  EXPECT_EQ(providers[0].name, "openai");
  EXPECT_EQ(providers[0].credential, "key-OPENAI_API_KEY");
  EXPECT_THAT(providers[0].models,
              ElementsAre(Pair("gpt-4", "gpt-4o-2024-08-06"), Pair("gpt-4o", "gpt-4o-2024-08-06")));
  EXPECT_EQ(providers[0].upstream.head, std::chrono::seconds(300));
  EXPECT_EQ(providers[1].name, "azure");
  EXPECT_EQ(providers[1].upstream.url.Shown(), "https://acme.openai.azure.com/openai");
  EXPECT_EQ(providers[1].upstream.head, std::chrono::seconds(120));
  EXPECT_EQ(providers[2].api, LlmApi::kAnthropic);
  EXPECT_EQ(providers[2].credential, "key-ANTHROPIC_API_KEY");
  EXPECT_EQ(providers[3].name, "10-0-0-5");
  EXPECT_EQ(providers[3].terms.profile, pricing::Profile::kByoc);
  EXPECT_EQ(providers[3].stream_usage, proxy::StreamUsage::kContinuous);
  EXPECT_THAT(providers[3].models, ElementsAre(Pair("local", "Qwen/Qwen3-8B")));
  ASSERT_EQ(options.config.routes.size(), 3u);
  EXPECT_THAT(options.config.routes[0].models, ElementsAre("gpt-4o", "gpt-4"));
  EXPECT_THAT(options.config.routes[0].providers, ElementsAre(0u, 1u));
  ASSERT_EQ(options.budgets.size(), 1u);
  EXPECT_EQ(options.budgets[0].limit_pico, 100 * pricing::kPicoPerUsd);
  EXPECT_EQ(proxy::BudgetWindowText(options.budgets[0].window), "month");
  EXPECT_THAT(draft.yaml, HasSubstr("attempts: 2"));
  EXPECT_THAT(draft.yaml, HasSubstr("#10-0-0-5\tQwen/Qwen3-8B\t250000\t1000000\n"));
}

TEST(LiteLlm, WhatDoesNotMapHasAReasonAndItsLinesAndNoSecretIsPrinted) {
  const LiteLlmDraft draft = Converted(kCommon);
  for (const char* secret : {"sk-ant-very-secret", "sk-1234-master", "secret@db", "hidden-value"})
    EXPECT_THAT(draft.yaml, Not(HasSubstr(secret)));
  for (const char* left :
       {"#   rpm: limits are of virtual keys here: gpulens proxy keys new --rpm --tpm (7)\n",
        "#   tpm: ", "#   fallbacks: a request never goes to another model", "#   master_key: there is none",
        "#   database_url: keys, teams and spend in it are not moved",
        "#   drop_params: ", "#   redis_host: ", "#   environment_variables: set them",
        "put it into ANTHROPIC_API_KEY", "#   callbacks: Prometheus reads"})
    EXPECT_THAT(draft.yaml, HasSubstr(left));
  EXPECT_GE(draft.left, 12u);
}

TEST(LiteLlm, WildcardsSameNamesAndProvidersWithoutAPrefix) {
  const LiteLlmDraft draft = Converted(R"(
model_list:
  - {model_name: fast, litellm_params: {model: gpt-4o-mini}}
  - {model_name: fast, litellm_params: {model: gpt-4.1-mini}}
  - {model_name: "openai/*", litellm_params: {model: "openai/*"}}
  - {model_name: llama, litellm_params: {model: ollama/llama3.1, api_base: "http://localhost:11434"}}
  - {model_name: env, litellm_params: {model: openai/x, api_base: os.environ/BASE, api_key: os.environ/KEY}}
  - {model_name: bedrock, litellm_params: {model: bedrock/anthropic.claude-v2}}
  - {model_name: nameless, litellm_params: {model: some-model}}
  - {model_name: "a$b\"c", litellm_params: {model: "groq/d$e"}}
)");
  ConfigSources sources;
  sources.file_name = "proxy.yaml", sources.file_text = draft.yaml, sources.expand = true;
  sources.environment = {
      {"OPENAI_API_KEY", "k"}, {"KEY", "k"}, {"GROQ_API_KEY", "k"}, {"BASE", "https://x.example"}};
  const LoadOutcome loaded = Load(ProxySchema(), sources);
  ASSERT_TRUE(loaded.ok()) << loaded.FullReport() << draft.yaml;
  std::vector<std::string> errors;
  const proxy::ProxyOptions options = MakeProxyOptions(loaded.config, errors);
  EXPECT_THAT(errors, ElementsAre());
  const auto& providers = options.config.providers;
  ASSERT_EQ(providers.size(), 5u) << draft.yaml;
  EXPECT_THAT(providers[0].models, ElementsAre(Pair("fast", "gpt-4o-mini")));
  EXPECT_EQ(providers[1].name, "openai-2");
  EXPECT_EQ(providers[1].prices, "openai");
  EXPECT_THAT(providers[1].models, ElementsAre(Pair("fast", "gpt-4.1-mini")));
  EXPECT_EQ(providers[2].name, "localhost");
  EXPECT_EQ(providers[3].upstream.url.Shown(), "https://x.example");
  EXPECT_THAT(providers[4].models, ElementsAre(Pair("a$b\"c", "d$e")));
  EXPECT_THAT(options.config.routes.back().models, ElementsAre("*"));
  EXPECT_THAT(draft.yaml, HasSubstr("#   bedrock: the proxy does not know bedrock (8)"));
  EXPECT_THAT(draft.yaml, HasSubstr("#   nameless: its provider is not in the name of its model (9)"));
}

TEST(LiteLlm, OtherFilesAreRefused) {
  const auto wrong = [](const std::string& text) {
    const auto draft = ProxyFromLiteLlm(text, "config.yaml");
    EXPECT_FALSE(draft.ok()) << text;
    return draft.ok() ? std::string() : draft.error().detail;
  };
  EXPECT_THAT(wrong(""), HasSubstr("no model_list"));
  EXPECT_THAT(wrong("a: [b"), HasSubstr("config.yaml"));
  EXPECT_THAT(wrong("model_list: {}"), HasSubstr("no model_list"));
  EXPECT_THAT(wrong("model_list: []"), HasSubstr("no model of a provider"));
  EXPECT_THAT(wrong("model_list: [{model_name: m, litellm_params: {model: bedrock/x}}]"),
              HasSubstr("the proxy does not know bedrock"));
  // Escaped, 200 control characters are more than a key of YAML may have.
  for (const std::string& name : {std::string(201, 'x'), std::string("a\\t") + std::string(100, 'x')})
    EXPECT_THAT(wrong("model_list: [{model_name: \"" + name + "\", litellm_params: {model: groq/x}}]"),
                HasSubstr("longer than 200 bytes or with control characters"));
}

}  // namespace
}  // namespace gpulens
