// What a configuration says about the labels and the number of series of a page: pure answers, no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "plugins/config.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens {

// The label value that stands for those which have no series of their own.
inline constexpr std::string_view kOtherValue = "other";

// How series that become equal are made one.
enum class Fold : uint8_t {
  kCount,  // added; what a series had counted stays when it leaves, so that the sum never falls
  kSum,    // added as they are
  kMax,    // the largest
  kDrop,   // not at all: they are left out
};

// Immutable once made; any thread.
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

  // What is wrong with the group "series" of a target's options.
  static void Check(const Config& target, ConfigFaults& faults);
  // Of the group "series" of a target's options. kInvalidArgument: they contradict each other.
  static Result<SeriesRules> Make(const Config& target);

  // Nothing is asked for: series stay as they are.
  bool empty() const noexcept { return drop.empty() && keep.empty() && label_length == 0 && top.empty(); }
  bool Drops(std::string_view label) const noexcept;
  // A value above label_length as its front, "~" and eight digits of a hash that is the same in every run:
  // different long values stay different series. Not above label_length, cut between characters.
  std::string Cut(std::string_view value) const;
  // Drops and cuts in place. Whether anything was.
  bool Apply(std::vector<PageLabel>& labels) const;
  Fold FoldOf(const ExpositionFamily& family) const noexcept;
};

// Whether `name` is the pattern, or begins as one that ends with "*".
bool MatchesPattern(std::string_view pattern, std::string_view name) noexcept;

}  // namespace gpulens
