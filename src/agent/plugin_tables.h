// All plugins of this program, in the order of the .def files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/plugin.h"
#include "plugins/receiver.h"

namespace gpulens {

std::span<const CollectorSpec* const> AllCollectors() noexcept;
std::span<const AnalyzerSpec* const> AllAnalyzers() noexcept;
std::span<const DiscoverySpec* const> AllDiscoveries() noexcept;
std::span<const EnricherSpec* const> AllEnrichers() noexcept;
std::span<const SinkSpec* const> AllSinks() noexcept;
std::span<const ReceiverSpec* const> AllReceivers() noexcept;

const CollectorSpec* FindCollector(std::string_view name) noexcept;
const AnalyzerSpec* FindAnalyzer(std::string_view name) noexcept;
const SinkSpec* FindSink(std::string_view name) noexcept;

// Calls `visit(section, spec)` for every plugin; `section` is the key of its kind in the configuration:
// "sinks".
template <class Visit>
void ForEachPlugin(Visit visit) {
  const auto visit_all = [&](std::string_view section, auto specs) {
    for (const auto* spec : specs) visit(section, *spec);
  };
  visit_all("collectors", AllCollectors());
  visit_all("analyzers", AllAnalyzers());
  visit_all("discovery", AllDiscoveries());
  visit_all("enrichers", AllEnrichers());
  visit_all("sinks", AllSinks());
  visit_all("receivers", AllReceivers());
}

// The elements of `sinks` that are of this kind, switched on or not: "otlp", "otlp/b".
std::vector<std::string> NamesOfSink(const SinkSpec& spec, const Config& config);
// Whether the collector is not disabled.
bool IsOn(const CollectorSpec& spec, const Config& config);
// The configuration that `probe` of the collector takes: its group, or all of it for one with targets.
const Config& PartOf(const CollectorSpec& spec, const Config& config);

}  // namespace gpulens
