#include "agent/cli/collect/older_options.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(OlderOptions, NamesOfTheOtlpSink) {
  EXPECT_EQ(SinkOptionOf("otlp", "otel_endpoint"), "endpoint");
  EXPECT_EQ(SinkOptionOf("otlp", "endpoint"), "endpoint");
  EXPECT_EQ(SinkOptionOf("webhook", "otel_endpoint"), "otel_endpoint");
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

TEST(OlderOptions, WhatCannotBeOneResourceIsRefused) {
  OlderResource resource;
  ASSERT_TRUE(resource.Take("metric_resource_attributes.team", "nlp").ok());
  for (auto [given, value] :
       {std::pair("log_resource_attributes.team", "speech"), std::pair("metric_resource_attributes.", "x"),
        std::pair("metric_resource_attributes.a", "1,b=2")})
    EXPECT_EQ(resource.Take(given, value).status().code, Code::kInvalidArgument) << given;
}

}  // namespace
}  // namespace gpulens
