// The rules by which readings are believed, for people and for the code that applies them: those of one
// reading, which stand in the metric's row, and those between readings, which stand here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric_desc.h"
#include "core/validate.h"

namespace gpulens {

// Limits of the rules between readings. Seconds, watts, bytes; shares of one.
namespace twin_limit {
inline constexpr double kMemorySlack = 1 << 20;
inline constexpr double kEnergyShare = 0.05, kEnergySlack = 1, kEnergyWindow = 60;
inline constexpr double kBusyFor = 30, kBusyAtLeast = 0.995;
inline constexpr double kPowerOverMax = 1.5, kInstantPowerOverMax = 2;
inline constexpr double kStuckFor = 3600, kStuckPowerShare = 0.25, kStuckPowerLeast = 20;
inline constexpr int kBridgedIntervals = 5;
// What a board's power reading may be off, as a share.
inline constexpr double kPowerAccuracy = 0.05;
}  // namespace twin_limit

// One rule that looks at other readings than its own. Static storage.
struct CrossCheckRule {
  const MetricDesc* metric;  // whose reading is rejected
  Validation verdict;
  std::string_view rule, limits, source;
};
std::span<const CrossCheckRule> TwinRules() noexcept;

// A rule as people read it.
struct RuleText {
  Validation verdict;
  std::string rule;
  std::string source;
};
// All rules of a metric, those of its row first.
std::vector<RuleText> RulesOf(const MetricDesc& metric);
// The page docs/quality.md: every rule there is.
std::string QualityMarkdown();

}  // namespace gpulens
