// The reader process: opens the library, reads each device on a thread of its own, and sends what it
// learns over a socket until the other end closes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "reader/process/reader.h"

namespace gpulens::driver {

struct DriverOptions {
  int socket_fd = -1;  // SOCK_SEQPACKET, connected to the agent. Owned by the caller.
  int page_fd = -1;    // The CallPage. Owned by the caller.
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10);
  Duration slow = std::chrono::seconds(60);
  std::string library_path;  // Empty: the usual places.
  uint64_t left_out = 0;     // Bit i: do not touch device i until an AttachRequest comes.
  bool watch = true;         // Whether to wait for the library's events.
  std::string build_id;
  bool limited =
      true;  // Whether the process gets limits of the kernel: not where it is somebody else's, too.
  // Has one entry per device that the kernel driver holds. When they change the process ends, so that the
  // library is opened anew: many count devices only then. Empty: not looked at.
  std::string device_folder;
};

// What DriverSource passes after `driver NAME`: --socket-fd=N --page-fd=N --interval-ns=N --medium-ns=N
// --slow-ns=N --library=PATH --build-id=TEXT --leave-out=MASK (hexadecimal) --watch=0
// --device-folder=PATH.
// kInvalidArgument names the bad one. `more` takes what a vendor adds; false for what is not understood.
using MoreArguments = std::function<bool(std::string_view key, std::string_view value)>;
Result<DriverOptions> ParseDriverArguments(std::span<const std::string_view> arguments,
                                           const MoreArguments& more = nullptr);

// Exit codes of the reader process.
enum DriverExit : int {
  kDriverDone = 0,                // The agent closed the socket.
  kDriverBadStart = 2,            // Arguments, socket or page unusable.
  kDriverNoLibrary = 3,           // A LibraryReport has told why.
  kDriverRecount = kRecountExit,  // Devices have come or gone: start again, now.
  kDriverBeyond = kBeyondExit,    // It uses more of the machine than it may.
};

// Runs until the socket closes. Threads that are stuck in the library are left behind: the caller
// must end the process with _exit and never return to library clean-up. One call at a time.
int RunDriver(const DriverOptions& options, std::shared_ptr<VendorLibrary> library);

}  // namespace gpulens::driver
