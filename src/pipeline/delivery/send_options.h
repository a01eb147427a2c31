// The options that every network sink has for what waits and how it is sent. Static storage.
#pragma once

#include <array>
#include <string_view>

#include "pipeline/config.h"
#include "pipeline/remote/remote_options.h"

namespace gpulens {

inline constexpr std::string_view kQueueStorages[] = {"disk", "memory"};
inline constexpr std::string_view kQueueSyncs[] = {"none", "interval", "always"};
inline constexpr std::string_view kBalances[] = {"failover", "hash"};

inline constexpr std::string_view kRetriedStatuses[] = {
    "401", "403", "404", "408", "409", "425", "500", "501", "505", "507", "520", "521", "522", "523", "524"};

inline constexpr OptionSpec kQueueOptions[] = {
    {.key = "storage",
     .fallback = "disk",
     .help = "Where what is not delivered yet waits; in memory it ends with the agent, and may be an eighth "
             "as much.",
     .allowed = kQueueStorages},
    {.key = "dir", .help = "Its folder; default: queue/ and the sink's name in the state folder."},
    {.key = "max_bytes",
     .type = OptionType::kSize,
     .fallback = "256MiB",
     .help = "How much may wait; then the oldest is dropped and counted.",
     .min = 8 << 20},
    {.key = "max_age",
     .type = OptionType::kTime,
     .fallback = "0s",
     .help = "What waited longer is dropped and counted; 0s: nothing is.",
     .min = 0},
    {.key = "fsync",
     .fallback = "interval",
     .help = "When it is forced to the disk.",
     .allowed = kQueueSyncs},
};

inline constexpr OptionSpec kRetryOptions[] = {
    {.key = "initial",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "The longest first wait.",
     .min = 0.01},
    {.key = "max",
     .type = OptionType::kTime,
     .fallback = "60s",
     .help = "The longest wait of all.",
     .min = 0.01},
    {.key = "statuses",
     .type = OptionType::kTexts,
     .help = "Further HTTP statuses after which a request is sent again; 429, 502, 503 and 504 are always.",
     .allowed = kRetriedStatuses},
};

// Those of every network sink.
inline constexpr auto kSendOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "sources",
         .type = OptionType::kTexts,
         .fallback = R"(["own", "otlp", "remote_write"])",
         .help = "Whose data it sends: the agent's own, and that of receivers by their names."},
        {.key = "endpoints", .type = OptionType::kTexts, .help = "Several receivers instead of one."},
        {.key = "balance",
         .fallback = "failover",
         .help = "Of several receivers: the first that works, or for each resource its own (hash).",
         .allowed = kBalances},
        {.key = "in_flight",
         .type = OptionType::kInt,
         .fallback = "1",
         .help = "Requests at a time for each receiver; those of one series stay in order.",
         .min = 1,
         .max = 32},
        {.key = "timeout",
         .type = OptionType::kTime,
         .fallback = "10s",
         .help = "Of one request.",
         .min = 0.01},
        {.key = "queue",
         .type = OptionType::kGroup,
         .help = "What waits for delivery.",
         .children = kQueueOptions},
        {.key = "retry", .type = OptionType::kGroup, .help = "After a failure.", .children = kRetryOptions},
    }),
    kRemoteOptions);

}  // namespace gpulens
