#include "config/root_options.h"

#include "export/sink_names.h"

namespace gpulens {
namespace {

constexpr OptionSpec kHttp[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:9091", "[::1]:9091"])",
     .help = "Where /metrics and the other pages are served: HOST:PORT, :PORT for all interfaces"},
    {.key = "web_config",
     .fallback = {},
     .help = "File with TLS and passwords, in the format of Prometheus's exporter-toolkit"},
    {.key = "insecure",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Allow other machines without TLS and passwords; for closed networks"},
    {.key = "allowed_hosts",
     .type = OptionType::kTexts,
     .help = "Host names accepted at loopback addresses without passwords, such as gpu1.example.org behind a "
             "proxy. Also for receivers and the WebSocket server"},
    {.key = "max_connections",
     .type = OptionType::kInt,
     .fallback = "512",
     .help = "Open connections; further ones are refused and counted",
     .min = 1,
     .max = 65536},
    {.key = "max_header",
     .type = OptionType::kSize,
     .fallback = "16KiB",
     .help = "Longest request header",
     .min = 1024,
     .max = 1 << 20},
    {.key = "max_body",
     .type = OptionType::kSize,
     .fallback = "1MiB",
     .help = "Longest request body",
     .min = 1024,
     .max = 1 << 30},
    {.key = "idle_timeout",
     .type = OptionType::kTime,
     .fallback = "60s",
     .help = "Close a connection after this time without data",
     .min = 0.1,
     .max = 86400},
};

constexpr OptionSpec kWebsocket[] = {
    {.key = "listen",
     .type = OptionType::kTexts,
     .fallback = R"(["127.0.0.1:9092", "[::1]:9092"])",
     .help = "Where the WebSocket stream is served; http.web_config and http.insecure apply here, too"},
    {.key = "push_interval",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "How often a frame is sent to each client",
     .min = 0.01,
     .max = 86400},
    {.key = "allowed_origins",
     .type = OptionType::kTexts,
     .help = "Web pages elsewhere that may connect: https://grafana.example.org"},
};

constexpr OptionSpec kResource[] = {
    {.key = "cluster",
     .fallback = {},
     .help = "Name of the cluster, an attribute of everything that is sent"},
    {.key = "service_name", .fallback = "gpulens", .help = "service.name of everything that is sent"},
    {.key = "attributes",
     .type = OptionType::kTextMap,
     .fallback = {},
     .help = "Further attributes of everything that is sent",
     .map_of = MapOf::kAttributes},
};

constexpr OptionSpec kLimits[] = {
    {.key = "series",
     .type = OptionType::kInt,
     .fallback = "200000",
     .help = "Series of all instances; more are dropped and counted",
     .min = 1,
     .max = 100e6},
    {.key = "series_per_target",
     .type = OptionType::kInt,
     .fallback = "20000",
     .help = "Series of one instance",
     .min = 1,
     .max = 100e6},
    {.key = "memory",
     .type = OptionType::kSize,
     .fallback = "256MiB",
     .help = "Memory of all processes of the agent. Above it, new series of scraped pages and programs are "
             "refused and counted, and receivers accept less; the agent's own readings continue",
     .min = 16 << 20},
};

constexpr std::string_view kFormats[] = {"auto", "text", "journal", "json"};
constexpr OptionSpec kLog[] = {
    {.key = "level",
     .fallback = "info",
     .help = "error, warn, info, debug, trace or off; also per component: info,nvidia=debug"},
    {.key = "format",
     .fallback = "auto",
     .help = "auto is journal under systemd, else text",
     .allowed = kFormats},
};

constexpr OptionSpec kCheck[] = {
    {.key = "disable", .type = OptionType::kTexts, .help = "Checks that always report OK"},
};

constexpr OptionSpec kControl[] = {
    {.key = "socket",
     .fallback = {},
     .help =
         "Unix socket for commands to the running agent (gpulens gpu release); default: "
         "/run/gpulens/gpulens.sock for root, else gpulens/gpulens.sock in XDG_RUNTIME_DIR; none for none"},
};

constexpr OptionSpec kRoot[] = {
    {.key = "interval",
     .type = OptionType::kTime,
     .fallback = "1s",
     .help = "Time between two snapshots",
     .min = 0.01,
     .max = 86400},
    {.key = "http", .type = OptionType::kGroup, .fallback = {}, .help = "The HTTP server", .children = kHttp},
    {.key = "websocket",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "The WebSocket server",
     .children = kWebsocket},
    {.key = "resource",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "Identity of this machine",
     .children = kResource},
    {.key = "attributes",
     .type = OptionType::kTextMap,
     .help = "Attributes added to every series of every sink, scraped ones included",
     .map_of = MapOf::kAttributes},
    {.key = "metrics",
     .fallback = "standard",
     .help = "Level of native metrics that sinks export, unless a sink sets its own: docs/cardinality.md",
     .allowed = kMetricLevels},
    {.key = "limits",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "Limits of the agent",
     .children = kLimits},
    {.key = "state_dir",
     .fallback = {},
     .help = "Folder for queues, events and health; default: /var/lib/gpulens as a service, else the XDG "
             "state folder"},
    {.key = "check",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "Options of gpulens check",
     .children = kCheck},
    {.key = "control",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "Commands to the running agent",
     .children = kControl},
    {.key = "log",
     .type = OptionType::kGroup,
     .fallback = {},
     .help = "Logging of the agent",
     .children = kLog},
};

}  // namespace

std::span<const OptionSpec> RootOptions() noexcept { return kRoot; }

}  // namespace gpulens
