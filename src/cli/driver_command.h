// `gpulens reader nvml|amdsmi|energy`: a reader process. Started by the agent, not by people.
#pragma once

#include <span>
#include <string_view>

namespace gpulens {

// Whether the word after `driver` names a library, not an order of a person.
bool IsDriverProcess(std::string_view library) noexcept;

// `arguments` after `driver`. Ends the process without clean-up: threads may be stuck in a library.
[[noreturn]] void RunReader(std::span<const std::string_view> arguments);

}  // namespace gpulens
