// `gpulens driver nvml`: the driver process. Started by the agent, not by people.
#pragma once

#include <span>
#include <string_view>

namespace gpulens {

// `arguments` after `driver`. Ends the process without clean-up: threads may be stuck in a library.
[[noreturn]] void RunDriver(std::span<const std::string_view> arguments);

}  // namespace gpulens
