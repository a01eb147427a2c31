// The driver process: opens the library, reads each GPU on a thread of its own, and sends what it
// learns over a socket until the other end closes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "sources/nvml/driver/nvml_library.h"
#include "sources/nvml/driver_protocol.h"

namespace gpulens::nvml {

struct DriverOptions {
  int socket_fd = -1;  // SOCK_SEQPACKET, connected to the agent. Owned by the caller.
  int page_fd = -1;    // The CallPage. Owned by the caller.
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10);
  Duration slow = std::chrono::seconds(60);
  std::string library_path;           // Empty: the usual places.
  uint64_t left_out = 0;              // Bit i: do not touch GPU i until an AttachRequest comes.
  uint32_t details = kDetailSamples;  // Details: what is read beyond the usual.
  uint64_t event_types = kUsualEvents;
  // Has one entry per GPU that the kernel driver holds. When they change the process ends, so that the
  // library is opened anew: it counts GPUs only then.
  std::string gpu_folder = "/proc/driver/nvidia/gpus";
  std::string build_id;
  SymbolLookup lookup = nullptr;  // Instead of a file: the simulated library.
};

// What the agent's NvmlSource passes after `driver nvml`: --socket-fd=N --page-fd=N --interval-ns=N
// --medium-ns=N --slow-ns=N --details=MASK --library=PATH --leave-out=MASK --events=MASK (all hexadecimal)
// --gpu-folder=PATH.
// kInvalidArgument names the bad one.
Result<DriverOptions> ParseDriverArguments(std::span<const std::string_view> arguments);

// Exit codes of the driver process.
enum DriverExit : int {
  kDriverDone = 0,        // The agent closed the socket.
  kDriverBadStart = 2,    // Arguments, socket or page unusable.
  kDriverNoLibrary = 3,   // A LibraryReport has told why.
  kDriverInitFailed = 4,  // A LibraryReport has told why.
  kDriverRecount = 5,     // GPUs have come or gone: start again, now.
};

// Runs until the socket closes. Threads that are stuck in the library are left behind: the caller
// must end the process with _exit and never return to library clean-up. One call at a time.
int RunNvmlDriver(const DriverOptions& options);

}  // namespace gpulens::nvml
