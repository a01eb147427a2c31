#include "catalog/quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "catalog/all.h"
#include "catalog/gpu.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

TEST(Quality, CrossChecksHaveMetricAndSource) {
  for (const CrossCheckRule& rule : CrossCheckRules()) {
    EXPECT_EQ(FindMetric(rule.metric->name), rule.metric);
    EXPECT_FALSE(rule.rule.empty() || rule.limits.empty() || rule.source.empty()) << rule.metric->name;
    EXPECT_NE(rule.verdict, Validation::kAccepted);
  }
}

TEST(Quality, RulesOfARowAreInItsUnit) {
  std::vector<RuleText> rules = RulesOf(kGpuTemperature);
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[0].verdict, Validation::kSentinel);
  EXPECT_THAT(rules[0].rule, HasSubstr("65535"));
  EXPECT_EQ(rules[1].rule, "outside -40 to 130 Cel");
  EXPECT_THAT(rules[2].rule, HasSubstr("changes faster than 25 Cel in a second"));
  EXPECT_EQ(rules[3].verdict, Validation::kStuck);
  rules = RulesOf(kGpuEnergyConsumption);
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[0].rule, "below 0 J");
  EXPECT_THAT(rules[1].rule, HasSubstr("grows faster than 5000 J"));
  EXPECT_EQ(rules[2].verdict, Validation::kCounterDecreased);
  EXPECT_EQ(rules[3].verdict, Validation::kInconsistent);
}

TEST(Quality, PageAgreesWithTheCode) {
  auto page = ReadFile(GPULENS_SOURCE_DIR "/docs/quality.md");
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find(QualityMarkdown()), std::string::npos)
      << "docs/quality.md is old: build/gpulens metrics --rules --format md prints its table";
}

}  // namespace
}  // namespace gpulens
