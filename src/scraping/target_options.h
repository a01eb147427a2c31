// The options of whatever reads a page: where it is, how to get in, and what it may cost. Static storage.
#pragma once

#include <array>
#include <cstddef>

#include "pipeline/config.h"
#include "pipeline/remote/remote_options.h"
#include "scraping/governor/series_options.h"

namespace gpulens::scraping {

// How to get in and what a page may cost.
inline constexpr auto kAccessOptions = JoinOptions(
    kRemoteOptions, std::to_array<OptionSpec>({
                        {.key = "max_body",
                         .type = OptionType::kSize,
                         .fallback = "64MiB",
                         .help = "The largest page in bytes, compressed or not.",
                         .min = 1024,
                         .max = 1 << 30},
                        {.key = "max_samples",
                         .type = OptionType::kInt,
                         .fallback = "100000",
                         .help = "Samples of one page; the scrape of a larger page fails.",
                         .min = 1,
                         .max = 10'000'000},
                        {.key = "honor_timestamps",
                         .type = OptionType::kBool,
                         .fallback = "true",
                         .help = "Use the timestamps on the page; otherwise the time of the scrape."},
                        {.key = "attributes",
                         .type = OptionType::kTextMap,
                         .help = "More attributes of its series.",
                         .map_of = MapOf::kAttributes},
                    }));

// When to ask; a collector without targets has these from the house.
inline constexpr auto kTimeOptions = std::to_array<OptionSpec>({
    {.key = "interval", .type = OptionType::kTime, .fallback = "15s", .help = "Between scrapes.", .min = 0.1},
    {.key = "ttl",
     .type = OptionType::kTime,
     .help = "How long values of an unreachable target are exported; default: two intervals."},
});

// One element of a list of targets.
inline constexpr auto kTargetOptions = JoinOptions(
    JoinOptions(std::to_array<OptionSpec>({
                    {.key = "name", .help = "The target attribute of its series.", .required = true},
                    {.key = "url",
                     .type = OptionType::kUrl,
                     .help = "URL of its page; without a path, /metrics is added.",
                     .required = true},
                }),
                kTimeOptions),
    kAccessOptions);

// The same of a target whose labels and series are its own affair.
inline constexpr auto kGovernedTargetOptions = JoinOptions(kTargetOptions, kGovernorOptions);

}  // namespace gpulens::scraping
