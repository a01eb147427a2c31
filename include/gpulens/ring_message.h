// Implementation of ring_kernel.h: type-erased storage of messages. Not for direct use.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include <gpulens/kernel_telemetry.h>
#include <gpulens/status.h>

namespace gpulens::internal {

class RingActor;

// Type-erased operations on messages.
struct MessageForm {
  size_t size, align;
  void (*move)(void* to, void* from) noexcept;      // destroys the object at `from`
  void (*exchange)(void* one, void* two) noexcept;  // swaps two messages
  void (*destroy)(void* at) noexcept;
};
template <class T>
const MessageForm& FormOf() noexcept {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>,
                "a message moves without an exception; put what does not behind a std::unique_ptr");
  static constexpr MessageForm kForm{sizeof(T), alignof(T),
                                     [](void* to, void* from) noexcept {
                                       ::new (to) T(std::move(*static_cast<T*>(from)));
                                       static_cast<T*>(from)->~T();
                                     },
                                     [](void* one, void* two) noexcept {
                                       T kept(std::move(*static_cast<T*>(one)));
                                       static_cast<T*>(one)->~T();
                                       ::new (one) T(std::move(*static_cast<T*>(two)));
                                       static_cast<T*>(two)->~T();
                                       ::new (two) T(std::move(kept));
                                     },
                                     [](void* at) noexcept { static_cast<T*>(at)->~T(); }};
  return kForm;
}
struct Nothing {};  // replaces void

// Storage of an optional message.
template <class T>
struct Room {
  Room() noexcept {}
  explicit Room(T&& value) noexcept : full(true) { ::new (at()) T(std::move(value)); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() {
    if (full) static_cast<T*>(at())->~T();
  }
  void* at() noexcept { return bytes; }
  T& operator*() noexcept { return *std::launder(static_cast<T*>(at())); }
  alignas(T) std::byte bytes[sizeof(T)];
  bool full = false;
};

// Code that runs once on a kernel's thread. Throws the exceptions of the user's loop.
struct KernelBody {
  virtual ~KernelBody() = default;
  virtual void Run(RingActor& actor) = 0;
};

// Send or receive a message at an address; `full` is set to whether it holds a message afterwards.
Status SendTo(RingActor& actor, void* message, bool& full, Duration timeout);
bool TrySendTo(RingActor& actor, void* message, bool& full) noexcept;
Status ReceiveFrom(RingActor& actor, void* to, bool& full, Duration timeout);
// For the kernel's own thread. Take returns kUnavailable when the thread should end. Put leaves `full` set on
// failure.
Status Take(RingActor& actor, void* to, bool& full, Duration timeout);
Status Put(RingActor& actor, void* reply, bool& full);
void Done(RingActor& actor) noexcept;
void Failed(RingActor& actor, const char* what) noexcept;
bool ShouldTerminate(const RingActor& actor) noexcept;
inline constexpr const char* kNoKnownException = "an exception that is no std::exception";

// Calls a handler with each message until the kernel ends.
template <class In, class Out>
struct HandlerBody final : KernelBody {
  explicit HandlerBody(std::function<Out(In)> to_call) : handler(std::move(to_call)) {}
  void Run(RingActor& actor) override {
    for (;;) {
      Room<In> in;
      if (!Take(actor, in.at(), in.full, Duration::max()).ok()) return;
      try {
        if constexpr (std::is_void_v<Out>) {
          handler(std::move(*in));
          Done(actor);
        } else {
          Room<Out> out(handler(std::move(*in)));
          static_cast<void>(Put(actor, out.at(), out.full));
        }
      } catch (const std::exception& error) {
        Failed(actor, error.what());
      } catch (...) {
        Failed(actor, kNoKnownException);
      }
    }
  }
  std::function<Out(In)> handler;
};

}  // namespace gpulens::internal
