// The rules of a target that bound its labels and series (docs/cardinality.md), and their application to a
// page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "plugins/config.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// The label value of series that lost their own by rank.
inline constexpr std::string_view kOtherValue = "other";

// How series that become equal are combined.
enum class SeriesFold : uint8_t {
  kCount,  // added; the count of a series that leaves is kept, so that the sum never falls
  kSum,    // added
  kMax,    // the largest
  kDrop,   // not combined: they are left out
};

// Limits of how many series a page becomes: docs/cardinality.md.
inline constexpr std::string_view kGaugeRules[] = {"auto", "sum", "max", "drop"};
inline constexpr OptionSpec kTopOptions[] = {
    {.key = "label", .help = "The label whose values are ranked in each family.", .required = true},
    IntOption("keep", "20",
              "Number of largest values that keep their own series; the others become \"other\".", 1, 10'000),
    TextsOption("families", {}, "Families this applies to; a trailing * matches any text; default: all."),
};

inline constexpr OptionSpec kSeriesOptions[] = {
    IntOption("limit", "0", "Series of this target; 0: limits.series_per_target.", 0, 10'000'000),
    TextsOption("drop_labels", {},
                "Labels to leave out; a trailing * matches any text. Series that become equal are combined."),
    TextsOption("keep_labels", {}, "Leave out all other labels; default: keep all."),
    IntOption("label_length", "0",
              "Shorten longer label values to a prefix and a hash; bytes, at least 16; 0: no limit.", 0,
              65536),
    TextOption("gauges", "auto",
               "How gauges are combined; auto: sum of amounts, maximum of ratios, times and temperatures.",
               kGaugeRules),
    {.key = "top", .type = OptionType::kGroups, .help = "Labels with many values.", .children = kTopOptions},
};

// Immutable; any thread.
struct SeriesRules {
  enum class Gauges : uint8_t { kAuto, kSum, kMax, kDrop };
  struct Top {
    std::string label;
    uint32_t keep = 20;
    std::vector<std::string> families;  // patterns; empty: all

    bool For(std::string_view family) const noexcept;
  };
  static constexpr size_t kShortestLabel = 16;

  std::vector<std::string> drop, keep;  // patterns of label names; an empty `keep` keeps all
  size_t label_length = 0;              // in bytes; 0: any
  Gauges gauges = Gauges::kAuto;
  std::vector<Top> top;

  // Reports faults of the group "series" of a target's options.
  static void Check(const Config& target, ConfigFaults& faults);
  // Reads that group. kInvalidArgument: its options contradict each other.
  static Result<SeriesRules> Make(const Config& target);

  // No rule: series stay as they are.
  bool empty() const noexcept { return drop.empty() && keep.empty() && label_length == 0 && top.empty(); }
  bool Drops(std::string_view label) const noexcept;
  // Shortens a value to label_length bytes at most: its front, cut between characters, "~" and eight digits
  // of a hash that is the same in every run, so that different values stay different.
  std::string Cut(std::string_view value) const;
  // Drops and cuts in place; true if anything changed.
  bool Apply(std::vector<PageLabel>& labels) const;
  SeriesFold FoldOf(const ExpositionFamily& family) const noexcept;
};

// Whether `name` equals the pattern, or begins with one that ends with "*".
bool MatchesPattern(std::string_view pattern, std::string_view name) noexcept;

// Why a series of a page is not exported.
enum class SeriesDrop : uint8_t {
  kLimit,        // the limit of the target or of the agent is reached
  kDuplicate,    // the page has it twice, or another series has the same name
  kInvalid,      // an invalid name, or not a number
  kNotCombined,  // equal to another one, but cannot be combined: a gauge by configuration, no bucket in
                 // common
};
inline constexpr size_t kSeriesDrops = 4;

constexpr std::string_view SeriesDropName(SeriesDrop drop) noexcept {
  constexpr std::string_view kNames[kSeriesDrops] = {"limit", "duplicate", "invalid", "not_combined"};
  return kNames[static_cast<size_t>(drop)];
}

// How many series of a page are not exported as they are.
struct SeriesDrops {
  size_t folded = 0;  // combined into another one
  bool folds = false;
  std::array<size_t, kSeriesDrops> dropped{};

  size_t& operator[](SeriesDrop drop) noexcept { return dropped[static_cast<size_t>(drop)]; }
};

// Selects which values of one label keep series of their own, at most `keep` in each family. Report series as
// they appear and vanish; Rank gives free places to the largest of the new values. A decision holds while a
// series of the value lives, since a later change would make a counter jump; the last one's end frees the
// place. Not thread-safe.
class TopValues {
 public:
  explicit TopValues(uint32_t keep) noexcept : keep_(keep) {}

  // `weight`: the series' number; NaN counts as 0. Of equal ones the first to appear wins.
  void Appear(uint32_t series, uint32_t family, std::string_view value, double weight);
  void Vanish(uint32_t series);
  void Rank();
  // Whether the value of this series, if it has one, becomes "other".
  bool Folds(uint32_t series) const noexcept;
  // Values of living series that have no place.
  size_t folded() const noexcept;

 private:
  enum class State : uint8_t { kFree, kNew, kKept, kOther };
  struct Value {
    std::string key;  // family and text
    double weight = 0;
    uint32_t family = 0, series = 0;
    State state = State::kFree;
  };

  const uint32_t keep_;
  std::vector<Value> values_;
  std::vector<uint32_t> free_, new_;
  std::unordered_map<std::string, uint32_t> by_key_;
  std::unordered_map<uint32_t, uint32_t> kept_;  // by family: places taken
  std::vector<uint32_t> of_series_;              // by series id
};

// The labels of a page's series after the rules of its target: call Follow whenever the page's generation
// changed, and Labels in place of page.Labels. Different series may then have equal labels; SeriesGroups
// combines them. Not thread-safe.
class GovernedLabels {
 public:
  GovernedLabels(const ParsedPage& page, SeriesRules rules);

  bool active() const noexcept { return !rules_.empty(); }
  const SeriesRules& rules() const noexcept { return rules_; }
  // After each Update with another generation. Ranks values by the page's present numbers.
  void Follow();
  // The labels of a living series, without empty ones. Returns whether they differ from the page's.
  bool Labels(uint32_t series, std::vector<PageLabel>& out) const;

 private:
  double Weight(uint32_t series);

  const ParsedPage& page_;
  const SeriesRules rules_;
  std::vector<TopValues> tops_;  // by index of rules_.top
  std::vector<PageLabel> labels_;
  std::vector<PageCell> cells_;
};

}  // namespace gpulens
