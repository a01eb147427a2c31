// Series names of one sink: which series, under which names, with which attributes. The options are the same
// for all sinks.
//
//   constexpr auto kOptions = JoinOptions(NameOptions("[native]"), …);
//   SinkNames names(config);
//   TextPage page(format, names.namer(NameForm::kPrometheus));
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "names/naming.h"
#include "plugins/config.h"

namespace gpulens {

// Key of the attributes of every series, of the root and of a sink.
inline constexpr std::string_view kAttributesKey = "attributes";
// Key of the level of metrics, of the root and of a sink.
inline constexpr std::string_view kMetricsKey = "metrics";
inline constexpr std::string_view kMetricLevels[] = {"essential", "standard", "all"};

// `names`: the default names of a sink, as a list in the file.
consteval std::array<OptionSpec, 6> NameOptions(std::string_view names) {
  return {
      TextsOption("names", names,
                  "Names to export; with several, each series is exported under each of them.", kNamingNames),
      TextOption(kMetricsKey, {}, "Level of native metrics; default: `metrics` at the top level.",
                 kMetricLevels),
      TextsOption("include", {}, "Only series with one of these names; * matches any text, ? one character."),
      TextsOption("exclude", {}, "No series with one of these names; overrides include."),
      OptionSpec{.key = "rename",
                 .type = OptionType::kTextMap,
                 .help = "Attributes to rename: {name of the series: name here}.",
                 .map_of = MapOf::kRenames},
      OptionSpec{.key = kAttributesKey,
                 .type = OptionType::kTextMap,
                 .help = "Attributes added to every series, with those of the top level; attributes of "
                         "the series override them.",
                 .map_of = MapOf::kAttributes}};
}

// The level of that name.
std::optional<MetricLevel> FindMetricLevel(std::string_view name) noexcept;

// Time between two exports, of a push sink.
consteval OptionSpec IntervalOption(std::string_view fallback) {
  return TimeOption("interval", fallback, "Time between two exports; 0s: every tick.", 0);
}

// Immutable; thread-safe. A returned SeriesNamer is for one user.
class SinkNames {
 public:
  // `config` has NameOptions.
  explicit SinkNames(const Config& config);
  // Native names at that level, without further options.
  explicit SinkNames(MetricLevel level);

  bool uses(std::string_view name) const;
  bool uses_others() const { return names_.size() > (uses(kNativeNaming) ? 1u : 0u); }
  MetricLevel level() const noexcept { return level_; }
  // `more` adds further names; null: none.
  SeriesNamer namer(NameForm form, const SeriesNamer::NameFunction& more = {}) const;
  // The same selection and attributes, for native names.
  AttributeFilter attribute_filter() const;
  // Families that pages with these names have even without a sample.
  std::vector<NamedSeries> always_shown() const;

 private:
  struct Choice {
    std::vector<std::string> include, exclude;
    std::map<std::string, std::string> rename, attributes;

    bool Selects(std::string_view native, std::string_view exported) const;
    void AddAttributes(NameForm form, NamedSeries& series) const;
    AttributeSet WithAttributes(const AttributeSet& own) const;
    bool trivial() const {
      return include.empty() && exclude.empty() && rename.empty() && attributes.empty();
    }
  };

  std::vector<std::string> names_;
  MetricLevel level_;
  Choice choice_;
};

}  // namespace gpulens
