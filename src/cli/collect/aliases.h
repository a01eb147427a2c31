// The l9gpu project's commands for GPUs and LLM engines, as other names of `gpulens collect`: `gpulens
// nvml_monitor` is `gpulens collect nvidia`, with that project's options. What has no meaning here is
// accepted, and said.
#pragma once

#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

// Adds the commands. One that runs puts its exit code, that of RunCollect, into `code`, which outlives
// the parsing.
void AddAliases(CLI::App& app, int& code);

}  // namespace gpulens
