#include "cli/collect/older_options.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

constexpr OptionSpec kTls[] = {{.key = "insecure_skip_verify", .type = OptionType::kBool}};
constexpr OptionSpec kTransport[] = {{.key = "timeout", .type = OptionType::kTime},
                                     {.key = "bearer_token"},
                                     {.key = "tls", .type = OptionType::kGroup, .children = kTls}};
constexpr OptionSpec kOptions[] = {{.key = "endpoint"},
                                   {.key = "path"},
                                   {.key = "transport", .type = OptionType::kGroup, .children = kTransport}};
constexpr SinkSpec SinkCalled(std::string_view name) {
  return {.name = name, .help = {}, .options = kOptions};
}

TEST(OlderOptions, NamesOfTheOtlpSink) {
  const SinkSpec otlp = SinkCalled("otlp"), webhook = SinkCalled("webhook");
  SinkOption endpoint = SinkOptionOf(otlp, "otel_endpoint", "http://x");
  EXPECT_EQ(endpoint.key, "endpoint");
  EXPECT_TRUE(endpoint.known && endpoint.older) << "and so no option of a collector";
  EXPECT_EQ(SinkOptionOf(otlp, "endpoint", "x").key, "endpoint");
  EXPECT_FALSE(SinkOptionOf(webhook, "otel_endpoint", "x").known);
  EXPECT_EQ(SinkOptionOf(otlp, "otel_timeout", "10").value, "10s") << "whole seconds, as they write it";
  EXPECT_EQ(SinkOptionOf(otlp, "otel_timeout", "10ms").value, "10ms");
  EXPECT_EQ(SinkOptionOf(otlp, "otel_endpoint", "10").value, "10");
}

TEST(OlderOptions, FindsOptionsOfTransport) {
  const SinkSpec sink = SinkCalled("webhook");
  EXPECT_EQ(SinkOptionOf(sink, "bearer_token", "x").key, "transport.bearer_token");
  EXPECT_EQ(SinkOptionOf(sink, "transport.bearer_token", "x").key, "transport.bearer_token");
  EXPECT_EQ(PlacedOption(kOptions, "timeout"), "transport.timeout");
  EXPECT_EQ(PlacedOption(kOptions, "path"), "path");
  EXPECT_EQ(PlacedOption(kOptions, "nothing"), "nothing");
}

TEST(OlderOptions, InvertsVerifySsl) {
  const SinkSpec webhook = SinkCalled("webhook");
  EXPECT_EQ(SinkOptionOf(webhook, "verify_ssl", "False").value, "true");
  EXPECT_EQ(SinkOptionOf(webhook, "verify_ssl", "true").value, "false");
  EXPECT_EQ(SinkOptionOf(webhook, "verify_ssl", "maybe").value, "maybe") << "the loader refuses it";
  EXPECT_EQ(SinkOptionOf(webhook, "verify_ssl", "true").key, "transport.tls.insecure_skip_verify");
  EXPECT_FALSE(SinkOptionOf({.name = "stdout", .help = {}}, "verify_ssl", "true").known);
}

TEST(OlderOptions, FolderGetsDefaultFile) {
  const SinkSpec file = SinkCalled("file");
  EXPECT_EQ(SinkOptionOf(file, "file_path", "/").value, "/metrics.jsonl");
  EXPECT_EQ(SinkOptionOf(file, "file_path", "/nowhere/").value, "/nowhere/metrics.jsonl");
  EXPECT_EQ(SinkOptionOf(file, "file_path", "/nowhere/a.jsonl").value, "/nowhere/a.jsonl");
  EXPECT_EQ(SinkOptionOf(file, "file_path", "/").key, "path");
}

TEST(OlderOptions, ResourceAttributesBecomeOneResource) {
  OlderResource resource;
  std::vector<FlagValue> flags;
  resource.AddTo(flags);
  EXPECT_TRUE(flags.empty());
  EXPECT_TRUE(resource.Take("metric_resource_attributes.team", "nlp").value_or(false));
  EXPECT_TRUE(resource.Take("log_resource_attributes.team", "nlp").value_or(false)) << "the same again";
  EXPECT_TRUE(resource.Take("log_resource_attributes.deployment.environment", "lab").value_or(false));
  EXPECT_FALSE(resource.Take("endpoint", "x").value_or(true));
  resource.AddTo(flags);
  ASSERT_EQ(flags.size(), 1u);
  EXPECT_EQ(flags[0].path, "resource.attributes");
  EXPECT_EQ(flags[0].text, "team=nlp,deployment.environment=lab");
}

TEST(OlderOptions, RefusesConflictingResources) {
  OlderResource resource;
  ASSERT_TRUE(resource.Take("metric_resource_attributes.team", "nlp").ok());
  for (auto [given, value] :
       {std::pair("log_resource_attributes.team", "speech"), std::pair("metric_resource_attributes.", "x"),
        std::pair("metric_resource_attributes.a", "1,b=2")})
    EXPECT_EQ(resource.Take(given, value).status().code, Code::kInvalidArgument) << given;
}

}  // namespace
}  // namespace gpulens
