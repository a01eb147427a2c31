// Telemetry of actors ("ring kernels"), and a collector for other runtimes.
//
// The runtime of ring_kernel.h records it by itself. Programs that run actors otherwise, with an event loop
// for example, record it with a TelemetryCollector. Telemetry that is off costs nothing.
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
  kDeactivated,  // queues messages but handles none
  kTerminating,
  kTerminated,
  kFailed,  // an exception ended its loop
};
// "created", "launched" … Static storage.
std::string_view KernelStateName(KernelState state) noexcept;

// Why a message did not reach a kernel's handler, or a reply its receiver.
enum class DropReason : uint8_t {
  kRejected,    // the queue was full; the sender got an error
  kTimeout,     // the queue was full until the sender's deadline; the sender got an error
  kOldest,      // removed from a full queue to make room
  kNewest,      // sent to a full queue
  kTerminated,  // queued, as message or reply, when the kernel was terminated
  kReply,       // a reply dropped or replaced because the queue of replies was full
};
inline constexpr size_t kDropReasons = 6;
// "rejected", "timeout", "oldest", "newest", "terminated", "reply". Static storage.
std::string_view DropReasonName(DropReason reason) noexcept;

// A consistent snapshot of one kernel, a plain value. Counts, latencies and throughput begin at the start or
// the last reset, whichever is later. Throughput is in processed messages per second.
struct KernelTelemetry {
  std::string kernel_id;
  KernelState state = KernelState::kCreated;
  uint64_t messages_received = 0;                   // accepted by the queue
  uint64_t messages_sent = 0;                       // replies accepted by the queue of replies
  uint64_t messages_processed = 0;                  // handled without an exception
  uint64_t errors = 0;                              // exceptions of handlers, and errors recorded
  uint64_t dropped = 0;                             // the sum of dropped_by
  std::array<uint64_t, kDropReasons> dropped_by{};  // by DropReason
  std::string last_error;                           // its first 255 bytes; cleared by a reset

  std::optional<std::chrono::system_clock::time_point> start_time;         // none: never activated
  std::optional<std::chrono::system_clock::time_point> last_message_time;  // received, answered or failed
  Duration uptime{};  // from the start to the end or now; unaffected by resets
  double throughput = 0, throughput_1s = 0, throughput_10s = 0, throughput_60s = 0;
  double error_rate = 0;  // errors per processed message; 1 when no message was processed

  Distribution wait_seconds;                                        // in the queue, until the handler began
  Distribution service_seconds;                                     // in the handler, exceptions included
  uint64_t queue_depth = 0, queue_high_water = 0, queue_limit = 0;  // limit 0: unknown
  double cpu_seconds = kNotMeasured;                                // of the kernel's thread
  double cpu_ratio = kNotMeasured;  // of one processor, over the uptime since the reset
};

// Summary of several kernels. Ended kernels count in the sums, not in kernel_count.
struct KernelSummary {
  uint64_t kernel_count = 0;
  uint64_t total_messages = 0;  // processed
  uint64_t total_errors = 0, total_dropped = 0;
  double aggregate_throughput = 0;  // the sum over kernels
  std::vector<KernelTelemetry> per_kernel;
};

namespace internal {
class RecordedKernel;
class KernelDirectory;
}  // namespace internal

// Records for one kernel of a collector without a look-up. A copyable handle that may outlive the collector.
// Thread-safe with exact counts; recording neither fails nor allocates. An empty handle, from a collector
// that is off, records nothing.
class KernelRecorder {
 public:
  KernelRecorder() = default;
  explicit operator bool() const noexcept { return to_ != nullptr; }

  // Sets the state. The first kActive is the kernel's start; kTerminated ends its uptime.
  void SetState(KernelState state) const noexcept;
  void SetQueueLimit(uint64_t limit) const noexcept;
  void SetQueueDepth(uint64_t depth) const noexcept;  // after messages left the queue other than by Take
  // Records that the queue accepted a message and has `depth` of them now. Starts a kernel that has no state
  // yet. Returns the current time, for Begin.
  TimePoint Receive(uint64_t depth = 0) const noexcept;
  // For kernels that handle one message at a time: the handler begins with the message received at
  // `received`, and finishes it (Done) or fails (Error).
  void Begin(uint64_t depth, TimePoint received) const noexcept;
  void Done(bool sent) const noexcept;
  // For other kernels: a message left the queue for its handler. NaN: the wait is unknown.
  void Take(uint64_t depth, double wait_seconds) const noexcept;
  // Records that a handler returned; `sent`: a reply was sent.
  void Processed(double service_seconds, bool sent) const noexcept;
  // Records that a reply was sent. For a kernel that never calls Done or Processed, the first reply after a
  // Receive counts its message as processed.
  void Send() const noexcept;
  void Error(std::string_view what, double service_seconds = kNotMeasured) const noexcept;
  void Drop(DropReason reason, uint64_t count = 1) const noexcept;
  void AddCpu(double seconds) const noexcept;

  // Telemetry of the kernel, also after the collector removed it. None for an empty handle.
  std::optional<KernelTelemetry> Telemetry() const;

 private:
  friend class TelemetryCollector;
  explicit KernelRecorder(std::shared_ptr<internal::RecordedKernel> to) noexcept : to_(std::move(to)) {}
  std::shared_ptr<internal::RecordedKernel> to_;
};

// Telemetry of kernels by id. Thread-safe. A registry exports it, too, as ring_kernel.* with the attribute
// ring_kernel.id, also after the collector's end; exported counts are unaffected by resets.
class TelemetryCollector {
 public:
  // `exported` must outlive the collector; null: not exported.
  explicit TelemetryCollector(bool enabled = true, Registry* exported = &Registry::Process());
  ~TelemetryCollector();
  TelemetryCollector(TelemetryCollector&&) noexcept;

  bool enabled() const noexcept { return directory_ != nullptr; }
  // Returns the kernel with this id, adding it if needed. Empty when the collector is off.
  KernelRecorder Kernel(std::string_view id);
  // Returns the kernel with this id, also an ended one, or an empty handle.
  KernelRecorder Find(std::string_view id) const;

  // Record by id, at the cost of a look-up.
  void RecordReceive(std::string_view id) { Kernel(id).Receive(); }
  void RecordSend(std::string_view id) { Kernel(id).Send(); }
  void RecordProcessed(std::string_view id, double service_seconds = kNotMeasured) {
    Kernel(id).Processed(service_seconds, false);
  }
  void RecordError(std::string_view id, std::string_view what = {}) { Kernel(id).Error(what); }

  // None if the collector is off or there is no such kernel.
  std::optional<KernelTelemetry> Telemetry(std::string_view id) const;
  std::vector<KernelTelemetry> AllTelemetry() const;  // by id
  KernelSummary Summary() const;
  // Resets counts, latencies and throughput of a kernel, or of all for an empty id; start_time stays. Removes
  // ended kernels.
  void Reset(std::string_view id = {}) noexcept;

 private:
  std::unique_ptr<internal::KernelDirectory> directory_;
};

}  // namespace gpulens
