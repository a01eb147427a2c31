#include "agent/plugin_tables.h"

namespace gpulens {

#define GPULENS_PLUGIN(name) extern const CollectorSpec name##_collector;
#include "plugins/collectors.def"
#undef GPULENS_PLUGIN
#define GPULENS_PLUGIN(name) extern const AnalyzerSpec name##_analyzer;
#include "plugins/analyzers.def"
#undef GPULENS_PLUGIN
#define GPULENS_PLUGIN(name) extern const DiscoverySpec name##_discovery;
#include "plugins/discovery.def"
#undef GPULENS_PLUGIN
#define GPULENS_PLUGIN(name) extern const EnricherSpec name##_enricher;
#include "plugins/enrichers.def"
#undef GPULENS_PLUGIN
#define GPULENS_PLUGIN(name) extern const SinkSpec name##_sink;
#include "plugins/sinks.def"
#undef GPULENS_PLUGIN
#define GPULENS_PLUGIN(name) extern const ReceiverSpec name##_receiver;
#include "plugins/receivers.def"
#undef GPULENS_PLUGIN

namespace {

constexpr const CollectorSpec* kCollectors[] = {
#define GPULENS_PLUGIN(name) &name##_collector,
#include "plugins/collectors.def"
#undef GPULENS_PLUGIN
};
constexpr const AnalyzerSpec* kAnalyzers[] = {
#define GPULENS_PLUGIN(name) &name##_analyzer,
#include "plugins/analyzers.def"
#undef GPULENS_PLUGIN
};
constexpr const DiscoverySpec* kDiscoveries[] = {
#define GPULENS_PLUGIN(name) &name##_discovery,
#include "plugins/discovery.def"
#undef GPULENS_PLUGIN
};
constexpr const EnricherSpec* kEnrichers[] = {
#define GPULENS_PLUGIN(name) &name##_enricher,
#include "plugins/enrichers.def"
#undef GPULENS_PLUGIN
};
constexpr const SinkSpec* kSinks[] = {
#define GPULENS_PLUGIN(name) &name##_sink,
#include "plugins/sinks.def"
#undef GPULENS_PLUGIN
};

constexpr const ReceiverSpec* kReceivers[] = {
#define GPULENS_PLUGIN(name) &name##_receiver,
#include "plugins/receivers.def"
#undef GPULENS_PLUGIN
};

template <class Spec>
const Spec* Find(std::span<const Spec* const> specs, std::string_view name) noexcept {
  for (const Spec* spec : specs) {
    if (spec->name == name) return spec;
  }
  return nullptr;
}

}  // namespace

std::span<const CollectorSpec* const> AllCollectors() noexcept { return kCollectors; }
std::span<const AnalyzerSpec* const> AllAnalyzers() noexcept { return kAnalyzers; }
std::span<const DiscoverySpec* const> AllDiscoveries() noexcept { return kDiscoveries; }
std::span<const EnricherSpec* const> AllEnrichers() noexcept { return kEnrichers; }
std::span<const SinkSpec* const> AllSinks() noexcept { return kSinks; }
std::span<const ReceiverSpec* const> AllReceivers() noexcept { return kReceivers; }
const CollectorSpec* FindCollector(std::string_view name) noexcept { return Find(AllCollectors(), name); }
const AnalyzerSpec* FindAnalyzer(std::string_view name) noexcept { return Find(AllAnalyzers(), name); }
const SinkSpec* FindSink(std::string_view name) noexcept { return Find(AllSinks(), name); }

std::vector<std::string> NamesOfSink(const SinkSpec& spec, const Config& config) {
  std::vector<std::string> names;
  for (const Config::Entry& entry : config.Group("sinks").entries()) {
    if (std::string_view(entry.key).substr(0, entry.key.find('/')) == spec.name) names.push_back(entry.key);
  }
  return names;
}

bool IsOn(const CollectorSpec& spec, const Config& config) {
  return spec.per_target || config.Group("collectors").Group(spec.name).Bool("enabled");
}

const Config& PartOf(const CollectorSpec& spec, const Config& config) {
  return spec.per_target ? config : config.Group("collectors").Group(spec.name);
}

}  // namespace gpulens
