// The words of the control socket: one command a line, one line as the answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens {

inline constexpr size_t kMaxControlLine = 256;  // bytes, both ways

// "nvml release 60s", "nvml release", "nvml resume", "nvml status".
struct ControlCommand {
  enum Verb : uint8_t { kRelease, kResume, kStatus } verb = kStatus;
  Duration length{};  // of a release; 0: until it is resumed
};

// `line` without its newline. kInvalidArgument says what is wrong and what is right.
Result<ControlCommand> ParseControlCommand(std::string_view line);

// Where the socket is when the configuration does not say: below /run for root, in the runtime folder of a
// service, below XDG_RUNTIME_DIR for others. Empty: there is no such place.
std::string DefaultControlSocket();

}  // namespace gpulens
