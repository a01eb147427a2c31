// LLM engines as what `gpulens collect` reads: `vllm` is the collector `engines` with one target, whose page
// is where that engine has it unless something else is said.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/collect/collect_command.h"

namespace gpulens {

// Whether the table of engines has the name.
bool IsEngine(std::string_view name) noexcept;
std::vector<std::string_view> EngineNames();
// "http://localhost:8000/metrics"; empty for a name that is no engine.
std::string EngineUrl(std::string_view name);

inline constexpr std::string_view kEnginesCollector = "engines";
inline constexpr std::string_view kEnginesAnalyzer = "inference";

// Where the target is an engine, makes it the collector `engines` with the options of one target; what
// -o says of name, engine or url stays. With a configuration file and no endpoint, the file's targets
// are read.
void ResolveEngine(CollectOptions& options);

}  // namespace gpulens
