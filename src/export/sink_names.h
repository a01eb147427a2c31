// How one sink names series: under whose names, which of them, with what attributes. One place for all sinks,
// so that each has the same options with the same meaning.
//
//   constexpr auto kOptions = JoinOptions(NameOptions("[native]"), …);
//   SinkNames names(config);
//   TextPage page(format, names.speller(NameForm::kPrometheus));
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

// The key under which the configuration has attributes of every series, of the root and of a sink.
inline constexpr std::string_view kAttributesKey = "attributes";
// The key of the level of metrics, of the root and of a sink.
inline constexpr std::string_view kMetricsKey = "metrics";
inline constexpr std::string_view kMetricLevels[] = {"essential", "standard", "all"};

// `names`: those that a sink uses by default, as a list in the file.
consteval std::array<OptionSpec, 6> NameOptions(std::string_view names) {
  return {OptionSpec{.key = "names",
                     .type = OptionType::kTexts,
                     .fallback = names,
                     .help = "Names to export; with several, each series is exported under each of them.",
                     .allowed = kNamingNames},
          OptionSpec{.key = kMetricsKey,
                     .fallback = {},
                     .help = "Level of native metrics; default: `metrics` at the top level.",
                     .allowed = kMetricLevels},
          OptionSpec{.key = "include",
                     .type = OptionType::kTexts,
                     .help = "Only series with one of these names; * matches any text, ? one character."},
          OptionSpec{.key = "exclude",
                     .type = OptionType::kTexts,
                     .help = "No series with one of these names; overrides include."},
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

// The level of that name; nothing for another word.
std::optional<MetricLevel> FindMetricLevel(std::string_view name) noexcept;

// How often a sink is given the latest: for those that are given it.
consteval OptionSpec IntervalOption(std::string_view fallback) {
  return {.key = "interval",
          .type = OptionType::kTime,
          .fallback = fallback,
          .help = "Time between two exports; 0s: every tick.",
          .min = 0};
}

// Immutable; safe to share. What it gives is for one user, as SeriesNamer says.
class SinkNames {
 public:
  // Of a config with NameOptions.
  explicit SinkNames(const Config& config);
  // The native names alone, at that level, as they are.
  explicit SinkNames(MetricLevel level);

  bool uses(std::string_view name) const;
  bool uses_others() const { return names_.size() > (uses(kNativeNaming) ? 1u : 0u); }
  MetricLevel level() const noexcept { return level_; }
  // `more` adds spellings of its own; null: none.
  SeriesNamer namer(NameForm form, const SeriesNamer::NameFunction& more = {}) const;
  // The same choice and attributes for native names as they are.
  AttributeFilter attribute_filter() const;
  // Families that pages with these names show even without a sample.
  std::vector<NamedSeries> always_shown() const;

 private:
  struct Choice {
    std::vector<std::string> include, exclude;
    std::map<std::string, std::string> rename, attributes;

    bool Takes(std::string_view native, std::string_view told) const;
    void Dress(NameForm form, NamedSeries& series) const;
    AttributeSet Dressed(const AttributeSet& own) const;
    bool trivial() const {
      return include.empty() && exclude.empty() && rename.empty() && attributes.empty();
    }
  };

  std::vector<std::string> names_;
  MetricLevel level_;
  Choice choice_;
};

}  // namespace gpulens
