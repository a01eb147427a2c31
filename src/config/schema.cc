#include "config/schema.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "config/value_parse.h"
#include "export/sink_names.h"

namespace gpulens {
namespace {

constexpr OptionSpec AttributesOption(std::string_view help) {
  return {.key = "attributes", .type = OptionType::kTextMap, .help = help, .map_of = MapOf::kAttributes};
}

constexpr OptionSpec kHttp[] = {
    TextsOption("listen", R"(["127.0.0.1:9091", "[::1]:9091"])",
                "Where /metrics and the other pages are served: HOST:PORT, :PORT for all interfaces"),
    TextOption("web_config", {},
               "File with TLS and passwords, in the format of Prometheus's exporter-toolkit"),
    BoolOption("insecure", false, "Allow other machines without TLS and passwords; for closed networks"),
    TextsOption(
        "allowed_hosts", {},
        "Host names accepted at loopback addresses without passwords, such as gpu1.example.org behind a "
        "proxy. Also for receivers and the WebSocket server"),
    IntOption("max_connections", "512", "Open connections; further ones are refused and counted", 1, 65536),
    SizeOption("max_header", "16KiB", "Longest request header", 1024, 1 << 20),
    SizeOption("max_body", "1MiB", "Longest request body", 1024, 1 << 30),
    TimeOption("idle_timeout", "60s", "Close a connection after this time without data", 0.1, 86400),
};

constexpr OptionSpec kWebsocket[] = {
    TextsOption("listen", R"(["127.0.0.1:9092", "[::1]:9092"])",
                "Where the WebSocket stream is served; http.web_config and http.insecure apply here, too"),
    TimeOption("push_interval", "1s", "How often a frame is sent to each client", 0.01, 86400),
    TextsOption("allowed_origins", {}, "Web pages elsewhere that may connect: https://grafana.example.org"),
};

constexpr OptionSpec kResource[] = {
    TextOption("cluster", {}, "Name of the cluster, an attribute of everything that is sent"),
    TextOption("service_name", "gpulens", "service.name of everything that is sent"),
    AttributesOption("Further attributes of everything that is sent"),
};

constexpr OptionSpec kLimits[] = {
    IntOption("series", "200000", "Series of all instances; more are dropped and counted", 1, 100e6),
    IntOption("series_per_target", "20000", "Series of one instance", 1, 100e6),
    SizeOption("memory", "256MiB",
               "Memory of all processes of the agent. Above it, new series of scraped pages and programs are "
               "refused and counted, and receivers accept less; the agent's own readings continue",
               16 << 20),
};

constexpr std::string_view kHistoryStarts[] = {"first_reader", "at_once"};
constexpr OptionSpec kHistory[] = {
    TimeOption("window", "1h", "Time for which the series of docs/history.md are kept", 60, 86400),
    SizeOption("memory", "4MiB", "Memory for it; when that is too little, the oldest samples go first",
               256 << 10, 256 << 20),
    TextOption("start", "first_reader",
               "When it begins, and takes its memory: with the first reader of /api, or at_once",
               kHistoryStarts),
};

constexpr OptionSpec kFleet[] = {
    IntOption("nodes", "2000",
              "Nodes that are kept of those whose data receivers take; more are passed on, not shown, and "
              "counted. 0: none",
              0, 20'000),
    TimeOption("away_after", "2m", "A node without data for this time is away; or for three of its intervals",
               10, 86400),
    TimeOption("forget_after", "1h", "A node without data for this time is forgotten", 60, 7 * 86400),
    TextOption(
        "node_url", {},
        "Where each node's own page is, for links: https://{name}:9091/. {name} is its host, {instance} "
        "what a store has in the label instance"),
    TextOption("dashboards", {}, "Grafana with the dashboards of deploy/dashboards, for links"),
};

constexpr std::string_view kFormats[] = {"auto", "text", "journal", "json"};
constexpr OptionSpec kLog[] = {
    TextOption("level", "info",
               "error, warn, info, debug, trace or off; also per component: info,nvidia=debug"),
    TextOption("format", "auto", "auto is journal under systemd, else text", kFormats),
};

constexpr OptionSpec kCheck[] = {TextsOption("disable", {}, "Checks that always report OK")};

constexpr OptionSpec kExperiments[] = {TextOption(
    "db", {},
    "File of recorded runs that the page shows; default: ~/.gpulens/experiments.db of the agent's user")};

constexpr OptionSpec kControl[] = {TextOption(
    "socket", {},
    "Unix socket for commands to the running agent (gpulens gpu release); default: "
    "/run/gpulens/gpulens.sock for root, else gpulens/gpulens.sock in XDG_RUNTIME_DIR; none for none")};

constexpr std::string_view kSandboxModes[] = {"enforce", "log", "off"};
constexpr OptionSpec kSandbox[] = {TextOption(
    "mode", "enforce",
    "The agent's processes may do what they need, and nothing else: SECURITY.md. With log they may do "
    "everything, and the kernel logs what was not needed; off: everything. In force after a restart",
    kSandboxModes)};

constexpr OptionSpec kJobs[] = {
    TextOption(
        "socket", {},
        "Unix socket at which libraries inside jobs hand over their pages; default: job.sock next to the "
        "socket of programs; none for none. It is open while a collector reads pages"),
    TextsOption("folders", R"(["/dev/shm"])",
                "Folders where such libraries leave pages as files when no agent listens"),
};

constexpr OptionSpec kRoot[] = {
    TimeOption("interval", "1s", "Time between two snapshots", 0.01, 86400),
    GroupOption("http", "The HTTP server", kHttp),
    GroupOption("websocket", "The WebSocket server", kWebsocket),
    GroupOption("resource", "Identity of this machine", kResource),
    AttributesOption("Attributes added to every series of every sink, scraped ones included"),
    TextOption("metrics", "standard",
               "Level of native metrics that sinks export, unless a sink sets its own: docs/cardinality.md",
               kMetricLevels),
    GroupOption("limits", "Limits of the agent", kLimits),
    GroupOption("history", "What is kept for the web page, gpulens top, why and trace", kHistory),
    GroupOption("fleet", "The page of the nodes that send through this gateway: docs/fleet.md", kFleet),
    TextOption("state_dir", {},
               "Folder for queues, events and health; default: /var/lib/gpulens as a service, else the XDG "
               "state folder"),
    GroupOption("check", "Options of gpulens check", kCheck),
    GroupOption("experiments", "Recorded runs of programs: docs/experiments.md", kExperiments),
    GroupOption("jobs", "Pages that libraries inside jobs write: docs/nccl.md", kJobs),
    GroupOption("control", "Commands to the running agent", kControl),
    GroupOption("sandbox", "What confines the agent's processes", kSandbox),
    GroupOption("log", "Logging of the agent", kLog),
};

std::span<const OptionSpec> RootOptions() noexcept { return kRoot; }

struct Section {
  std::string_view key, noun, help;
  bool always;  // printed even without any plugin
};
constexpr Section kSections[] = {
    {"collectors", "collector",
     "Sources to read. Every available collector runs; list one to configure it, enabled: false disables it",
     true},
    {"analyzers", "analyzer", "Computations on the readings", true},
    {"enrichers", "enricher", "Sources of attributes for what is measured", true},
    {"discovery", "discovery", "Discovery of targets to scrape", false},
    {"sinks", "sink", "Destinations of the data", true},
    {"receivers", "receiver", "Servers for data from other programs", false},
};

std::string VariableOf(std::string_view start, std::string_view path) {
  std::string name(start);
  for (char c : path) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

bool Declares(std::span<const OptionSpec> options, std::string_view key) {
  return std::ranges::any_of(options, [&](const OptionSpec& spec) { return spec.key == key; });
}

}  // namespace

std::string_view Schema::SectionNoun(std::string_view key) noexcept {
  for (const Section& section : kSections) {
    if (section.key == key) return section.noun;
  }
  return {};
}

std::vector<OptionSpec> Schema::PluginOptions(const PluginSchema& plugin) {
  std::vector<OptionSpec> options;
  auto add = [&](OptionSpec spec) {
    if (!Declares(plugin.options, spec.key)) options.push_back(spec);
  };
  add(BoolOption("enabled", plugin.on_by_default,
                 "Whether it runs; one that is off by default is turned on by naming it here"));
  if (plugin.interval != Duration::zero()) {
    add(TimeOption("interval", Keep(FormatTimeValue(plugin.interval)), "How often it runs", 0.01));
    add(TimeOption("ttl", Keep(FormatTimeValue(plugin.ttl)),
                   "How long a value is still exported when it cannot be read again", 0.01));
    add(TimeOption("timeout", {}, "Timeout of one run; default: the interval", 0.001));
  }
  options.insert(options.end(), plugin.options.begin(), plugin.options.end());
  return options;
}

void Schema::AddSection(std::string_view key, std::span<const PluginSchema> plugins) {
  const Section* section = std::ranges::find_if(kSections, [&](const Section& s) { return s.key == key; });
  std::vector<OptionSpec> groups;
  for (const PluginSchema& plugin : plugins) {
    if (plugin.section != key || plugin.is_list) continue;
    CHECK(!Declares(groups, plugin.name));
    groups.push_back({.key = plugin.name,
                      .type = OptionType::kGroup,
                      .fallback = {},
                      .help = plugin.help,
                      .children = Keep(PluginOptions(plugin))});
  }
  if (groups.empty() && !section->always) return;
  std::span<const OptionSpec> kept = Keep(std::move(groups));
  for (const OptionSpec& group : kept) {
    plugins_.insert(&group);
    const bool several = std::ranges::any_of(plugins, [&](const PluginSchema& plugin) {
      return plugin.section == key && plugin.name == group.key && plugin.several;
    });
    if (several) several_.insert(&group);
  }
  root_.push_back(
      {.key = key, .type = OptionType::kGroup, .fallback = {}, .help = section->help, .children = kept});
}

void Schema::AddLeaves(std::span<const OptionSpec> options, const std::string& prefix) {
  for (const OptionSpec& spec : options) {
    std::string path = prefix + std::string(spec.key);
    if (spec.type == OptionType::kGroup) {
      AddLeaves(spec.children, path + ".");
    } else {
      std::string variable = VariableOf(variables_, path);
      leaves_.push_back({std::move(path), std::move(variable), &spec});
    }
  }
}

Schema::Schema(std::span<const PluginSchema> plugins) : specs_(plugins.begin(), plugins.end()) {
  std::span<const OptionSpec> own = RootOptions();
  root_.assign(own.begin(), own.end());
  for (const PluginSchema& plugin : plugins) {
    CHECK(!SectionNoun(plugin.section).empty());
    if (plugin.section != "collectors" || plugin.is_list ||
        (plugin.interval.count() > 0 && plugin.ttl.count() > 0))
      continue;
    const std::string message = "the spec of the collector " + std::string(plugin.name) +
                                " has .period and .ttl, the defaults of interval and ttl";
    CheckFailed(message.c_str(), __FILE__, __LINE__);
  }
  for (const PluginSchema& plugin : plugins) {
    if (!plugin.is_list) continue;
    root_.push_back(GroupsOption(plugin.name, plugin.help, plugin.options));
  }
  for (const Section& section : kSections) AddSection(section.key, plugins);
  AddLeaves(root_, "");
  std::unordered_set<std::string_view> variables;
  for (const Leaf& leaf : leaves_) CHECK(variables.insert(leaf.variable).second);
}

Schema::Schema(std::span<const OptionSpec> options, std::string_view variables, std::string_view help)
    : root_(options.begin(), options.end()), is_agents_(false), variables_(variables), help_(help) {
  AddLeaves(root_, "");
}

const OptionSpec* Schema::FindNamed(const OptionSpec& section, std::string_view key) const noexcept {
  const size_t slash = key.find('/');
  if (slash == key.npos) return nullptr;
  const std::string_view name = key.substr(slash + 1);
  constexpr size_t kLongest = 64;  // it is part of the name of a folder
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, fits)) return nullptr;
  for (const OptionSpec& group : section.children) {
    if (group.key == key.substr(0, slash) && several_.contains(&group)) return &group;
  }
  return nullptr;
}

const Schema::Leaf* Schema::FindLeaf(std::string_view path) const noexcept {
  for (const Leaf& leaf : leaves_) {
    if (leaf.path == path) return &leaf;
  }
  return nullptr;
}

}  // namespace gpulens
