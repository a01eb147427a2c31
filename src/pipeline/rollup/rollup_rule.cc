#include "pipeline/rollup/rollup_rule.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::string_view kRollups = "rollups", kInterval = "interval", kLevel = "metrics";
constexpr size_t kLongestName = 255;

bool AnyMatches(const std::vector<std::string>& patterns, std::string_view text) noexcept {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return MatchesStars(p, text, '?'); });
}

bool HasWildcard(std::string_view text) noexcept {
  return text.find_first_of("*?") != std::string_view::npos;
}

// OpenTelemetry's rule for names of instruments, and the colon of Prometheus.
bool IsMetricName(std::string_view name) noexcept {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.empty() || name.size() > kLongestName || !letter(name.front())) return false;
  return std::ranges::all_of(name, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || std::string_view("_.:-/").find(c) != std::string_view::npos;
  });
}

void CheckTexts(const Config& rule, std::string_view key, ConfigFaults& faults) {
  if (std::ranges::any_of(rule.Texts(key), &std::string::empty))
    faults.Refuse(rule, key, std::string(key) + " has an empty name");
}

void CheckFunctions(const Config& rule, ConfigFaults& faults) {
  std::vector<std::string> functions = rule.Texts("functions");
  if (functions.empty()) faults.Refuse(rule, "functions", "functions is empty", "like [sum, avg]");
  std::ranges::sort(functions);
  auto twice = std::ranges::adjacent_find(functions);
  if (twice != functions.end()) faults.Refuse(rule, "functions", "functions has \"" + *twice + "\" twice");
}

void CheckName(const Config& rule, ConfigFaults& faults) {
  const std::string& name = rule.Text("name");
  if (name.empty()) return;
  const auto& metrics = rule.Texts("metrics");
  if (!IsMetricName(name))
    faults.Refuse(rule, "name", "name \"" + name + "\" is not a valid metric name",
                  "a letter, then letters, digits and _ . : - /");
  if (rule.Texts("functions").size() != 1 || metrics.size() != 1 || HasWildcard(metrics.front()))
    faults.Refuse(rule, "name", "name needs exactly one function and one metric without wildcards");
}

RollupRule RuleOf(const Config& config) {
  RollupRule rule;
  rule.metrics = config.Texts("metrics");
  for (const std::string& name : config.Texts("kinds")) {
    const auto* found = std::ranges::find(kRollupKindNames, name);
    if (found == std::end(kRollupKindNames)) continue;
    rule.kinds.push_back(static_cast<RollupForm>(1 + (found - std::begin(kRollupKindNames))));
  }
  rule.by = config.Texts("by");
  rule.without = config.Texts("without");
  for (const std::string& name : config.Texts("functions")) {
    const auto* found = std::ranges::find(kRollupFunctionNames, name);
    if (found == std::end(kRollupFunctionNames)) continue;
    rule.functions.push_back(static_cast<RollupFunction>(found - std::begin(kRollupFunctionNames)));
  }
  rule.name = config.Text("name");
  rule.interval = config.Time(kInterval);
  rule.keep_input = config.Bool("keep_input");
  rule.max_groups = static_cast<uint32_t>(config.Int("max_groups"));
  return rule;
}

// A kind that is named has a function.
void CheckKinds(const Config& config, ConfigFaults& faults) {
  const RollupRule rule = RuleOf(config);
  for (RollupForm form : rule.kinds) {
    if (rule.functions.empty() || rule.AppliesTo(form)) continue;
    const std::string_view kind = kRollupKindNames[static_cast<size_t>(form) - 1];
    faults.Refuse(config, "kinds", "none of the functions is defined for a " + std::string(kind));
  }
}

void CheckRule(const Config& rule, ConfigFaults& faults) {
  if (rule.Texts("metrics").empty()) faults.Refuse(rule, "metrics", "metrics is empty", "like [\"gpu.*\"]");
  for (std::string_view key : {"metrics", "by", "without"}) CheckTexts(rule, key, faults);
  if (!rule.Texts("by").empty() && !rule.Texts("without").empty())
    faults.Refuse(rule, "without", "by and without contradict each other");
  CheckFunctions(rule, faults);
  CheckKinds(rule, faults);
  CheckName(rule, faults);
}

}  // namespace

