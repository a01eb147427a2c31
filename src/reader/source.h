// ReaderSource: the agent's side of a reader process. Starts it, reads what it sends, kills it when it is
// stuck, starts it again with back-off, and keeps the latest reading of every field of every device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/clock.h"
#include "reader/device_table.h"
#include "reader/reader_child.h"

namespace gpulens::reader {

// A change of the reader process.
struct ReaderChange {
  enum Kind : uint8_t { kStarted, kCrashed, kHung, kKilled, kStuck, kReleased } kind = kStarted;
  int64_t boot_ns = 0;
  std::string detail;  // A sentence; may be empty.
};

struct ReaderState {
  bool up = false;  // Running, and the library is open.
  int pid = -1;     // -1: no process.
  std::array<uint64_t, static_cast<size_t>(StartReason::kCount)> starts{};
  uint64_t hung_calls = 0;
  // Devices. `unread`: no thread could be made for them.
  uint32_t used = 0, left_out = 0, hung = 0, unread = 0;
  int64_t last_heartbeat_boot_ns = 0;
  uint64_t library_calls = 0, dropped_messages = 0;  // Of the present process.
  uint64_t messages = 0;
  // What the present process uses: resident bytes, open descriptors, threads. 0: unknown.
  uint64_t memory = 0, files = 0, threads = 0;
  // Devices whose events the present process receives; 0 while the thread that waits for them hangs.
  uint64_t watched = 0;
  CallNumber waiting_call = kNoCall;  // That the thread which waits for events does not come back from.
  int64_t waiting_since_boot_ns = 0;
  std::vector<int> stuck_pids;  // Killed processes that the kernel has not ended within a second.
  ReaderFault fault = ReaderFault::kNone;
  int32_t library_code = 0;
  std::string last_error;  // A sentence; empty when all is well.
  std::string library_path, library_version, driver_version, runtime_version;
};

// Used by one thread. Poll never waits and, while nothing changes in shape, does not allocate. It
// wants to be called at least once per deadline; a longer pause (a suspended machine) is no fault of
// the process and restarts its deadlines. `now` must be of the machine's clock. `vendor` outlives it.
class ReaderSource {
 public:
  // `vendor_state`: null for a vendor without messages of its own.
  ReaderSource(const VendorTables& vendor, SourceOptions options,
               std::unique_ptr<VendorState> vendor_state = nullptr);
  ReaderSource(const ReaderSource&) = delete;
  ReaderSource& operator=(const ReaderSource&) = delete;

  // Takes what has arrived, checks deadlines, starts and ends the process. Cheap when nothing is there.
  void Poll(Instant now);
  // Ends the present process; the next Poll starts another without back-off.
  void Reload();
  // Ends the process, which frees all device handles; Poll starts none until Resume. `why` becomes the
  // process's last_error. Does nothing when it is suspended already.
  void Suspend(std::string why);
  void Resume();
  // No process of ours has a device open, not even one that is still dying.
  bool quiet() const noexcept;

  // All devices that were ever seen, by index. Their number and their facts change only in Poll.
  DeviceRange devices() const noexcept { return table_.devices(); }
  const ReaderState& state() const noexcept { return state_; }
  // What has happened since the last call, oldest first, in place of what `out` had. A few dozen are kept.
  void TakeChanges(std::vector<ReaderChange>& out);
  // "nvmlEventSetWait_v2 has not returned for 12 s: no events are reported"; empty when all is well.
  std::string Trouble(Instant now) const;
  // Fields of all devices by the status of their latest reading.
  std::array<uint32_t, kReadStatusCount> FieldsByStatus() const noexcept;
  // Becomes readable when the process has sent something or has ended; -1 while none runs. Another one
  // after each start.
  int fd() const noexcept { return link_.socket.get(); }
  // When Poll has something to do even if fd() stays silent (start, deadline), in CLOCK_BOOTTIME ns.
  int64_t NextDueBootNs() const noexcept;

 protected:
  // The one given to the constructor.
  VendorState& vendor_state() noexcept { return *vendor_state_; }

 private:
  void Start(Instant now);
  void Change(ReaderChange::Kind kind, std::string detail);
  void End();
  void ClearProcess() noexcept;
  void Schedule(StartReason reason, Instant now);
  std::string Use() const;
  std::string Blame(bool in_call, Instant now);
  void ForgetFaults() noexcept;
  void Kill(ReaderFault fault, std::string text, StartReason reason, Instant now);
  void Fail(ReaderFault fault, std::string text);
  void CheckEnd(Instant now);
  void Drain(Instant now);
  Status Take(const ReaderMessage& message, Instant now);
  Status TakeHeartbeat(const HeartbeatMessage& beat, Instant now);
  Status TakeLibrary(const LibraryReport& report);
  void CountDevices() noexcept;
  void CheckDeadlines(Instant now);
  void CheckWaiting(CallSlot::View slot, Instant now);
  bool BeginDevice(uint32_t index, Instant now);
  void BeginNext(Instant now);
  void RetryLeftOut(Instant now);
  void RetryAway(Instant now);

  const VendorTables& vendor_;
  SourceOptions options_;
  ReaderLink link_;
  ReaderState state_;
  const std::unique_ptr<VendorState> vendor_state_;
  DeviceTable table_;
  CrashHistory crashes_;
  std::vector<std::byte> buffer_;
  ProcessReaper reaper_;
  std::vector<ReaderChange> changes_;
  Backoff backoff_;
  Duration retry_lost_{};
  StartReason next_reason_ = StartReason::kFirst;
  int64_t next_start_ns_ = 0, started_ns_ = 0, alive_ns_ = 0, last_poll_ns_ = 0, away_since_ns_ = 0;
  uint64_t to_begin_ = 0;  // Devices that are begun one at a time.
  int64_t next_begin_ns_ = 0;
  bool suspended_ = false, spoke_ = false, reported_ = false, ready_ = false;
};

}  // namespace gpulens::reader
