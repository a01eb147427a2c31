// A schema as the agent would make it, of plugins that exist only here.
#pragma once

#include <chrono>

#include "config/loader.h"
#include "config/schema.h"

namespace gpulens::testing {

inline constexpr OptionSpec kNvidia[] = {
    {.key = "library", .fallback = "libnvidia-ml.so.1", .help = "The library to open"},
    {.key = "processes", .type = OptionType::kBool, .fallback = "true", .help = "Read the list of processes"},
};
inline constexpr OptionSpec kHost[] = {{.key = "root", .fallback = "/", .help = "Where /proc is found"}};
inline constexpr OptionSpec kTarget[] = {
    {.key = "name", .fallback = {}, .help = "Name of the target"},
    {.key = "url", .type = OptionType::kUrl, .fallback = {}, .help = "The page", .required = true},
    {.key = "interval", .type = OptionType::kTime, .fallback = "15s", .help = "How often", .min = 0.1},
    {.key = "password", .fallback = {}, .help = "Basic auth"},
    {.key = "headers", .type = OptionType::kTextMap, .fallback = {}, .help = "Sent with it"},
};
inline constexpr OptionSpec kPort[] = {
    {.key = "port",
     .type = OptionType::kInt,
     .fallback = {},
     .help = "Its number",
     .required = true,
     .min = 1},
};
inline constexpr OptionSpec kScrape[] = {
    {.key = "targets",
     .type = OptionType::kGroups,
     .fallback = {},
     .help = "Pages to read",
     .children = kTarget},
    {.key = "share", .type = OptionType::kDouble, .fallback = "0.5", .help = "A share", .min = 0, .max = 1},
    {.key = "retries", .type = OptionType::kInt, .fallback = {}, .help = "Again so often", .max = 9},
    {.key = "ports",
     .type = OptionType::kGroups,
     .fallback = "[{port: 8000}, {port: 8002}]",
     .help = "Looked at",
     .children = kPort},
};
inline constexpr std::string_view kNamings[] = {"native", "zernel", "dcgm"};
inline constexpr OptionSpec kPrometheus[] = {
    {.key = "names",
     .type = OptionType::kTexts,
     .fallback = "[native, zernel]",
     .help = "Names",
     .allowed = kNamings},
};
inline constexpr OptionSpec kQueue[] = {
    {.key = "dir", .fallback = {}, .help = "Folder"},
    {.key = "max_bytes", .type = OptionType::kSize, .fallback = "256MiB", .help = "Most", .max = 1e12},
};
inline constexpr std::string_view kProtocols[] = {"http/protobuf", "http/json", "grpc"};
inline constexpr OptionSpec kOtlp[] = {
    {.key = "endpoint", .type = OptionType::kUrl, .fallback = {}, .help = "Where to", .required = true},
    {.key = "protocol", .fallback = "http/protobuf", .help = "How", .allowed = kProtocols},
    {.key = "interval", .type = OptionType::kTime, .fallback = "60s", .help = "How often", .min = 1},
    {.key = "queue",
     .type = OptionType::kGroup,
     .fallback = "{dir: spool}",
     .help = "On disk",
     .children = kQueue},
    {.key = "token", .fallback = {}, .help = "Bearer token"},
    {.key = "headers", .type = OptionType::kTextMap, .fallback = {}, .help = "Sent with it"},
    {.key = "batch",
     .type = OptionType::kInt,
     .fallback = {},
     .help = "Points a request",
     .required = true,
     .min = 1},
};
inline void CheckOtlp(const Config& config, ConfigFaults& faults) {
  if (!config.Text("token").empty() && config.TextMap("headers").contains("Authorization"))
    faults.Refuse(config, "token", "token and headers.Authorization contradict each other", "leave one out");
}
inline constexpr OptionSpec kWindow[] = {{.key = "window",
                                          .type = OptionType::kTime,
                                          .fallback = "5m",
                                          .help = "Seen at once",
                                          .min = 1,
                                          .max = 86400}};

inline constexpr PluginSchema kPlugins[] = {
    {"collectors", "host", "The machine", kHost, true, std::chrono::seconds(1), std::chrono::seconds(10)},
    {"collectors", "nvidia", "GPUs by NVML", kNvidia, true, std::chrono::seconds(1),
     std::chrono::seconds(10)},
    {"collectors", "scrape", "Pages of others", kScrape, true, std::chrono::seconds(15),
     std::chrono::minutes(1)},
    {"analyzers", "fleet_health", "Sick GPUs", kWindow, true, {}, {}},
    {"sinks", "prometheus", "/metrics", kPrometheus, true, {}, {}},
    {"sinks", "otlp", "OpenTelemetry", kOtlp, false, {}, {}, &CheckOtlp, true},
};

inline const Schema& TestSchema() {
  static const Schema schema(kPlugins);
  return schema;
}

inline LoadOutcome LoadText(std::string text, std::vector<EnvironmentVariable> environment = {},
                            std::vector<FlagValue> flags = {}) {
  ConfigSources sources;
  sources.file_name = "gpulens.yaml";
  sources.file_text = std::move(text);
  sources.environment = std::move(environment);
  sources.flags = std::move(flags);
  sources.inspect_file = nullptr;
  sources.inspect_folder = nullptr;
  sources.expand = true;
  sources.read = nullptr;
  return Load(TestSchema(), sources);
}

}  // namespace gpulens::testing
