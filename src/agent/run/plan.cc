#include "agent/run/plan.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "agent/plugin_tables.h"
#include "export/sink_names.h"
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

// One for each target. Names that are derived from URLs get a number where they are taken.
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

}  // namespace

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

AttributeSet StatedAttributes(const Config& config) {
  std::vector<AttributeSet::Attribute> attributes;
  const Config& resource = config.Group("resource");
  if (!resource.Text("cluster").empty())
    attributes.push_back({"k8s.cluster.name", std::string_view(resource.Text("cluster"))});
  for (const auto& [key, value] : resource.TextMap("attributes")) {
    if (key != "service.name") attributes.push_back({key, std::string_view(value)});
  }
  for (const auto& [key, value] : config.TextMap(kAttributesKey))
    attributes.push_back({key, std::string_view(value)});
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

AttributeSet MakeResource(const Config& config, const PlanContext& context) {
  std::vector<AttributeSet::Attribute> attributes;
  if (!context.host_name.empty()) attributes.push_back({"host.name", std::string_view(context.host_name)});
  const Config& resource = config.Group("resource");
  if (!resource.Text("cluster").empty()) {
    attributes.push_back({"k8s.cluster.name", std::string_view(resource.Text("cluster"))});
  }
  for (const auto& [key, value] : resource.TextMap("attributes")) {
    attributes.push_back({key, std::string_view(value)});
  }
  // As OpenTelemetry has it, a name that was asked for wins over the attribute.
  const bool asked = resource.origin("service_name").where != Origin::kDefault;
  const AttributeSet::Attribute service{"service.name", std::string_view(resource.Text("service_name"))};
  attributes.insert(asked ? attributes.end() : attributes.begin(), service);
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

}  // namespace gpulens
