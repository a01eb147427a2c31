// Rules by which readings are accepted, for the documentation and for the code that applies them: those of
// one reading are in the metric's row, cross-checks between readings are here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "core/validate.h"

namespace gpulens {

// Limits of the rules between readings. Seconds, watts, bytes; shares of one.
namespace cross_check {
inline constexpr double kMemorySlack = 1 << 20;
inline constexpr double kEnergyShare = 0.05, kEnergySlack = 1, kEnergyWindow = 60;
inline constexpr double kBusyFor = 30, kBusyAtLeast = 0.995;
inline constexpr double kPowerOverMax = 1.5, kInstantPowerOverMax = 2;
inline constexpr double kStuckFor = 3600, kStuckPowerShare = 0.25, kStuckPowerLeast = 20;
inline constexpr int kBridgedIntervals = 5;
// Tolerance of a board's power reading, as a share.
inline constexpr double kPowerAccuracy = 0.05;
}  // namespace cross_check

// A cross-check with other readings. Static storage.
struct CrossCheckRule {
  const MetricDesc* metric;  // whose reading is rejected
  Validation verdict;
  std::string_view rule, limits, source;
};
std::span<const CrossCheckRule> CrossCheckRules() noexcept;

// A rule as text.
struct RuleText {
  Validation verdict;
  std::string rule;
  std::string source;
};
// All rules of a metric, those of its row first.
std::vector<RuleText> RulesOf(const MetricDesc& metric);
// Returns the page docs/quality.md: all rules.
std::string QualityMarkdown();

}  // namespace gpulens
