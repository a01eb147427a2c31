// What actors ("ring kernels") tell about themselves, and a collector for runtimes that are not ours.
//
// The runtime of ring_kernel.h records all of this by itself. Who runs actors in another way, an event loop
// for example, records it with a TelemetryCollector. All of this costs nothing while it is off.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/registry.h>
#include <gpulens/stats.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

enum class KernelState : uint8_t {
  kCreated,
  kLaunched,
  kActive,
  kDeactivated,  // takes messages in, works on none
  kTerminating,
  kTerminated,
  kFailed,  // its loop ended by an exception
};
// "created", "launched" … Static storage.
std::string_view KernelStateName(KernelState state) noexcept;

// Why a message that was offered to a kernel never reached its handler, or a reply nobody.
enum class DropReason : uint8_t {
  kRejected,    // the queue was full; the sender was told
  kTimeout,     // there was no room by the sender's deadline; the sender was told
  kOldest,      // taken out of a full queue to make room
  kNewest,      // not let into a full queue
  kTerminated,  // still queued when the kernel was terminated, replies included
  kReply,       // a reply that a full queue of replies did not take, or took out
};
inline constexpr size_t kDropReasons = 6;
// "rejected", "timeout", "oldest", "newest", "terminated", "reply". Static storage.
std::string_view DropReasonName(DropReason reason) noexcept;

// One kernel's numbers at one instant: they never contradict each other. A plain value. Counts, latencies and
// throughput begin at the start or at the last reset, whichever is later; throughput is of processed
// messages, per second.
struct KernelTelemetry {
  std::string kernel_id;
  KernelState state = KernelState::kCreated;
  uint64_t messages_received = 0;   // that the queue took
  uint64_t messages_sent = 0;       // replies that the queue of replies took
  uint64_t messages_processed = 0;  // whose handler came back without an exception
  uint64_t errors = 0;              // exceptions that left a handler, and what was recorded as one
  uint64_t dropped = 0;             // the sum of dropped_by
  std::array<uint64_t, kDropReasons> dropped_by{};  // by DropReason
  std::string last_error;                           // at most 255 bytes of it; a reset forgets it

  std::optional<std::chrono::system_clock::time_point> start_time;         // none: never activated
  std::optional<std::chrono::system_clock::time_point> last_message_time;  // taken in, answered or failed
  Duration uptime{};  // since the start, whatever was reset; stands still at the end
  double throughput = 0, throughput_1s = 0, throughput_10s = 0, throughput_60s = 0;
  double error_rate = 0;  // errors for each message processed; 1 when there are errors alone

  Distribution wait_seconds;                                        // in the queue, until the handler began
  Distribution service_seconds;                                     // the handler's, exceptions included
  uint64_t queue_depth = 0, queue_high_water = 0, queue_limit = 0;  // limit 0: not known
  double cpu_seconds = kNotMeasured;                                // of the kernel's thread
  double cpu_ratio = kNotMeasured;  // of one processor, over the uptime since the reset
};

// Of several kernels. Kernels that have ended count in the sums, not in kernel_count.
struct KernelSummary {
  uint64_t kernel_count = 0;
  uint64_t total_messages = 0;  // processed
  uint64_t total_errors = 0, total_dropped = 0;
  double aggregate_throughput = 0;  // the sum of theirs
  std::vector<KernelTelemetry> per_kernel;
};

namespace internal {
class RecordedKernel;
class KernelDirectory;
}  // namespace internal

// Records for one kernel of a collector, without looking it up. A copyable handle, which outlives the
// collector. Any thread; counts are exact under any number of them; recording neither fails nor allocates.
// Without a kernel (a collector that is off): records nothing.
class KernelRecorder {
 public:
  KernelRecorder() = default;
  explicit operator bool() const noexcept { return to_ != nullptr; }

  // kActive: the first time is the kernel's start. kTerminated: its uptime stands still, another start is a
  // new one.
  void SetState(KernelState state) const noexcept;
  void SetQueueLimit(uint64_t limit) const noexcept;
  void SetQueueDepth(uint64_t depth) const noexcept;  // when messages left it in another way than by Take
  // The queue took a message and has `depth` of them now. Starts a kernel that has no state yet. When that
  // was, for Begin.
  TimePoint Receive(uint64_t depth = 0) const noexcept;
  // For a kernel that works on one message at a time: the handler begins with one that was received then, and
  // is done with it, or fails (Error).
  void Begin(uint64_t depth, TimePoint received) const noexcept;
  void Done(bool sent) const noexcept;
  // For others. A message left the queue for its handler. NaN: the wait is not known.
  void Take(uint64_t depth, double wait_seconds) const noexcept;
  // A handler came back; `sent`: with a reply that was sent.
  void Processed(double service_seconds, bool sent) const noexcept;
  // A reply was sent. Until Done or Processed was called for the kernel, the first reply after a Receive
  // counts as its message processed, since nothing else tells.
  void Send() const noexcept;
  void Error(std::string_view what, double service_seconds = kNotMeasured) const noexcept;
  void Drop(DropReason reason, uint64_t count = 1) const noexcept;
  void AddCpu(double seconds) const noexcept;

  // The kernel's, also after the collector has forgotten it. None: there is no kernel.
  std::optional<KernelTelemetry> Telemetry() const;

 private:
  friend class TelemetryCollector;
  explicit KernelRecorder(std::shared_ptr<internal::RecordedKernel> to) noexcept : to_(std::move(to)) {}
  std::shared_ptr<internal::RecordedKernel> to_;
};

// Telemetry of kernels by their ids. Thread-safe. What it has recorded is told by a registry, too, as
// ring_kernel.* with the attribute ring_kernel.id, also after the collector's end: exported counts never
// fall, whatever is reset.
class TelemetryCollector {
 public:
  // `exported` outlives the collector; null: not exported.
  explicit TelemetryCollector(bool enabled = true, Registry* exported = &Registry::Process());
  ~TelemetryCollector();
  TelemetryCollector(TelemetryCollector&&) noexcept;

  bool enabled() const noexcept { return directory_ != nullptr; }
  // The kernel with this id, made known by it. Empty when the collector is off.
  KernelRecorder Kernel(std::string_view id);
  // The same of one that is known, also of one that has ended; else empty.
  KernelRecorder Find(std::string_view id) const;

  // By id: a look-up dearer than a KernelRecorder.
  void RecordReceive(std::string_view id) { Kernel(id).Receive(); }
  void RecordSend(std::string_view id) { Kernel(id).Send(); }
  void RecordProcessed(std::string_view id, double service_seconds = kNotMeasured) {
    Kernel(id).Processed(service_seconds, false);
  }
  void RecordError(std::string_view id, std::string_view what = {}) { Kernel(id).Error(what); }

  // None: the collector is off, or there is no such kernel.
  std::optional<KernelTelemetry> Telemetry(std::string_view id) const;
  std::vector<KernelTelemetry> AllTelemetry() const;  // by id
  KernelSummary Summary() const;
  // Begins counts, latencies and throughput of a kernel anew, of all without an id; start_time stays. A
  // kernel that has ended is forgotten.
  void Reset(std::string_view id = {}) noexcept;

 private:
  std::unique_ptr<internal::KernelDirectory> directory_;
};

}  // namespace gpulens
