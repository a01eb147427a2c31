// What receivers that have an intake share of their configuration.
#pragma once

#include <string_view>
#include <vector>

#include "ingest/otlp_intake.h"
#include "ingest/receiver_http.h"
#include "plugins/config.h"
#include "plugins/receiver.h"

namespace gpulens {

inline constexpr OptionSpec kIntakeBatch[] = {
    {.key = "items",
     .type = OptionType::kInt,
     .fallback = "1000",
     .help = "Most points, records or spans in one request to the sinks.",
     .min = 1,
     .max = 1'000'000},
    {.key = "wait",
     .type = OptionType::kTime,
     .fallback = "0s",
     .help = "How long a request and its answer may wait for others to be batched with it.",
     .min = 0,
     .max = 10},
};

inline constexpr OptionSpec kIntakeMemory[] = {
    {.key = "limit",
     .type = OptionType::kDouble,
     .fallback = "0.8",
     .help = "The share of limits.memory that the agent may use.",
     .min = 0,
     .max = 1},
    {.key = "spike",
     .type = OptionType::kDouble,
     .fallback = "0.25",
     .help = "The share of it that is kept free for bursts; senders must retry later before it is used.",
     .min = 0,
     .max = 1},
};

inline constexpr std::array<OptionSpec, 6> kIntakeOptions = {{
    {.key = "insecure",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Accept other machines without TLS and passwords; for closed networks."},
    {.key = "max_request",
     .type = OptionType::kSize,
     .fallback = "16MiB",
     .help = "The largest request, compressed and uncompressed.",
     .min = 1024,
     .max = 64 << 20},
    {.key = "max_connections",
     .type = OptionType::kInt,
     .fallback = "512",
     .help = "Most open connections; more are refused and counted.",
     .min = 1,
     .max = 65536},
    {.key = "drop",
     .type = OptionType::kTexts,
     .fallback = R"(["go_*", "python_*", "*_created"])",
     .help = "Metrics to leave out and count; * matches any text."},
    {.key = "batch",
     .type = OptionType::kGroup,
     .help = "How requests are merged and split.",
     .children = kIntakeBatch},
    {.key = "memory_limiter",
     .type = OptionType::kGroup,
     .help = "When senders must retry later.",
     .children = kIntakeMemory},
}};

// `config` is of a receiver that has kIntakeOptions. `ways` are static.
OtlpIntake::Options ReadIntakeOptions(const Config& config, const ReceiverContext& context,
                                      std::vector<std::string_view> ways);
// The same for its HTTP side, whose addresses are `http.listen`.
ReceiverHttp::Options ReadHttpOptions(std::string_view receiver, const Config& config,
                                      const ReceiverContext& context);

}  // namespace gpulens
