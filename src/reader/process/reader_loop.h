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

#include "reader/process/device_reader.h"

namespace gpulens::reader {

struct ReaderProcessOptions {
  int socket_fd = -1;  // SOCK_SEQPACKET, connected to the agent. Owned by the caller.
  int page_fd = -1;    // The CallPage. Owned by the caller.
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10);
  Duration slow = std::chrono::seconds(60);
  std::string library_path;  // Empty: the usual places.
  uint64_t left_out = 0;     // Bit i: do not touch device i until an AttachRequest comes.
  bool watch = true;         // Whether to wait for the library's events.
  std::string build_id;
  bool limited = true;  // whether the process gets limits of the kernel: not where it also does other work
  // Has one entry per device that the kernel driver holds. When they change the process ends, so that the
  // library is opened again: many count devices only then. Empty: not watched.
  std::string device_folder;
};

// What ReaderSource passes after `reader NAME`: --socket-fd=N --page-fd=N --interval-ns=N --medium-ns=N
// --slow-ns=N --library=PATH --build-id=TEXT --leave-out=MASK (hexadecimal) --watch=0
// --device-folder=PATH.
// kInvalidArgument names the bad one. `more` takes what a vendor adds; false for what is not understood.
using MoreArguments = std::function<bool(std::string_view key, std::string_view value)>;
Result<ReaderProcessOptions> ParseReaderArguments(std::span<const std::string_view> arguments,
                                                  const MoreArguments& more = nullptr);

// Exit codes of the reader process.
enum ReaderExit : int {
  kReaderDone = 0,                 // The agent closed the socket.
  kReaderBadStart = 2,             // Arguments, socket or page unusable.
  kReaderNoLibrary = 3,            // a LibraryReport has the reason
  kReaderRecount = kRecountExit,   // Devices have come or gone: start again, now.
  kReaderOverLimit = kBeyondExit,  // It uses more of the machine than it may.
};

// Runs until the socket closes. Threads that are stuck in the library are left behind: the caller
// must end the process with _exit and never return to library clean-up. One call at a time.
int RunReader(const ReaderProcessOptions& options, std::shared_ptr<VendorLibrary> library);

// What the reader process uses of the machine itself, and how much it may.

// 0: unknown.
struct OwnUse {
  uint64_t memory = 0;  // Resident bytes.
  uint64_t files = 0;   // Open descriptors.
  uint64_t threads = 0;
};

// Ten times what libraries use for eight GPUs. A process above it has a leaking library and is restarted.
inline constexpr OwnUse kMostUse{.memory = uint64_t{512} << 20, .files = 1000, .threads = 512};

OwnUse ReadOwnUse();
bool IsBeyond(const OwnUse& use, const OwnUse& most) noexcept;

// Limits of the kernel, above those, for what happens between two looks: data and descriptors. Nothing is
// raised. Without effect where a sanitizer takes address space for itself.
void LimitOwnUse() noexcept;

// The thread that reads one device.

// kExhausted when no thread can be made. `library` is kept alive for `reader`.
Status StartDeviceThread(std::shared_ptr<AgentChannel> shared, std::shared_ptr<VendorLibrary> library,
                         std::unique_ptr<DeviceReader> reader, uint32_t index, Duration interval);

// The next multiple of `interval` after `boot_ns`: all readers work at the same moments, so that an
// idle machine is woken once.
int64_t NextTick(int64_t boot_ns, Duration interval) noexcept;

}  // namespace gpulens::reader
