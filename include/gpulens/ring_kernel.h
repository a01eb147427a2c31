// Ring kernels: persistent actors, each a thread with a queue of messages, a queue of replies, and telemetry.
//
//   gpulens::RingKernelRuntime runtime({.enable_telemetry = true});
//   auto square = runtime.Launch<int, long>("square", [](int x) { return long{x} * x; });
//   if (!square || !runtime.Activate("square").ok() || !square->Send(7, 1s).ok()) return 1;
//   long reply = square->Receive(1s).value_or(-1);
//
// Everything is thread-safe. Handlers run on their kernel's thread only. An exception thrown by a handler is
// counted, and the kernel goes on with the next message; one thrown by a loop ends the kernel as kFailed. A
// runtime cannot be used in a child after fork().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpulens/kernel_telemetry.h>
#include <gpulens/ring_message.h>
#include <gpulens/status.h>
#include <gpulens/when_full.h>

namespace gpulens {

// Options of both queues of a kernel. A full queue of replies blocks the kernel or drops replies.
struct KernelOptions {
  size_t queue_size = 4096;  // 1 to 16,777,216 messages
  WhenFull when_full = WhenFull::kBlock;
  // How long the kernel and its receivers poll for a message before they sleep. Saves two wake-ups per round
  // trip at the cost of a busy processor.
  Duration spin{};
};

struct RingRuntimeOptions {
  bool enable_telemetry = false;
  // Exports the telemetry as ring_kernel.*; must outlive the runtime. Null: not exported.
  Registry* exported = &Registry::Process();
};

// Handle of a kernel with messages In and replies Out; void: no replies. Copyable; may outlive the runtime,
// after which all calls return kUnavailable. Calls also return kUnavailable once the kernel is terminated, or
// has failed and all its replies were received, and kInvalidArgument before it was activated.
template <class In, class Out>
class RingKernel {
 public:
  // kTimeout: the queue stayed full. kExhausted: it is full, with WhenFull::kReject.
  Status Send(In message, Duration timeout = Duration::max()) {
    internal::Room<In> room(std::move(message));
    return internal::SendTo(*actor_, room.at(), room.full, timeout);
  }
  // Never waits. On false, `message` is unchanged.
  bool TrySend(In&& message) noexcept {
    internal::Room<In> room(std::move(message));
    const bool sent = internal::TrySendTo(*actor_, room.at(), room.full);
    if (!sent && room.full) {
      message.~In();
      ::new (&message) In(std::move(*room));
    }
    return sent;
  }
  // Returns the oldest reply. kTimeout: there was none in time.
  Result<Out> Receive(Duration timeout = Duration::max())
    requires(!std::is_void_v<Out>)
  {
    internal::Room<Out> room;
    if (Status status = internal::ReceiveFrom(*actor_, room.at(), room.full, timeout); !status.ok())
      return status;
    return std::move(*room);
  }

 private:
  friend class RingKernelRuntime;
  explicit RingKernel(std::shared_ptr<internal::RingActor> actor) noexcept : actor_(std::move(actor)) {}
  std::shared_ptr<internal::RingActor> actor_;
};

// A loop's access to its kernel, for the kernel's thread only, while the loop runs.
template <class In, class Out>
class RingContext {
 public:
  explicit RingContext(internal::RingActor& actor) noexcept : actor_(actor) {}
  // Returns the next message, once the kernel is active. kUnavailable: the loop should end.
  Result<In> Receive(Duration timeout = Duration::max()) {
    internal::Room<In> room;
    if (Status status = internal::Take(actor_, room.at(), room.full, timeout); !status.ok()) return status;
    return std::move(*room);
  }
  // Sends a reply. The first one after a Receive counts its message as processed.
  Status Send(std::conditional_t<std::is_void_v<Out>, internal::Nothing, Out> reply)
    requires(!std::is_void_v<Out>)
  {
    internal::Room<Out> room(std::move(reply));
    return internal::Put(actor_, room.at(), room.full);
  }
  bool should_terminate() const noexcept { return internal::ShouldTerminate(actor_); }

