// The options of a target that bound how many series its page becomes: docs/cardinality.md. Static storage.
#pragma once

#include "plugins/config.h"

namespace gpulens::scraping {

inline constexpr std::string_view kGaugeWays[] = {"auto", "sum", "max", "drop"};

inline constexpr OptionSpec kTopOptions[] = {
    {.key = "label", .help = "The label whose values are ranked in each family.", .required = true},
    {.key = "keep",
     .type = OptionType::kInt,
     .fallback = "20",
     .help = "Number of largest values that keep their own series; the others become \"other\".",
     .min = 1,
     .max = 10'000},
    {.key = "families",
     .type = OptionType::kTexts,
     .help = "Families this applies to; a trailing * matches any text; default: all."},
};

inline constexpr OptionSpec kSeriesOptions[] = {
    {.key = "limit",
     .type = OptionType::kInt,
     .fallback = "0",
     .help = "Series of this target; 0: limits.series_per_target.",
     .min = 0,
     .max = 10'000'000},
    {.key = "drop_labels",
     .type = OptionType::kTexts,
     .help = "Labels to leave out; a trailing * matches any text. Series that become equal are combined."},
    {.key = "keep_labels",
     .type = OptionType::kTexts,
     .help = "Leave out all other labels; default: keep all."},
    {.key = "label_length",
     .type = OptionType::kInt,
     .fallback = "0",
     .help = "Shorten longer label values to a prefix and a hash; bytes, at least 16; 0: no limit.",
     .min = 0,
     .max = 65536},
    {.key = "gauges",
     .fallback = "auto",
     .help = "How gauges are combined; auto: sum of amounts, maximum of ratios, times and temperatures.",
     .allowed = kGaugeWays},
    {.key = "top", .type = OptionType::kGroups, .help = "Labels with many values.", .children = kTopOptions},
};

}  // namespace gpulens::scraping
