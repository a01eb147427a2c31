// The group `otlp` of the file of `gpulens proxy`: where gen_ai metrics and spans are sent, and what they
// are.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/received_otlp.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/config.h"
#include "plugins/remote_access.h"
#include "proxy/genai_telemetry.h"

namespace gpulens {

inline constexpr std::string_view kProxyOtlpProtocols[] = {"http/protobuf", "grpc"};
inline constexpr std::string_view kProxyOtlpSignals[] = {"metrics", "traces"};
inline constexpr std::string_view kProxyOtlpNames[] = {"otel_genai", "otel_genai_2026"};

// Its keys.
inline constexpr auto kProxyOtlpOptions = JoinOptions(
    std::to_array<OptionSpec>({
        UrlOption("endpoint", {},
                  "URL of an OTLP receiver, such as the agent's; /v1/metrics and /v1/traces are put behind "
                  "it. Without "
                  "it nothing is sent"),
        TextOption("protocol", "http/protobuf", "The protocol", kProxyOtlpProtocols),
        TextOption("compression", "gzip", "Compression of request bodies; with grpc gzip or none",
                   kOtlpPackings),
        {.key = "signals",
         .type = OptionType::kTexts,
         .fallback = R"(["metrics", "traces"])",
         .help = "What is sent",
         .allowed = kProxyOtlpSignals},
        {.key = "names",
         .type = OptionType::kTexts,
         .fallback = R"(["otel_genai", "otel_genai_2026"])",
         .help = "Versions of OpenTelemetry's gen_ai conventions: 1.37, and those of 2026",
         .allowed = kProxyOtlpNames},
        NumberOption("sample", OptionType::kDouble, "0",
                     "Part of the requests that begin a trace, of those whose client sends no traceparent", 0,
                     1),
        TimeOption("interval", "10s", "Between two exports of metrics", 1, 3600),
        IntOption("max_series", "2000", "Of each metric; what exceeds them is one series", 10, 1e6),
        SizeOption("queue_bytes", "16MiB", "Of each signal in memory; then the oldest is dropped and counted",
                   1 << 20),
        TextOption("service_name", "gpulens-proxy", "service.name"),
        {.key = "attributes",
         .type = OptionType::kTextMap,
         .help = "More attributes of the resource",
         .map_of = MapOf::kAttributes},
        GroupOption("retry", "Retries after a failure", kRetryOptions),
    }),
    kRemoteOptions);

// What the group means; `instance` names this proxy in what is sent. Without an endpoint nothing is sent.
// Appends to `errors` what is wrong, with its place.
proxy::GenaiOptions MakeGenaiOptions(const Config& group, const std::string& instance,
                                     std::vector<std::string>& errors);

// Files that are read again while requests are sent: secrets and certificates.
std::vector<std::string> ProxyOtlpFiles(const Config& group);

}  // namespace gpulens
