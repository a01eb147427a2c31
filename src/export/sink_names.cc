#include "export/sink_names.h"

#include <algorithm>

#include "base/text.h"
#include "catalog/exported_name.h"

namespace gpulens {
namespace {

// The key in this form of page.
std::string KeyIn(NameForm form, const std::string& key) {
  if (form == NameForm::kOtel) return key;
  std::string label;
  AppendPrometheusLabel(label, key);
  return label;
}

bool Has(const NamedSeries& series, std::string_view key) {
  return std::ranges::any_of(series.labels, [&](const auto& label) { return label.first == key; });
}

bool AnyMatches(const std::vector<std::string>& patterns, std::string_view native,
                std::string_view exported) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return MatchesStars(pattern, exported, '?') || MatchesStars(pattern, native, '?');
  });
}

AttributeSet ShownAt(MetricLevel level, const MetricDesc& desc, const AttributeSet& own) {
  std::vector<AttributeSet::Attribute> shown;
  for (const AttributeSet::Attribute attribute : own) {
    if (ShowsAttribute(desc, attribute.key, level)) shown.push_back(attribute);
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(shown));
}

}  // namespace

bool SinkNames::Choice::Selects(std::string_view native, std::string_view exported) const {
  if (AnyMatches(exclude, native, exported)) return false;
  return include.empty() || AnyMatches(include, native, exported);
}

// Renames attributes. A rename to the name of another attribute is ignored.
void SinkNames::Choice::AddAttributes(NameForm form, NamedSeries& series) const {
  for (const auto& [from, to] : rename) {
    const std::string old_key = KeyIn(form, from), new_key = KeyIn(form, to);
    if (Has(series, new_key)) continue;
    for (auto& [key, value] : series.labels) {
      if (key == old_key || key == from) key = new_key;
    }
  }
  for (const auto& [key, value] : attributes) {
    std::string own = KeyIn(form, key);
    if (!Has(series, own)) series.labels.emplace_back(std::move(own), value);
  }
}

AttributeSet SinkNames::Choice::WithAttributes(const AttributeSet& own) const {
  // Later rules win.
  std::vector<AttributeSet::Attribute> combined;
  for (const auto& [key, value] : attributes) combined.push_back({key, std::string_view(value)});
  for (AttributeSet::Attribute attribute : own) {
    auto renamed = rename.find(std::string(attribute.key));
    if (renamed != rename.end() && !own.Has(renamed->second)) attribute.key = renamed->second;
    combined.push_back(attribute);
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(combined));
}

SinkNames::SinkNames(const Config& config)
    : names_(config.Texts("names")),
      // The configuration of a single sink may lack the level.
      level_(FindMetricLevel(config.Text(kMetricsKey)).value_or(MetricLevel::kStandard)),
      choice_{config.Texts("include"), config.Texts("exclude"), config.TextMap("rename"),
              config.TextMap(kAttributesKey)} {}

SinkNames::SinkNames(MetricLevel level) : names_{std::string(kNativeNaming)}, level_(level) {}

std::optional<MetricLevel> FindMetricLevel(std::string_view name) noexcept {
  for (MetricLevel level : {MetricLevel::kEssential, MetricLevel::kStandard, MetricLevel::kAll}) {
    if (name == MetricLevelName(level)) return level;
  }
  return std::nullopt;
}

bool SinkNames::uses(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

SeriesNamer SinkNames::namer(NameForm form, const SeriesNamer::NameFunction& more) const {
  SeriesNamer plain = MakeSeriesNamer(names_, form, level_);
  if (more) {
    plain = {[plain, more](const SeriesInfo& series, std::vector<NamedSeries>& out) {
               plain(series, out);
               more(series, out);
             },
             [plain](const Snapshot& snapshot) { return plain.Refresh(snapshot); }};
  }
  if (choice_.trivial()) return plain;
  auto make_names = [plain, choice = choice_, form](const SeriesInfo& series, std::vector<NamedSeries>& out) {
    const auto before = static_cast<std::ptrdiff_t>(out.size());
    plain(series, out);
    auto left = std::remove_if(out.begin() + before, out.end(), [&](const NamedSeries& exported) {
      return !choice.Selects(series.desc->name, exported.name);
    });
    out.erase(left, out.end());
    for (auto exported = out.begin() + before; exported != out.end(); ++exported)
      choice.AddAttributes(form, *exported);
  };
  return {make_names, [plain](const Snapshot& snapshot) { return plain.Refresh(snapshot); }};
}

AttributeFilter SinkNames::attribute_filter() const {
  if (choice_.trivial() && level_ == MetricLevel::kAll) return {};
  return [choice = choice_, level = level_](const SeriesInfo& series, AttributeSet& attributes) {
    if (!choice.Selects(series.desc->name, series.desc->name)) return false;
    if (level != MetricLevel::kAll) attributes = ShownAt(level, *series.desc, attributes);
    if (!choice.trivial()) attributes = choice.WithAttributes(attributes);
    return true;
  };
}

std::vector<NamedSeries> SinkNames::always_shown() const {
  std::vector<NamedSeries> families = AlwaysShown(names_);
  std::erase_if(families,
                [&](const NamedSeries& exported) { return !choice_.Selects(exported.name, exported.name); });
  return families;
}

}  // namespace gpulens
