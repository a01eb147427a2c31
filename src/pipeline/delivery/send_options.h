// The options that every network sink has for what waits and how it is sent. Static storage.
#pragma once

#include <array>
#include <string_view>

#include "plugins/config.h"
#include "plugins/remote_options.h"

namespace gpulens {

inline constexpr std::string_view kQueueStorages[] = {"disk", "memory"};
inline constexpr std::string_view kQueueSyncs[] = {"none", "interval", "always"};
inline constexpr std::string_view kBalances[] = {"failover", "hash"};

inline constexpr std::string_view kRetriedStatuses[] = {
    "401", "403", "404", "408", "409", "425", "500", "501", "505", "507", "520", "521", "522", "523", "524"};

inline constexpr OptionSpec kQueueOptions[] = {
    {.key = "storage",
     .fallback = "disk",
     .help =
         "Where undelivered data waits. Memory holds an eighth as much, and loses it when the agent ends.",
     .allowed = kQueueStorages},
    {.key = "dir", .help = "Folder of the queue; default: queue/ and the sink's name in the state folder."},
    {.key = "max_bytes",
     .type = OptionType::kSize,
     .fallback = "256MiB",
     .help = "Size of the queue; then the oldest data is dropped and counted.",
     .min = 8 << 20},
    {.key = "max_age",
     .type = OptionType::kTime,
     .fallback = "0s",
     .help = "Drop and count older data; 0s: never.",
     .min = 0},
    {.key = "fsync",
     .fallback = "interval",
     .help = "When the queue is synced to disk.",
     .allowed = kQueueSyncs},
};

inline constexpr OptionSpec kRetryOptions[] = {
    {.key = "initial",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "The longest wait before the first retry.",
     .min = 0.01},
    {.key = "max",
     .type = OptionType::kTime,
     .fallback = "60s",
     .help = "The longest wait before any retry.",
     .min = 0.01},
    {.key = "statuses",
     .type = OptionType::kTexts,
     .help = "Further HTTP statuses to retry, in addition to 429, 502, 503 and 504.",
     .allowed = kRetriedStatuses},
};

// Those of every network sink.
inline constexpr auto kSendOptions = JoinOptions(
    std::to_array<OptionSpec>({
        {.key = "sources",
         .type = OptionType::kTexts,
         .fallback = R"(["own", "otlp", "remote_write"])",
         .help = "Data to send: `own`, and receivers by name."},
        {.key = "endpoints", .type = OptionType::kTexts, .help = "Several receivers instead of one."},
        {.key = "balance",
         .fallback = "failover",
         .help = "With several receivers: the first that works, or one for each resource (hash).",
         .allowed = kBalances},
        {.key = "in_flight",
         .type = OptionType::kInt,
         .fallback = "1",
         .help = "Concurrent requests for each receiver; each series stays in order.",
         .min = 1,
         .max = 32},
        {.key = "queue",
         .type = OptionType::kGroup,
         .help = "The queue of undelivered data.",
         .children = kQueueOptions},
        {.key = "retry",
         .type = OptionType::kGroup,
         .help = "Retries after a failure.",
         .children = kRetryOptions},
    }),
    kRemoteOptions);

}  // namespace gpulens
