// How one sink tells series: in which dialects, which of them, with what attributes. One place for all sinks,
// so that each has the same options with the same meaning.
//
//   constexpr auto kOptions = JoinOptions(NameOptions("[native]"), …);
//   SinkNames names(config);
//   TextPage page(format, names.speller(NameForm::kPrometheus));
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/dialect.h"
#include "pipeline/config.h"

namespace gpulens {

// The key under which the configuration has attributes of every series, of the root and of a sink.
inline constexpr std::string_view kAttributesKey = "attributes";

// `dialects`: those that a sink tells by default, as a list in the file.
consteval std::array<OptionSpec, 5> NameOptions(std::string_view dialects) {
  return {
      OptionSpec{.key = "dialects",
                 .type = OptionType::kTexts,
                 .fallback = dialects,
                 .help = "Under which names series are told.",
                 .allowed = kDialectNames},
      OptionSpec{.key = "include",
                 .type = OptionType::kTexts,
                 .help = "Only series with one of these names; * stands for any text, ? for one character."},
      OptionSpec{.key = "exclude",
                 .type = OptionType::kTexts,
                 .help = "No series with one of these names; stronger than include."},
      OptionSpec{.key = "rename",
                 .type = OptionType::kTextMap,
                 .help = "Attributes that have another name here: {theirs: ours}, as series have them.",
                 .map_of = MapOf::kRenames},
      OptionSpec{.key = kAttributesKey,
                 .type = OptionType::kTextMap,
                 .help = "Attributes of every series, beside those of the root; a series' own win.",
                 .map_of = MapOf::kAttributes}};
}

// How often a sink is given the latest: for those that are given it.
consteval OptionSpec IntervalOption(std::string_view fallback) {
  return {.key = "interval",
          .type = OptionType::kTime,
          .fallback = fallback,
          .help = "Between one time and the next; 0s: every tick.",
          .min = 0};
}

// Immutable; safe to share. What it gives is for one user, as Speller says.
class SinkNames {
 public:
  // Of a config with NameOptions.
  explicit SinkNames(const Config& config);

  const std::vector<std::string>& dialects() const noexcept { return dialects_; }
  bool tells(std::string_view dialect) const;
  // `more` adds spellings of its own to those of the dialects; null: none.
  Speller speller(NameForm form, const Speller::SpellOne& more = {}) const;
  // The same choice and attributes for native names as they are.
  Dresser dresser() const;
  // Families that pages of these dialects show even without a sample.
  std::vector<SpelledSeries> always_shown() const;

 private:
  struct Choice {
    std::vector<std::string> include, exclude;
    std::map<std::string, std::string> rename, attributes;

    bool Takes(std::string_view native, std::string_view told) const;
    void Dress(NameForm form, SpelledSeries& series) const;
    AttributeSet Dressed(const AttributeSet& own) const;
    bool trivial() const {
      return include.empty() && exclude.empty() && rename.empty() && attributes.empty();
    }
  };

  std::vector<std::string> dialects_;
  Choice choice_;
};

}  // namespace gpulens
