// NvmlSource: the agent's side of the NVML driver process. Starts it, reads what it sends, kills it
// when it is stuck, starts it again with back-off, and keeps the latest reading of every field.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/nvml_calls.h"

namespace gpulens::nvml {

struct SourceOptions {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {"driver", "nvml"};  // Before those that the source adds.
  std::vector<std::string> environment;                     // "KEY=value", added to ours.
  std::string library_path;                                 // Empty: the usual places.
  std::string build_id;
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10), slow = std::chrono::seconds(60);
  uint32_t details = kDetailSamples;  // Details: what is read beyond the usual.
  Duration deadline{0};               // For a call and for a heartbeat; 0: two intervals.
  // For opening the library and waking a GPU, which may rightly take long.
  Duration slow_deadline = std::chrono::seconds(30);
  Duration backoff_first = std::chrono::milliseconds(100), backoff_limit = std::chrono::seconds(30);
  Duration healthy = std::chrono::minutes(1);  // After so long the back-off begins anew.
  Duration retry_left_out = std::chrono::minutes(5);
  // A GPU lost for so long: the library is opened anew, which alone can find it again. Twice as late each
  // time, up to 16 times.
  Duration retry_lost = std::chrono::seconds(60);
  uint64_t event_types = kUsualEvents;  // Of EventType; those that a GPU does not support never come.
  std::string gpu_folder;               // Empty: the kernel driver's. See DriverOptions.
};

enum class GpuState : uint8_t {
  kStarting,  // Not opened yet.
  kOk,
  kHung,  // Inside a library call beyond its deadline.
  kLost,  // Off the bus.
  kResetRequired,
  kNoPermission,
  kFailed,   // Cannot be opened for another reason: see `code`.
  kLeftOut,  // Hung twice; tried again after retry_left_out.
  kCount,
};
std::string_view GpuStateName(GpuState state) noexcept;

// `status` is of the latest attempt; `raw` and `boot_ns` are of the latest good one and grow old.
struct FieldReading {
  ReadStatus status = ReadStatus::kNever;
  int64_t boot_ns = 0;  // When the library was asked; 0: never with success.
  int64_t raw = 0;
};

using LinkReadings = std::array<FieldReading, kLinkFieldCount>;

struct Gpu {
  uint32_t index = 0;
  GpuState state = GpuState::kStarting;
  int32_t code = 0;  // The library's return code in kFailed and its like.
  std::vector<std::pair<std::string, std::string>> facts;  // See driver/gpu_identity.h. Empty until opened.
  uint32_t identity_version = 0;                           // Grows when `facts` change.
  Call hung_call = Call::kNone;                            // In kHung.
  int64_t hung_since_boot_ns = 0;
  uint32_t hangs = 0;             // Since the source was made.
  int64_t last_read_boot_ns = 0;  // Of the latest good reading; 0: none.
  std::array<FieldReading, kFieldCount> fields;
  std::vector<LinkReadings> links;  // By part - 1, as far as readings came.
  std::vector<GpuProcess> processes;
  int64_t processes_boot_ns = 0;  // 0: no list yet, or none can be had (see Field::kProcessCount).
  GpuParts parts;
  uint32_t opened = 0;   // How often it was opened since the source was made.
  bool counted = false;  // By the present driver process: else it has been taken away.

  const FieldReading& operator[](Field field) const noexcept { return fields[static_cast<size_t>(field)]; }
  // The fact of that key; empty when there is none.
  std::string_view Fact(std::string_view key) const noexcept;
};

enum class StartReason : uint8_t { kFirst, kCrash, kExited, kHang, kKilled, kReload, kProtocol, kCount };
std::string_view StartReasonName(StartReason reason) noexcept;

// Why there are no readings, for people and for `doctor`.
enum class DriverFault : uint8_t {
  kNone,
  kLibraryNotFound,
  kNoPermission,
  kDriverNotLoaded,
  kVersionMismatch,  // The kernel's driver is newer or older than the library: reboot or reload it.
  kNoGpus,
  kLibraryError,  // Any other code of the library; see `library_code`.
  kCannotStart,   // The process could not be started, or ended before it spoke.
  kCrashed,
  kHung,
  kStuckInKernel,  // Killed, but the kernel will not let go of it.
  kBadMessage,
  kReleased,  // Ended on request, until Resume.
};

// What has become of the driver process, in order.
struct DriverChange {
  enum Kind : uint8_t { kStarted, kCrashed, kHung, kKilled, kStuck, kReleased } kind = kStarted;
  int64_t boot_ns = 0;
  std::string detail;  // A sentence; may be empty.
};

struct DriverState {
  bool up = false;  // Running, and the library is open.
  int pid = -1;     // -1: no process.
  std::array<uint64_t, static_cast<size_t>(StartReason::kCount)> starts{};
  uint64_t hung_calls = 0;
  uint32_t gpus_used = 0, gpus_left_out = 0;
  int64_t last_heartbeat_boot_ns = 0;
  uint64_t library_calls = 0, dropped_messages = 0;  // Of the present process.
  uint64_t gpus_watched = 0;                         // Whose events the present process is told.
  uint64_t messages = 0, events = 0, events_dropped = 0;
  std::vector<int> stuck_pids;  // Killed processes that the kernel has not ended within a second.
  DriverFault fault = DriverFault::kNone;
  int32_t library_code = 0;
  std::string last_error;  // A sentence; empty when all is well.
  std::string library_path, library_version, driver_version, cuda_version;
};

// Used by one thread. Poll never waits and, while nothing changes in shape, does not allocate. It
// wants to be called at least once per deadline; a longer pause (a suspended machine) is no fault of
// the driver and starts its deadlines anew. `now` must be of the machine's clock.
class NvmlSource {
 public:
  explicit NvmlSource(SourceOptions options);
  ~NvmlSource();  // Kills the driver. Waits at most 50 ms.
  NvmlSource(const NvmlSource&) = delete;
  NvmlSource& operator=(const NvmlSource&) = delete;

  // Takes what has arrived, judges deadlines, starts and ends the process. Cheap when nothing is there.
  void Poll(Instant now);
  // Ends the present process; the next Poll starts another without back-off.
  void Reload();
  // Ends the process, which frees all device handles; Poll starts none until Resume. `why` becomes the
  // driver's last_error. Does nothing when it is suspended already.
  void Suspend(std::string why);
  void Resume();
  // No process of ours has a device open, not even one that is still dying.
  bool quiet() const noexcept;

  // All GPUs that were ever seen, by index. Their number and their facts change only in Poll.
  std::span<const Gpu> gpus() const noexcept;
  // What has happened since the last call, oldest first, in place of what `out` had. A few hundred are
  // kept at most; further ones are counted in events_dropped.
  void TakeEvents(std::vector<DeviceEvent>& out);
  void TakeChanges(std::vector<DriverChange>& out);
  const DriverState& driver() const noexcept;
  // Fields of all GPUs by the status of their latest reading.
  std::array<uint32_t, kReadStatusCount> FieldsByStatus() const noexcept;
  // Becomes readable when the driver has sent something or has ended; -1 while none runs. Another one
  // after each start.
  int fd() const noexcept;
  // When Poll has something to do even if fd() stays silent (start, deadline), in CLOCK_BOOTTIME ns.
  int64_t NextDueBootNs() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens::nvml
