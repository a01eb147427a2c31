// Pages of other programs by name: `gpulens collect vllm` reads one target of kind vllm at the URL where that
// engine serves its page by default.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/collect/collect_command.h"

namespace gpulens {

inline constexpr std::string_view kTargetsCollector = "targets";
inline constexpr std::string_view kEnginesAnalyzer = "inference";

// Whether the table of LLM engines has the name.
bool IsEngine(std::string_view name) noexcept;
// Whether the name is a page's: an engine, "dcgm", or a collector of an earlier version ("engines", "scrape",
// "gpu_page").
bool IsPage(std::string_view name) noexcept;
std::vector<std::string_view> EngineNames();
// "http://localhost:8000/metrics"; empty for a page without a usual URL.
std::string PageUrl(std::string_view name);

// Where options.target is a page, makes it the collector `targets` with the options of one target; -o name,
// kind and url override them. With a configuration file and no endpoint, the targets of the file are read.
void ResolvePage(CollectOptions& options);

}  // namespace gpulens