RollupForm RollupFormOf(const SeriesInfo& series) noexcept {
  if (!series.desc) return RollupForm::kNone;
  switch (series.desc->kind) {
    case Kind::kGauge:
    case Kind::kUpDownCounter:
    case Kind::kUnknown: return series.shape ? RollupForm::kNone : RollupForm::kReadings;
    case Kind::kCounter: return series.shape ? RollupForm::kNone : RollupForm::kIncreases;
    case Kind::kHistogram: return series.shape ? RollupForm::kBuckets : RollupForm::kNone;
    case Kind::kGaugeHistogram:
    case Kind::kSummary:
    case Kind::kInfo:
    case Kind::kStateSet: break;
  }
  return RollupForm::kNone;
}

bool Applies(RollupFunction function, RollupForm form) noexcept {
  if (form == RollupForm::kNone) return false;
  switch (function) {
    case RollupFunction::kSum:
    case RollupFunction::kCount: return true;
    case RollupFunction::kAvg:
    case RollupFunction::kMin:
    case RollupFunction::kMax:
    case RollupFunction::kLast: return form == RollupForm::kReadings;
    case RollupFunction::kIncrease:
    case RollupFunction::kRate: return form == RollupForm::kIncreases;
    case RollupFunction::kP50:
    case RollupFunction::kP90:
    case RollupFunction::kP99: return form == RollupForm::kBuckets;
  }
  return false;
}

bool RollupRule::Matches(const MetricDesc& desc) const noexcept {
  return desc.level <= level && AnyMatches(metrics, desc.name);
}

bool RollupRule::Takes(RollupForm form) const noexcept {
  return kinds.empty() || std::ranges::find(kinds, form) != kinds.end();
}

AttributeSet RollupRule::GroupOf(const AttributeSet& series) const {
  if (by.empty() && without.empty()) return {};
  std::vector<AttributeSet::Attribute> kept;
  for (const AttributeSet::Attribute& attribute : series) {
    if (by.empty() ? !AnyMatches(without, attribute.key) : AnyMatches(by, attribute.key))
      kept.push_back(attribute);
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(kept));
}

bool RollupRule::AppliesTo(RollupForm form) const noexcept {
  return std::ranges::any_of(functions, [form](RollupFunction f) { return Applies(f, form); });
}

void CheckRollups(const Config& sink, ConfigFaults& faults) {
  const std::vector<Config>& rules = sink.Groups(kRollups);
  if (rules.size() > kRollupRulesMax)
    faults.Refuse(sink, kRollups, "rollups has more than " + std::to_string(kRollupRulesMax) + " rules");
  std::vector<std::string> names;
  for (const Config& rule : rules) {
    CheckRule(rule, faults);
    if (sink.Has(kInterval) && rule.Time(kInterval) < sink.Time(kInterval))
      faults.Refuse(rule, kInterval,
                    "interval is shorter than that of the sink, so that results would be lost",
                    "raise it, or lower the interval of the sink");
    const std::string& name = rule.Text("name");
    if (name.empty()) continue;
    if (std::ranges::find(names, name) != names.end())
      faults.Refuse(rule, "name", "name \"" + name + "\" is used by another rule");
    names.push_back(name);
  }
}

std::vector<RollupRule> RollupRulesOf(const Config& sink) {
  std::vector<RollupRule> rules;
  if (!sink.Has(kRollups)) return rules;
  MetricLevel level = MetricLevel::kAll;
  for (MetricLevel one : {MetricLevel::kEssential, MetricLevel::kStandard})
    if (sink.Has(kLevel) && sink.Text(kLevel) == MetricLevelName(one)) level = one;
  for (const Config& rule : sink.Groups(kRollups)) rules.emplace_back(RuleOf(rule)).level = level;
  return rules;
}

}  // namespace gpulens
