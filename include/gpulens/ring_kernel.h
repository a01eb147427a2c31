// Ring kernels: persistent actors, each a thread with a queue of messages and one of replies, and telemetry.
//
//   gpulens::RingKernelRuntime runtime({.enable_telemetry = true});
//   auto square = runtime.Launch<int, long>("square", [](int x) { return long{x} * x; });
//   if (!square || !runtime.Activate("square").ok() || !square->Send(7, 1s).ok()) return 1;
//   long reply = square->Receive(1s).value_or(-1);
//
// Everything is thread-safe. Handlers run on their kernel's thread only. An exception that leaves a handler
// is counted, and the next message follows; one that leaves a loop ends the kernel: kFailed. A runtime does
// not pass over fork().
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

namespace gpulens {

enum class WhenFull : uint8_t {
  kBlock,       // the sender waits for room
  kReject,      // kExhausted
  kDropOldest,  // out goes what has waited longest
  kDropNewest,  // what is sent goes nowhere
};

// Of both queues of a kernel; what does not fit among the replies blocks the kernel or is dropped.
struct KernelOptions {
  size_t queue_size = 4096;  // 1 to 16,777,216 messages
  WhenFull when_full = WhenFull::kBlock;
  // How long the kernel and who receives from it look for a message before they sleep. A round trip becomes
  // shorter by two wake-ups, for a processor that is busy meanwhile.
  Duration spin{};
};

struct RingRuntimeOptions {
  bool enable_telemetry = false;
  // Tells the telemetry as ring_kernel.*, too; outlives the runtime. Null: not.
  Registry* exported = &Registry::Process();
};

// A handle of a kernel that takes In and answers Out; void: it does not answer. Copyable, outlives the
// runtime: then everything is kUnavailable. Also kUnavailable: the kernel is terminated, at once, or has
// failed and all its replies were received. kInvalidArgument: it was not activated yet.
template <class In, class Out>
class RingKernel {
 public:
  // kTimeout: no room by then. kExhausted: full, and WhenFull::kReject.
  Status Send(In message, Duration timeout = Duration::max()) {
    internal::Room<In> room(std::move(message));
    return internal::SendTo(*actor_, room.at(), room.full, timeout);
  }
  // Never waits. False: not sent; the message stays where it is.
  bool TrySend(In&& message) noexcept {
    internal::Room<In> room(std::move(message));
    const bool sent = internal::TrySendTo(*actor_, room.at(), room.full);
    if (!sent && room.full) {
      message.~In();
      ::new (&message) In(std::move(*room));
    }
    return sent;
  }
  // The oldest reply. kTimeout: there was none by then.
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

// What a loop has of its kernel: for the kernel's thread alone, while the loop runs.
template <class In, class Out>
class RingContext {
 public:
  explicit RingContext(internal::RingActor& actor) noexcept : actor_(actor) {}
  // The next message, when the kernel is active. kUnavailable: end.
  Result<In> Receive(Duration timeout = Duration::max()) {
    internal::Room<In> room;
    if (Status status = internal::Take(actor_, room.at(), room.full, timeout); !status.ok()) return status;
    return std::move(*room);
  }
  // A reply. The first one after a Receive counts its message as processed.
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

// Owns kernels. Its end terminates all and waits for their handlers. No kernel: kInvalidArgument, which lists
// those there are; a state from which there is no way: kInvalidArgument, which tells it.
class RingKernelRuntime {
 public:
  explicit RingKernelRuntime(const RingRuntimeOptions& options = {});
  ~RingKernelRuntime();
  RingKernelRuntime(const RingKernelRuntime&) = delete;
  RingKernelRuntime& operator=(const RingKernelRuntime&) = delete;

  // A kernel with queues, which does nothing until it is activated. kInvalidArgument: the id is taken, is
  // empty or longer than 255 bytes; no handler; a queue of no size. kExhausted: no memory for the queues.
  template <class In, class Out>
  Result<RingKernel<In, Out>> Launch(std::string_view id, std::function<Out(In)> handler,
                                     const KernelOptions& options = {}) {
    return Add<In, Out>(
        id, handler ? std::make_unique<internal::HandlerBody<In, Out>>(std::move(handler)) : nullptr,
        options);
  }
  // The same with a loop of its own, which receives until it is told to end. When it returns, the kernel is
  // terminated; replies may still be received.
  template <class In, class Out>
  Result<RingKernel<In, Out>> LaunchLoop(std::string_view id, std::function<void(RingContext<In, Out>&)> loop,
                                         const KernelOptions& options = {}) {
    return Add<In, Out>(id, loop ? std::make_unique<internal::LoopBody<In, Out>>(std::move(loop)) : nullptr,
                        options);
  }

  Status Activate(std::string_view id);    // of a launched one. kExhausted: no thread to be had
  Status Deactivate(std::string_view id);  // of an active one: it finishes its message, and takes no other
  Status Reactivate(std::string_view id);  // of a deactivated one
  // Wakes every waiter at once; what is queued is dropped; waits for the handler. kTimeout: the handler is
  // still at it; the kernel stays, terminating, and may be terminated again. Then the id is free. Not from a
  // handler: kInvalidArgument.
  Status Terminate(std::string_view id, Duration timeout = std::chrono::seconds(5));
  Status TerminateAll(
      Duration timeout = std::chrono::seconds(10));  // the first failure, of all that were tried

  Result<KernelState> state(std::string_view id) const;
  std::vector<std::string> kernel_ids() const;
  bool telemetry_enabled() const noexcept;

  // Stays after a kernel's end, until the reset or the runtime's end, of the last 1,000. None: telemetry is
  // off, or there was no such kernel.
  std::optional<KernelTelemetry> telemetry(std::string_view id) const;
  std::vector<KernelTelemetry> all_telemetry() const;  // by id
  KernelSummary Summary() const;                       // off: kernel_count alone
  // Begins counts, latencies and throughput anew, of all without an id. What is exported goes on.
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