 private:
  internal::RingActor& actor_;
};

namespace internal {
template <class In, class Out>
struct LoopBody final : KernelBody {
  explicit LoopBody(std::function<void(RingContext<In, Out>&)> to_run) : loop(std::move(to_run)) {}
  void Run(RingActor& actor) override {
    RingContext<In, Out> context(actor);
    loop(context);
  }
  std::function<void(RingContext<In, Out>&)> loop;
};
class RingRuntime;
}  // namespace internal

// Owns kernels. The destructor terminates all and waits for their handlers. Functions with an id return
// kInvalidArgument for an unknown one, with a list of the known ones, and for a kernel in another state.
class RingKernelRuntime {
 public:
  explicit RingKernelRuntime(const RingRuntimeOptions& options = {});
  ~RingKernelRuntime();
  RingKernelRuntime(const RingKernelRuntime&) = delete;
  RingKernelRuntime& operator=(const RingKernelRuntime&) = delete;

  // Creates a kernel, which does nothing until it is activated. kInvalidArgument: the id is in use, empty or
  // longer than 255 bytes; there is no handler; the queue size is out of range. kExhausted: no memory for the
  // queues.
  template <class In, class Out>
  Result<RingKernel<In, Out>> Launch(std::string_view id, std::function<Out(In)> handler,
                                     const KernelOptions& options = {}) {
    return Add<In, Out>(
        id, handler ? std::make_unique<internal::HandlerBody<In, Out>>(std::move(handler)) : nullptr,
        options);
  }
  // The same with a loop, which receives until it gets kUnavailable. When it returns, the kernel is
  // terminated; queued replies may still be received.
  template <class In, class Out>
  Result<RingKernel<In, Out>> LaunchLoop(std::string_view id, std::function<void(RingContext<In, Out>&)> loop,
                                         const KernelOptions& options = {}) {
    return Add<In, Out>(id, loop ? std::make_unique<internal::LoopBody<In, Out>>(std::move(loop)) : nullptr,
                        options);
  }

  Status Activate(std::string_view id);    // a launched kernel. kExhausted: no thread can be started
  Status Deactivate(std::string_view id);  // an active kernel: it finishes its message and takes no other
  Status Reactivate(std::string_view id);  // a deactivated kernel
  // Wakes all waiters, drops queued messages and waits for the handler; the id is then free. kTimeout: the
  // handler is still running; the kernel remains, terminating, and Terminate may be called again.
  // kInvalidArgument when called by a handler.
  Status Terminate(std::string_view id, Duration timeout = std::chrono::seconds(5));
  Status TerminateAll(
      Duration timeout = std::chrono::seconds(10));  // terminates all and returns the first error

  Result<KernelState> state(std::string_view id) const;
  std::vector<std::string> kernel_ids() const;
  bool telemetry_enabled() const noexcept;

  // Telemetry of a kernel; that of the last 1,000 ended ones is kept until a reset. None if telemetry is off
  // or there was no such kernel.
  std::optional<KernelTelemetry> telemetry(std::string_view id) const;
  std::vector<KernelTelemetry> all_telemetry() const;  // by id
  KernelSummary Summary() const;                       // only kernel_count when telemetry is off
  // Resets counts, latencies and throughput of a kernel, or of all for an empty id. Exported counts are
  // unaffected.
  void ResetTelemetry(std::string_view id = {}) noexcept;

 private:
  template <class In, class Out>
  Result<RingKernel<In, Out>> Add(std::string_view id, std::unique_ptr<internal::KernelBody> body,
                                  const KernelOptions& options) {
    const internal::MessageForm* replies = nullptr;
    if constexpr (!std::is_void_v<Out>) replies = &internal::FormOf<Out>();
    auto actor = AddActor(id, std::move(body), internal::FormOf<In>(), replies, options);
    if (!actor) return actor.error();
    return RingKernel<In, Out>(std::move(*actor));
  }
  Result<std::shared_ptr<internal::RingActor>> AddActor(std::string_view id,
                                                        std::unique_ptr<internal::KernelBody> body,
                                                        const internal::MessageForm& messages,
                                                        const internal::MessageForm* replies,
                                                        const KernelOptions& options);

  std::unique_ptr<internal::RingRuntime> runtime_;
};

}  // namespace gpulens
