// DriverSource: the agent's side of a reader process. Starts it, reads what it sends, kills it when it is
// stuck, starts it again with back-off, and keeps the latest reading of every field of every device.
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
#include "reader/device.h"

namespace gpulens::driver {

struct SourceOptions {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;    // Before those that the source adds: "reader", "amdsmi".
  std::vector<std::string> environment;  // "KEY=value", added to ours.
  std::string library_path;              // Empty: the usual places.
  std::string build_id;
  Duration interval = std::chrono::seconds(1);
  Duration medium = std::chrono::seconds(10), slow = std::chrono::seconds(60);
  Duration deadline{0};  // For a call and for a heartbeat; 0: two intervals.
  // For opening the library and waking a device, which may rightly take long.
  Duration slow_deadline = std::chrono::seconds(30);
  Duration backoff_first = std::chrono::milliseconds(100), backoff_limit = std::chrono::seconds(30);
  // The limit while devices answer before the process ends: their values must not run out meanwhile.
  Duration backoff_limit_answering = std::chrono::seconds(3);
  Duration healthy = std::chrono::minutes(1);  // After so long the back-off begins anew.
  Duration retry_left_out = std::chrono::minutes(5);
  // A device lost or hung for so long: the library is opened anew, which alone can find it again, and ends
  // the call. Twice as late each time, up to 16 times.
  Duration retry_lost = std::chrono::seconds(60);
  std::string device_folder;  // Empty: the kernel driver's. See DriverOptions.
};

// What has become of the reader process, in order.
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
  // Devices. `unread`: no thread could be made for them.
  uint32_t used = 0, left_out = 0, hung = 0, unread = 0;
  int64_t last_heartbeat_boot_ns = 0;
  uint64_t library_calls = 0, dropped_messages = 0;  // Of the present process.
  uint64_t messages = 0;
  // What the present process uses: resident bytes, open descriptors, threads. 0: not told.
  uint64_t memory = 0, files = 0, threads = 0;
  // Devices whose events the present process is told; 0 while the thread that waits for them hangs.
  uint64_t watched = 0;
  CallNumber waiting_call = kNoCall;  // That the thread which waits for events does not come back from.
  int64_t waiting_since_boot_ns = 0;
  std::vector<int> stuck_pids;  // Killed processes that the kernel has not ended within a second.
  Fault fault = Fault::kNone;
  int32_t library_code = 0;
  std::string last_error;  // A sentence; empty when all is well.
  std::string library_path, library_version, driver_version, runtime_version;
};

// Used by one thread. Poll never waits and, while nothing changes in shape, does not allocate. It
// wants to be called at least once per deadline; a longer pause (a suspended machine) is no fault of
// the driver and starts its deadlines anew. `now` must be of the machine's clock. `vendor` outlives it.
class DriverSource {
 public:
  // `vendor_state`: null for a vendor without messages of its own.
  DriverSource(const Vendor& vendor, SourceOptions options,
               std::unique_ptr<VendorState> vendor_state = nullptr);
  ~DriverSource();  // Kills the driver. Waits at most 50 ms.
  DriverSource(const DriverSource&) = delete;
  DriverSource& operator=(const DriverSource&) = delete;

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

  // All devices that were ever seen, by index. Their number and their facts change only in Poll.
  Devices devices() const noexcept;
  const DriverState& driver() const noexcept;
  // What has happened since the last call, oldest first, in place of what `out` had. A few dozen are kept.
  void TakeChanges(std::vector<DriverChange>& out);
  // "nvmlEventSetWait_v2 has not returned for 12 s: no events are told"; empty when all is well.
  std::string Trouble(Instant now) const;
  // Fields of all devices by the status of their latest reading.
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

}  // namespace gpulens::driver
