// Rules of roll-ups: which series are combined, by which attributes, with which functions, over which time,
// from the option `rollups` of a sink (docs/rollups.md).
//
//   constexpr auto kOptions = JoinOptions(NameOptions("[native]"), RollupsOption());
//   std::vector<RollupRule> rules = RollupRulesOf(config);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "plugins/config.h"

namespace gpulens {

enum class RollupFunction : uint8_t {
  kSum,
  kAvg,
  kMin,
  kMax,
  kCount,
  kLast,
  kIncrease,
  kRate,
  kP50,
  kP90,
  kP99
};
// Names in the configuration and in rolled-up series, by RollupFunction.
inline constexpr std::string_view kRollupFunctionNames[] = {"sum",      "avg",  "min", "max", "count", "last",
                                                            "increase", "rate", "p50", "p90", "p99"};
inline constexpr size_t kRollupFunctions = std::size(kRollupFunctionNames);

// How readings of a series are combined; kNone: not at all (texts, state sets, summaries).
enum class RollupForm : uint8_t { kNone, kReadings, kIncreases, kBuckets };
RollupForm RollupFormOf(const SeriesInfo& series) noexcept;
// Names in the configuration, by RollupForm without kNone.
inline constexpr std::string_view kRollupKindNames[] = {"gauge", "counter", "histogram"};
// Whether the function is defined for series of this form.
bool Applies(RollupFunction function, RollupForm form) noexcept;

// A plain value.
struct RollupRule {
  std::vector<std::string> metrics;       // native names; `*` is any text, `?` one character
  MetricLevel level = MetricLevel::kAll;  // of the sink: only rows up to it
  std::vector<RollupForm> kinds;          // of series; empty: all
  std::vector<std::string> by;            // keys of attributes that stay, with the same wildcards
  std::vector<std::string> without;       // keys of attributes that are removed; used when `by` is empty
  std::vector<RollupFunction> functions;
  std::string name;  // of the result; empty: the native name and the function
  Duration interval = std::chrono::seconds(60);
  bool keep_input = false;
  uint32_t max_groups = 2000;

  bool Matches(const MetricDesc& desc) const noexcept;  // by `metrics` and `level`
  bool Takes(RollupForm form) const noexcept;           // by `kinds`
  // The attributes of the group of a series. Neither `by` nor `without`: none.
  AttributeSet GroupOf(const AttributeSet& series) const;
  // Whether one of the functions is defined for the form.
  bool AppliesTo(RollupForm form) const noexcept;
};

inline constexpr size_t kRollupRulesMax = 32;  // of one sink
inline constexpr OptionSpec kRollupOptions[] = {
    {.key = "metrics",
     .type = OptionType::kTexts,
     .help = "Native names of the series to combine; * matches any text, ? one character.",
     .required = true},
    TextsOption(
        "kinds", {},
        "Only series of these kinds; default: all. gauge includes up-down counters and unknown kinds.",
        kRollupKindNames),
    {.key = "by",
     .type = OptionType::kTexts,
     .help =
         "Attributes that the result keeps; series equal in all of them are combined. [\"*\"] keeps all."},
    TextsOption("without", {}, "Attributes that the result drops, instead of `by`."),
    {.key = "functions",
     .type = OptionType::kTexts,
     .help = "What to compute of each group.",
     .required = true,
     .allowed = kRollupFunctionNames},
    TextOption("name", {}, "Name of the result, for one metric and one function; default: metric.function."),
    TimeOption("interval", "60s", "Time over which readings are combined.", 15, 300),
    BoolOption("keep_input", false, "Send the combined series themselves, too."),
    IntOption("max_groups", "2000", "Maximum number of groups; series of further ones are sent as they are.",
              1, 100000),
};

// The option `rollups` for the table of a push sink.
consteval std::array<OptionSpec, 1> RollupsOption() {
  return {GroupsOption("rollups", "Series to combine over time and attributes before they are sent.",
                       kRollupOptions)};
}

// A ConfigCheck of a sink whose table has RollupsOption: refuses rules that contradict themselves, and an
// interval shorter than the sink's own.
void CheckRollups(const Config& sink, ConfigFaults& faults);
// The rules of a sink; none when its table has no RollupsOption. The configuration passed CheckRollups.
std::vector<RollupRule> RollupRulesOf(const Config& sink);

}  // namespace gpulens
