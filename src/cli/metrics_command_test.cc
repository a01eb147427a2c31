#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/output.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Split(const std::string& text, std::string_view between) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(between, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Only a word that is longer than a line may exceed the width.
void ExpectFits(const std::string& text, size_t width) {
  EXPECT_FALSE(text.empty());
  for (const std::string& line : Split(text, "\n"))
    EXPECT_TRUE(WidthOf(line) <= width || Split(line, " ").size() == 1) << WidthOf(line) << ": " << line;
}

TEST(MetricsCommandTest, TablesFitTerminal) {
  for (const size_t width : {40u, 60u, 80u, 100u}) {
    for (const char* names : {"", "zernel", "dcgm", "otel_genai", "l9gpu"})
      ExpectFits(MetricsTable(names, width), width);
    ExpectFits(MetricRules(width), width);
  }
}

TEST(MetricsCommandTest, TerminalTableHasEveryMetric) {
  const std::string text = MetricsTable("", 80);
  EXPECT_THAT(text,
              HasSubstr("\ngpu.power.draw                        W             gauge           essential\n"
                        "    Power drawn by the board as the driver reports it first: a mean over 1 s on\n"
                        "      Ampere and later, else instant. · "));
  const std::vector<std::string> lines = Split(MetricsTable("", 0), "\n");
  for (size_t i = 1; i < lines.size(); ++i)
    EXPECT_THAT(text, HasSubstr("\n" + Split(lines[i], " ")[0] + " "));
}

TEST(MetricsCommandTest, PlainTableHasOneMetricPerLine) {
  const std::vector<std::string> lines = Split(MetricsTable("", 0), "\n");
  EXPECT_GT(lines.size(), 300u);
  for (const std::string& line : lines) EXPECT_NE(line[0], ' ') << line;
  for (const std::string& line : lines) {
    if (!line.starts_with("gpu.power.draw ")) continue;
    EXPECT_TRUE(line.ends_with("a mean over 1 s on Ampere and later, else instant.")) << line;
  }
  EXPECT_TRUE(MetricRules(0).starts_with("| rejected as |"));
}

TEST(MetricsCommandTest, TerminalRulesHaveMetricsAndSource) {
  EXPECT_THAT(MetricRules(80),
              HasSubstr("\ninconsistent         more than gpu.memory.total (used <= total)\n"
                        "    gpu.memory.used · NVML: nvmlMemory_t, used is a part of total\n"));
  EXPECT_EQ(MetricRules(80).find('|'), std::string::npos);
}

}  // namespace
}  // namespace gpulens
