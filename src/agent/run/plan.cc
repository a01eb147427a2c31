#include "agent/run/plan.h"

#include <algorithm>
#include <set>

#include "agent/plugin_tables.h"
#include "agent/targets/own_pages.h"
#include "base/files.h"
#include "base/result.h"
#include "export/sink_names.h"
#include "net/message/address.h"
#include "scrape/page_target.h"

namespace gpulens {

namespace {

Instance::Setup MakeInstance(const CollectorSpec& spec, const Config& own, std::string name) {
  Instance::Setup setup;
  setup.name = std::move(name);
  setup.spec = &spec;
  setup.config = own;
  setup.period = own.Time("interval");
  setup.deadline = own.Has("timeout") ? own.Time("timeout") : Duration{};
  if (setup.deadline.count() == 0) setup.deadline = setup.period;
  setup.ttl = std::max(own.Time("ttl"), setup.period * 2);
  return setup;
}

// Makes one instance for each target. Names that are derived from URLs get a number when they are taken.
std::vector<Instance::Setup> MakeTargets(const CollectorSpec& spec, const Config& config) {
  std::set<std::string> taken;
  for (const Config& target : config.Groups(spec.name)) taken.insert(target.Text("name"));
  std::vector<Instance::Setup> setups;
  for (const Config& target : config.Groups(spec.name)) {
    Config own = target;
    std::string name = target.Text("name");
    if (name.empty()) {
      name = TakeFreeName(TargetName(target), taken);
      own.Set("name", name, target.origin("name"));
    }
    setups.push_back(MakeInstance(spec, own, std::string(spec.name) + "/" + name));
    int64_t limit = own.Group("series").Int("limit");
    if (limit == 0) limit = config.Group("limits").Int("series_per_target");
    setups.back().table.limit = static_cast<uint32_t>(limit);
  }
  return setups;
}

constexpr std::string_view kServiceName = "service.name";

// The cluster and the attributes of the group `resource`. They view the configuration.
std::vector<AttributeSet::Attribute> ResourceOptions(const Config& config) {
  std::vector<AttributeSet::Attribute> out;
  const Config& resource = config.Group("resource");
  if (const std::string& cluster = resource.Text("cluster"); !cluster.empty())
    out.push_back({"k8s.cluster.name", std::string_view(cluster)});
  for (const auto& [key, value] : resource.TextMap("attributes"))
    out.push_back({key, std::string_view(value)});
  return out;
}

}  // namespace

AttributeSet StatedAttributes(const Config& config) {
  std::vector<AttributeSet::Attribute> attributes = ResourceOptions(config);
  std::erase_if(attributes, [](const auto& attribute) { return attribute.key == kServiceName; });
  for (const auto& [key, value] : config.TextMap(kAttributesKey))
    attributes.push_back({key, std::string_view(value)});
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

AttributeSet MakeResource(const Config& config, const PlanContext& context) {
  std::vector<AttributeSet::Attribute> attributes = ResourceOptions(config);
  if (!context.host_name.empty())
    attributes.insert(attributes.begin(), {"host.name", std::string_view(context.host_name)});
  // As in OpenTelemetry, a configured name wins over the attribute.
  const Config& resource = config.Group("resource");
  const bool configured = resource.origin("service_name").where != Origin::kDefault;
  const AttributeSet::Attribute service{kServiceName, std::string_view(resource.Text("service_name"))};
  attributes.insert(configured ? attributes.end() : attributes.begin(), service);
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

std::unique_ptr<Schema> MakeSchema() {
  std::vector<PluginSchema> plugins;
  ForEachPlugin([&](std::string_view section, const auto& spec) {
    PluginSchema plugin{section, spec.name, spec.help, spec.options};
    if constexpr (requires { spec.on_by_default; }) plugin.on_by_default = spec.on_by_default;
    if constexpr (requires { spec.check; }) plugin.check = spec.check;
    if constexpr (requires { spec.ttl; }) {
      plugin.interval = spec.period;
      plugin.ttl = spec.ttl;
      plugin.is_list = spec.per_target;
    }
    if constexpr (requires { spec.root_key; }) {
      if (!spec.root_key.empty()) return;
      plugin.several = spec.several;
    }
    plugins.push_back(plugin);
  });
  return std::make_unique<Schema>(plugins);
}

std::vector<Instance::Setup> MakeInstances(const CollectorSpec& spec, const Config& config) {
  if (spec.per_target) return MakeTargets(spec, config);
  std::vector<Instance::Setup> setups;
  setups.push_back(MakeInstance(spec, PartOf(spec, config), std::string(spec.name)));
  return setups;
}

std::vector<EnricherSet::Setup> MakeEnrichers(const Config& config) {
  std::vector<EnricherSet::Setup> setups;
  for (const EnricherSpec* spec : AllEnrichers()) {
    const Config& own = config.Group("enrichers").Group(spec->name);
    if (own.Bool("enabled"))
      setups.push_back({spec, own, own.Has("interval") ? own.Time("interval") : spec->period});
  }
  return setups;
}

Config SinkConfig(const Config& config, std::string_view sink) {
  Config own = config.Group("sinks").Group(sink);
  if (own.Has(kMetricsKey) && own.Text(kMetricsKey).empty())
    own.Set(kMetricsKey, config.Text(kMetricsKey), config.origin(kMetricsKey));
  if (!own.Has(kAttributesKey)) return own;
  std::map<std::string, std::string> attributes = own.TextMap(kAttributesKey);
  const std::map<std::string, std::string>& common = config.TextMap(kAttributesKey);
  attributes.insert(common.begin(), common.end());
  own.Set(kAttributesKey, std::move(attributes), own.origin(kAttributesKey));
  return own;
}

PipelinePlan MakePlan(const Config& config, const PlanContext& context) {
  PipelinePlan plan;
  plan.interval = config.Time("interval");
  plan.resource = MakeResource(config, context);
  plan.stated = StatedAttributes(config);
  plan.memory_limit = config.Group("limits").Size("memory");
  for (const CollectorSpec* spec : AllCollectors()) {
    if (!IsOn(*spec, config)) continue;
    for (Instance::Setup& setup : MakeInstances(*spec, config)) plan.instances.push_back(std::move(setup));
  }
  plan.enrichers = MakeEnrichers(config);
  for (const AnalyzerSpec* spec : AllAnalyzers()) {
    const Config& own = config.Group("analyzers").Group(spec->name);
    if (own.Bool("enabled")) plan.analyzers.push_back({spec, own});
  }
  for (const SinkSpec* spec : AllSinks()) {
    if (!spec->root_key.empty()) {
      const Config& own = config.Group(spec->root_key);
      if (!own.Texts("listen").empty()) plan.sinks.push_back({std::string(spec->name), spec, own, {}});
      continue;
    }
    for (const std::string& name : NamesOfSink(*spec, config)) {
      const Config own = SinkConfig(config, name);
      if (!own.Bool("enabled")) continue;
      plan.sinks.push_back({name, spec, own, own.Has("interval") ? own.Time("interval") : Duration{}});
    }
  }
  for (const ReceiverSpec* spec : AllReceivers()) {
    const Config& own = config.Group("receivers").Group(spec->name);
    if (own.Bool("enabled")) plan.receivers.push_back({spec, own});
  }
  return plan;
}

namespace {

// Refuses addresses in `listen` that are open to other machines. `who` and `lock` name the groups in the
// error.
Status RefuseOpen(const Config& config, const std::string& who, const std::string& lock) {
  for (const std::string& text : config.Texts("listen")) {
    ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
    if (endpoint.IsLoopback()) continue;
    return {Code::kInvalidArgument,
            config.Where("listen") + ": " + who + ".listen " + text +
                " is open to other machines: it needs http.web_config with TLS and users, or " + lock +
                ".insecure: true on a closed network"};
  }
  return Ok();
}

Status RefuseOpenListeners(const Config& config) {
  if (!config.Group("http").Bool("insecure")) {
    for (const char* group : {"http", "websocket"})
      RETURN_IF_ERROR(RefuseOpen(config.Group(group), group, "http"));
  }
  for (const Config::Entry& receiver : config.Group("receivers").entries()) {
    const auto& options = std::get<Config>(receiver.value);
    if (!options.Bool("enabled") || options.Bool("insecure")) continue;
    const std::string name = "receivers." + receiver.key;
    for (const Config::Entry& transport : options.entries()) {
      const auto* group = std::get_if<Config>(&transport.value);
      if (group && group->Has("listen"))
        RETURN_IF_ERROR(RefuseOpen(*group, name + "." + transport.key, name));
    }
  }
  return Ok();
}

Status RefuseOtherLinks(const Config& config) {
  const Config& fleet = config.Group("fleet");
  for (const char* key : {"node_url", "dashboards"}) {
    const std::string& url = fleet.Text(key);
    if (url.empty() || url.starts_with("https://") || url.starts_with("http://")) continue;
    return {Code::kInvalidArgument,
            fleet.Where(key) + ": fleet." + key + " must begin with https:// or http://"};
  }
  return Ok();
}

Status RefuseReceiversWithoutSink(const Config& config) {
  std::string sinks;
  for (const SinkSpec* spec : AllSinks()) {
    if (!spec->takes_received) continue;
    for (const std::string& name : NamesOfSink(*spec, config))
      if (config.Group("sinks").Group(name).Bool("enabled")) return Ok();
    sinks += (sinks.empty() ? "sinks." : ", sinks.") + std::string(spec->name);
  }
  for (const ReceiverSpec* spec : AllReceivers()) {
    const Config& receivers = config.Group("receivers");
    if (!receivers.Group(spec->name).Bool("enabled")) continue;
    return {Code::kInvalidArgument, receivers.Where(spec->name) + ": receivers." + std::string(spec->name) +
                                        " is on, but no sink accepts received data; switch on one of " +
                                        sinks};
  }
  return Ok();
}

}  // namespace

JobPages::Options JobPagesOptions(const Config& config) {
  JobPages::Options out;
  const Config& jobs = config.Group("jobs");
  out.folders = jobs.Texts("folders");
  out.socket = jobs.Text("socket");
  if (out.socket == "none") out.socket.clear();
  else if (out.socket.empty()) {
    const std::string& programs = config.Group("collectors").Group("programs").Text("socket");
    const size_t slash = programs.rfind('/');
    out.socket =
        slash == std::string::npos ? OwnAgentSocket("job.sock") : programs.substr(0, slash) + "/job.sock";
  }
  return out;
}

bool ReadsJobPages(const Config& config) {
  constexpr std::string_view kReaders[][2] = {
      {"collectors", "nccl"}, {"collectors", "probes"}, {"collectors", "phases"}, {"analyzers", "phases"}};
  for (const auto& [section, name] : kReaders) {
    const Config& plugins = config.Group(section);
    if (!plugins.Has(name)) continue;
    const Config& own = plugins.Group(name);
    const auto configured = [](const Config::Entry& entry) { return entry.origin.where != Origin::kDefault; };
    if (own.Bool("enabled") && std::ranges::any_of(own.entries(), configured)) return true;
  }
  return false;
}

FleetTable::Options FleetOptions(const Config& config) {
  const Config& fleet = config.Group("fleet");
  FleetTable::Options options;
  for (const ReceiverSpec* spec : AllReceivers()) {
    if (config.Group("receivers").Group(spec->name).Bool("enabled"))
      options.nodes = static_cast<size_t>(fleet.Int("nodes"));
  }
  options.away_after = fleet.Time("away_after");
  options.forget_after = std::max(fleet.Time("forget_after"), options.away_after);
  options.node_url = fleet.Text("node_url");
  options.dashboards = fleet.Text("dashboards");
  return options;
}

bool IsLocked(const WebConfig& web) { return web.tls && web.authenticates(); }

Status RefuseBeforeStart(const Config& config, bool locked) {
  RETURN_IF_ERROR(RefuseOwnPages(config));
  if (!locked) RETURN_IF_ERROR(RefuseOpenListeners(config));
  RETURN_IF_ERROR(RefuseOtherLinks(config));
  return RefuseReceiversWithoutSink(config);
}

Status RefuseBeforeStart(const Config& config) {
  bool locked = false;
  if (const std::string& path = config.Group("http").Text("web_config"); !path.empty()) {
    ASSIGN_OR_RETURN(const WebConfig web, LoadWebConfig(path));
    locked = IsLocked(web);
  }
  return RefuseBeforeStart(config, locked);
}

}  // namespace gpulens
