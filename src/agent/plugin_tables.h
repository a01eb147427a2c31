// Every plugin of this program, in the order of the .def files. The one place that knows them all.
#pragma once

#include <span>
#include <string_view>

#include "pipeline/plugin.h"

namespace gpulens {

std::span<const CollectorSpec* const> AllCollectors() noexcept;
std::span<const AnalyzerSpec* const> AllAnalyzers() noexcept;
std::span<const DiscoverySpec* const> AllDiscoveries() noexcept;
std::span<const EnricherSpec* const> AllEnrichers() noexcept;
std::span<const SinkSpec* const> AllSinks() noexcept;

const CollectorSpec* FindCollector(std::string_view name) noexcept;
const AnalyzerSpec* FindAnalyzer(std::string_view name) noexcept;
const SinkSpec* FindSink(std::string_view name) noexcept;

}  // namespace gpulens
