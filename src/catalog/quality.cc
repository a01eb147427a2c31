#include "catalog/quality.h"

#include <charconv>
#include <cmath>
#include <map>

#include "catalog/all.h"
#include "catalog/gpu.h"

namespace gpulens {
namespace {

constexpr CrossCheckRule kCrossCheckRules[] = {
    {&kGpuMemoryUsed, Validation::kInconsistent, "more than gpu.memory.total", "used <= total",
     "NVML: nvmlMemory_t, used is a part of total"},
    {&kGpuMemoryUsed, Validation::kInconsistent, "used, free and reserved do not add up to gpu.memory.total",
     "1 MiB; without reserved only a sum above total", "NVML: nvmlMemory_v2_t"},
    {&kGpuMemoryFree, Validation::kInconsistent, "used, free and reserved do not add up to gpu.memory.total",
     "1 MiB; without reserved only a sum above total", "NVML: nvmlMemory_v2_t"},
    {&kGpuMemoryReserved, Validation::kInconsistent,
     "used, free and reserved do not add up to gpu.memory.total", "1 MiB", "NVML: nvmlMemory_v2_t"},
    {&kGpuPowerDraw, Validation::kOutOfRange, "above the highest limit that the board can be set to",
     "1.5 x gpu.power.limit{max}", "vendors rate boards by it; short peaks exceed it by less than half"},
    {&kGpuPowerInstant, Validation::kOutOfRange, "above the highest limit that the board can be set to",
     "2 x gpu.power.limit{max}", "peaks of a millisecond"},
    {&kGpuPowerDraw, Validation::kInconsistent,
     "its integral differs from the growth of gpu.energy.consumption",
     "5 % + 1 J over 60 s, plus the error of the integral", "two meters of one board"},
    {&kGpuEnergyConsumption, Validation::kInconsistent,
     "does not grow, or grows faster than the board can draw, in contradiction to gpu.power.draw",
     "5 % + 1 J over 60 s; 1.5 x gpu.power.limit{max}", "two meters of one board"},
    {&kGpuSmActive, Validation::kInconsistent, "0 while gpu.utilization is 1", "30 s",
     "DCGM#303, dcgm-exporter#662: profiling counters that stopped report 0 for weeks"},
    {&kGpuUtilization, Validation::kInconsistent, "1 while gpu.sm.active is 0 and no process is on the GPU",
     "30 s", "a driver that counts its own scrubbing as load"},
    {&kGpuTemperature, Validation::kStuck, "unchanged to the last digit while power varied",
     "1 h; 25 % of power, at least 20 W", "a sensor that is no longer read keeps its last value"},
};

std::string NumberText(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end);
}

std::string WithUnit(double value, const MetricDesc& metric) {
  bool shown = !metric.unit.empty() && metric.unit != "1" && !metric.unit.starts_with('{');
  return NumberText(value) + (shown ? " " + std::string(metric.unit) : "");
}

std::string RangeText(const MetricDesc& metric) {
  const Rule& rule = *metric.rule;
  if (std::isinf(rule.high)) return "below " + WithUnit(rule.low, metric);
  if (std::isinf(rule.low)) return "above " + WithUnit(rule.high, metric);
  return "outside " + NumberText(rule.low) + " to " + WithUnit(rule.high, metric);
}

}  // namespace

std::span<const CrossCheckRule> CrossCheckRules() noexcept { return kCrossCheckRules; }

std::vector<RuleText> RulesOf(const MetricDesc& metric) {
  std::vector<RuleText> out;
  if (const Rule* rule = metric.rule) {
    if (!rule->sentinels.empty()) {
      std::string text;
      for (double sentinel : rule->sentinels) text += (text.empty() ? "" : ", ") + NumberText(sentinel);
      out.push_back(
          {Validation::kSentinel, text + " as the driver's raw value", "the driver's codes for unknown"});
    }
    if (!std::isinf(rule->low) || !std::isinf(rule->high)) {
      out.push_back({Validation::kOutOfRange, RangeText(metric), "possible range of the quantity"});
    }
    if (!std::isinf(rule->max_change_per_second)) {
      bool grows = IsMonotonic(metric.kind);
      out.push_back({Validation::kImpossibleJump,
                     (grows ? "grows faster than " : "changes faster than ") +
                         WithUnit(rule->max_change_per_second, metric) +
                         " in a second; accepted when three readings agree",
                     "possible rate of change of the quantity"});
    }
  }
  if (metric.on_decrease == OnDecrease::kReject) {
    out.push_back({Validation::kCounterDecreased, "falls; accepted as a restart when three readings agree",
                   "a counter falls only when its source restarts"});
  }
  for (const CrossCheckRule& rule : kCrossCheckRules) {
    if (rule.metric != &metric) continue;
    out.push_back({rule.verdict, std::string(rule.rule) + " (" + std::string(rule.limits) + ")",
                   std::string(rule.source)});
  }
  return out;
}

std::string QualityMarkdown() {
  std::string out = "| rejected as | metric | when | source of the rule |\n|---|---|---|---|\n";
  auto add = [&](std::string_view verdict, std::string_view metrics, std::string_view rule,
                 std::string_view source) {
    out += "| `" + std::string(verdict) + "` | " + std::string(metrics) + " | " + std::string(rule) + " | " +
           std::string(source) + " |\n";
  };
  for (const CrossCheckRule& rule : kCrossCheckRules) {
    add(ValidationName(rule.verdict), "`" + std::string(rule.metric->name) + "`",
        std::string(rule.rule) + " (" + std::string(rule.limits) + ")", rule.source);
  }
  // Rules of single readings are shared by many metrics: one line each.
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> lines;
  for (const MetricDesc* metric : AllMetrics()) {
    if (!metric->name.starts_with("gpu.")) continue;
    for (const RuleText& text : RulesOf(*metric)) {
      bool is_cross_check = false;
      for (const CrossCheckRule& rule : kCrossCheckRules) {
        is_cross_check = is_cross_check || (rule.metric == metric && rule.source == text.source);
      }
      if (is_cross_check) continue;
      auto& [names, source] = lines[{std::string(ValidationName(text.verdict)), text.rule}];
      names += (names.empty() ? "`" : ", `") + std::string(metric->name) + "`";
      source = text.source;
    }
  }
  for (const auto& [key, line] : lines) add(key.first, line.first, key.second, line.second);
  return out;
}

}  // namespace gpulens
