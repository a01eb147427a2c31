// The words of the control socket: one command a line, one line as the answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "plugins/plugin.h"

namespace gpulens {

inline constexpr size_t kMaxControlLine = 256;        // bytes of a command
inline constexpr size_t kMaxControlAnswer = 1 << 20;  // bytes

// "agent status"; "xid clear [GPU]", with an index or a UUID; "nvml release 60s", "nvml release", "nvml
// resume", "nvml status"; of simulated GPUs "nvml fail WORDS", "nvml heal [WORDS]", "nvml faults".
struct ControlCommand {
  enum Verb : uint8_t {
    kAgentStatus,
    kXidClear,
    kRelease,
    kResume,
    kStatus,
    kFail,
    kHeal,
    kFaults
  } verb = kStatus;
  std::string words;  // of a fault, judged by who knows faults; the GPU of kXidClear
  Duration length{};  // of a release; 0: until it is resumed
};

// `line` is without its newline. kInvalidArgument names the error and the expected commands.
Result<ControlCommand> ParseControlCommand(std::string_view line);

// Where the socket is when the configuration does not say: below /run for root, in the runtime folder of a
// service, below XDG_RUNTIME_DIR for others. Empty: there is no such place.
std::string DefaultControlSocket();

// `status`: the answer to "nvml status" behind its "ok ". Empty when the driver is fine or no agent answers.
std::optional<Finding> DriverFinding(std::string_view status);

}  // namespace gpulens
