#include "scrape/series_rules.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>

#include "base/hash.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kHashText = 9;  // "~" and eight digits

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept {
  return std::ranges::any_of(patterns,
                             [name](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

template <const auto& kTable>
void CheckPatterns(OptionsOf<kTable> options,
                   std::type_identity_t<OptionKey<kTable, OptionType::kTexts>> list, ConfigFaults& faults) {
  for (const std::string& pattern : options.Texts(list)) {
    if (pattern.empty() || pattern.find('*') < pattern.size() - 1)
      options.Refuse(
          list, faults,
          std::string(list.key) + ": \"" + pattern + "\" is not a name, nor a name with a trailing *");
  }
}

// The same in every run and on every machine, as the label must be.
uint32_t LastingHash(std::string_view text) noexcept {
  const uint64_t hash = Fnv1a(text);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Words of names that measure a level, not an amount: two of them do not add up.
bool IsLevelWord(std::string_view word) noexcept {
  constexpr std::string_view kWords[] = {
      "ratio",   "percent", "perc",    "percentage", "fraction",  "utilization", "utilisation", "celsius",
      "kelvin",  "volts",   "hertz",   "seconds",    "timestamp", "time",        "age",         "temperature",
      "average", "avg",     "mean",    "max",        "min",       "quantile",    "load",        "factor",
      "version", "info",    "uptime",  "limit",      "threshold", "enabled",     "healthy",     "up",
      "ready",   "status",  "latency", "duration",   "index",     "efficiency",
  };
  return std::ranges::find(kWords, word) != std::end(kWords);
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

constexpr uint32_t kNoValue = UINT32_MAX;

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
  const OptionsOf<kSeriesOptions> series = target.Group("series");
  CheckPatterns(series, "drop_labels", faults);
  CheckPatterns(series, "keep_labels", faults);
  const int64_t length = series.Int("label_length");
  if (length != 0 && length < static_cast<int64_t>(kShortestLabel)) {
    series.Refuse("label_length", faults,
                  "label_length: 0 or at least " + std::to_string(kShortestLabel) +
                      ": a shorter value cannot hold the hash");
  }
  for (OptionsOf<kTopOptions> top : series.Groups("top")) CheckPatterns(top, "families", faults);
}

Result<SeriesRules> SeriesRules::Make(const Config& target) {
  RETURN_IF_ERROR(RefuseFaults(&SeriesRules::Check, target));
  SeriesRules rules;
  if (!target.Has("series")) return rules;
  const OptionsOf<kSeriesOptions> series = target.Group("series");
  rules.drop = series.Texts("drop_labels");
  rules.keep = series.Texts("keep_labels");
  rules.label_length = static_cast<size_t>(series.Int("label_length"));
  const std::string& gauges = series.Text("gauges");
  if (gauges == "sum") rules.gauges = Gauges::kSum;
  if (gauges == "max") rules.gauges = Gauges::kMax;
  if (gauges == "drop") rules.gauges = Gauges::kDrop;
  for (OptionsOf<kTopOptions> top : series.Groups("top"))
    rules.top.push_back({top.Text("label"), static_cast<uint32_t>(top.Int("keep")), top.Texts("families")});
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

SeriesFold SeriesRules::FoldOf(const ExpositionFamily& family) const noexcept {
  switch (family.type) {
    case ExpositionType::kCounter:
    case ExpositionType::kHistogram:
    case ExpositionType::kSummary: return SeriesFold::kCount;
    case ExpositionType::kGaugeHistogram: return SeriesFold::kSum;
    case ExpositionType::kInfo:
    case ExpositionType::kStateSet: return SeriesFold::kMax;
    case ExpositionType::kUnknown:
      if (CountsByName(family.name)) return SeriesFold::kCount;
      break;
    case ExpositionType::kGauge: break;
  }
  switch (gauges) {
    case Gauges::kSum: return SeriesFold::kSum;
    case Gauges::kMax: return SeriesFold::kMax;
    case Gauges::kDrop: return SeriesFold::kDrop;
    case Gauges::kAuto: break;
  }
  return IsLevel(family.name) || IsLevel(family.unit) ? SeriesFold::kMax : SeriesFold::kSum;
}

void TopValues::Appear(uint32_t series, uint32_t family, std::string_view value, double weight) {
  std::string key(reinterpret_cast<const char*>(&family), sizeof family);
  key += value;
  auto [found, made] = by_key_.try_emplace(std::move(key), kNoValue);
  if (made) {
    if (free_.empty()) {
      found->second = static_cast<uint32_t>(values_.size());
      values_.emplace_back();
    } else {
      found->second = free_.back();
      free_.pop_back();
    }
    // A page's own "other" is never ranked.
    State state = value == kOtherValue ? State::kOther : State::kNew;
    values_[found->second] = {found->first, 0, family, 0, state};
    if (state == State::kNew) new_.push_back(found->second);
  }
  Value& at = values_[found->second];
  if (std::isfinite(weight)) at.weight += weight;
  ++at.series;
  if (of_series_.size() <= series) of_series_.resize(series + 1, kNoValue);
  of_series_[series] = found->second;
}

void TopValues::Vanish(uint32_t series) {
  if (series >= of_series_.size() || of_series_[series] == kNoValue) return;
  uint32_t id = of_series_[series];
  of_series_[series] = kNoValue;
  Value& value = values_[id];
  if (--value.series > 0) return;
  if (value.state == State::kKept && --kept_[value.family] == 0) kept_.erase(value.family);
  std::erase(new_, id);
  by_key_.erase(value.key);
  value = {};
  free_.push_back(id);
}

void TopValues::Rank() {
  if (new_.empty()) return;
  // Ids are in the order of appearance while none was freed.
  std::ranges::sort(new_, [this](uint32_t a, uint32_t b) {
    return std::tie(values_[b].weight, a) < std::tie(values_[a].weight, b);
  });
  for (uint32_t id : new_) {
    uint32_t& taken = kept_[values_[id].family];
    values_[id].state = taken < keep_ ? State::kKept : State::kOther;
    if (taken < keep_) ++taken;
  }
  new_.clear();
}

bool TopValues::Folds(uint32_t series) const noexcept {
  return series < of_series_.size() && of_series_[series] != kNoValue &&
         values_[of_series_[series]].state == State::kOther;
}

size_t TopValues::folded() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(values_, [](const Value& v) { return v.state == State::kOther; }));
}

GovernedLabels::GovernedLabels(const ParsedPage& page, SeriesRules rules)
    : page_(page), rules_(std::move(rules)) {
  for (const SeriesRules::Top& top : rules_.top) tops_.emplace_back(top.keep);
}

void GovernedLabels::Follow() {
  for (size_t i = 0; i < tops_.size(); ++i) {
    const SeriesRules::Top& rule = rules_.top[i];
    for (uint32_t series : page_.vanished()) tops_[i].Vanish(series);
    for (uint32_t series : page_.appeared()) {
      uint32_t family = page_.family_of(series);
      if (!rule.For(page_.families()[family].name)) continue;
      page_.Labels(series, labels_);
      for (const PageLabel& label : labels_) {
        if (label.name != rule.label || label.value.empty()) continue;
        tops_[i].Appear(series, family, label.value, Weight(series));
      }
    }
    tops_[i].Rank();
  }
}

// The weight of a series: its number; of a histogram or summary, its count.
double GovernedLabels::Weight(uint32_t series) {
  page_.Cells(series, cells_);
  double weight = 0;
  for (const PageCell& cell : cells_) {
    if (cell.role == SampleRole::kValue || cell.role == SampleRole::kCount || cell.role == SampleRole::kState)
      weight = page_.values()[cell.slot];
  }
  return weight;
}

bool GovernedLabels::Labels(uint32_t series, std::vector<PageLabel>& out) const {
  page_.Labels(series, out);
  std::erase_if(out, [](const PageLabel& label) { return label.value.empty(); });
  bool changed = false;
  for (size_t i = 0; i < tops_.size(); ++i) {
    if (!tops_[i].Folds(series)) continue;
    for (PageLabel& label : out) {
      if (label.name != rules_.top[i].label || label.value == kOtherValue) continue;
      label.value = kOtherValue;
      changed = true;
    }
  }
  return rules_.Apply(out) || changed;
}

}  // namespace gpulens
