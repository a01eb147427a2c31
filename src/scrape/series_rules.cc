#include "scrape/series_rules.h"

#include <algorithm>

#include "base/hash.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kHashText = 9;  // "~" and eight digits

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

void CheckPatterns(const Config& series, std::string_view key, ConfigFaults& faults) {
  for (const std::string& pattern : series.Texts(key)) {
    if (pattern.empty() || pattern.find('*') < pattern.size() - 1) {
      faults.Refuse(series, key,
                    std::string(key) + ": \"" + pattern + "\" is not a name, nor a name with a trailing *");
    }
  }
}

// The same in every run and on every machine, as the label must be.
uint32_t LastingHash(std::string_view text) noexcept {
  const uint64_t hash = Fnv1a(text);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Words of a name that tell of a level and not of an amount: two of them do not add up.
bool IsLevelWord(std::string_view word) noexcept {
  constexpr std::string_view kWords[] = {
      "ratio",   "percent", "perc",    "percentage", "fraction",  "utilization", "utilisation", "celsius",
      "kelvin",  "volts",   "hertz",   "seconds",    "timestamp", "time",        "age",         "temperature",
      "average", "avg",     "mean",    "max",        "min",       "quantile",    "load",        "factor",
      "version", "info",    "uptime",  "limit",      "threshold", "enabled",     "healthy",     "up",
      "ready",   "status",  "latency", "duration",   "index",     "efficiency",
  };
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

bool IsLevel(std::string_view name) noexcept {
  while (!name.empty()) {
    size_t end = std::min(name.find_first_of("_:."), name.size());
    if (IsLevelWord(name.substr(0, end))) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

bool CountsByName(std::string_view name) noexcept {
  return name.ends_with("_total") || name.ends_with("_count") || name.ends_with("_sum") ||
         name.ends_with("_bucket");
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view name) noexcept {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

bool SeriesRules::Top::For(std::string_view family) const noexcept {
  return families.empty() || MatchesAny(families, family);
}

void SeriesRules::Check(const Config& target, ConfigFaults& faults) {
  if (!target.Has("series")) return;
  const Config& series = target.Group("series");
  for (std::string_view key : {"drop_labels", "keep_labels"}) CheckPatterns(series, key, faults);
  const int64_t length = series.Int("label_length");
  if (length != 0 && length < static_cast<int64_t>(kShortestLabel)) {
    faults.Refuse(series, "label_length",
                  "label_length: 0 or at least " + std::to_string(kShortestLabel) +
                      ": a shorter value cannot hold the hash");
  }
  for (const Config& top : series.Groups("top")) CheckPatterns(top, "families", faults);
}

Result<SeriesRules> SeriesRules::Make(const Config& target) {
  RETURN_IF_ERROR(RefuseFaults(&SeriesRules::Check, target));
  SeriesRules rules;
  if (!target.Has("series")) return rules;
  const Config& series = target.Group("series");
  rules.drop = series.Texts("drop_labels");
  rules.keep = series.Texts("keep_labels");
  rules.label_length = static_cast<size_t>(series.Int("label_length"));
  const std::string& gauges = series.Text("gauges");
  if (gauges == "sum") rules.gauges = Gauges::kSum;
  if (gauges == "max") rules.gauges = Gauges::kMax;
  if (gauges == "drop") rules.gauges = Gauges::kDrop;
  for (const Config& top : series.Groups("top")) {
    rules.top.push_back({top.Text("label"), static_cast<uint32_t>(top.Int("keep")), top.Texts("families")});
  }
  return rules;
}

bool SeriesRules::Drops(std::string_view label) const noexcept {
  return MatchesAny(drop, label) || (!keep.empty() && !MatchesAny(keep, label));
}

std::string SeriesRules::Cut(std::string_view value) const {
  std::string_view front = value.substr(0, label_length - kHashText);
  size_t whole = 0;
  while (size_t length = Utf8Length(front.substr(whole))) whole += length;
  std::string cut(front.substr(0, whole));
  cut += '~';
  uint32_t hash = LastingHash(value);
  for (int shift = 28; shift >= 0; shift -= 4) cut += "0123456789abcdef"[hash >> shift & 15];
  return cut;
}

bool SeriesRules::Apply(std::vector<PageLabel>& labels) const {
  size_t before = labels.size();
  std::erase_if(labels, [this](const PageLabel& label) { return Drops(label.name); });
  bool changed = labels.size() != before;
  if (label_length == 0) return changed;
  for (PageLabel& label : labels) {
    if (label.value.size() <= label_length) continue;
    label.value = Cut(label.value);
    changed = true;
  }
  return changed;
}

Fold SeriesRules::FoldOf(const ExpositionFamily& family) const noexcept {
  switch (family.type) {
    case ExpositionType::kCounter:
    case ExpositionType::kHistogram:
    case ExpositionType::kSummary: return Fold::kCount;
    case ExpositionType::kGaugeHistogram: return Fold::kSum;
    case ExpositionType::kInfo:
    case ExpositionType::kStateSet: return Fold::kMax;
    case ExpositionType::kUnknown:
      if (CountsByName(family.name)) return Fold::kCount;
      break;
    case ExpositionType::kGauge: break;
  }
  switch (gauges) {
    case Gauges::kSum: return Fold::kSum;
    case Gauges::kMax: return Fold::kMax;
    case Gauges::kDrop: return Fold::kDrop;
    case Gauges::kAuto: break;
  }
  return IsLevel(family.name) || IsLevel(family.unit) ? Fold::kMax : Fold::kSum;
}

}  // namespace gpulens
