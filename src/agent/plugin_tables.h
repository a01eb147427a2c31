// Every plugin of this program, in the order of the .def files. The one place that knows them all.
#pragma once

#include <span>
#include <string_view>

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

// Whether the collector runs: it is not disabled.
bool IsOn(const CollectorSpec& spec, const Config& config);
// What `probe` of the collector takes: its group, or the whole configuration of one with targets.
const Config& PartOf(const CollectorSpec& spec, const Config& config);

}  // namespace gpulens
