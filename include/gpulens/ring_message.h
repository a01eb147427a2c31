// Beneath ring_kernel.h: how a core that knows no types keeps and moves messages. Not for programs.
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

// How the core, which knows no types, moves and ends messages.
struct MessageForm {
  size_t size, align;
  void (*move)(void* to, void* from) noexcept;      // leaves nothing at `from`
  void (*exchange)(void* one, void* two) noexcept;  // both hold a message
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
struct Nothing {};  // in the place of void

// Room for a message that is there or not.
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

// What runs on a kernel's thread, once. Throws what the user's loop throws.
struct KernelBody {
  virtual ~KernelBody() = default;
  virtual void Run(RingActor& actor) = 0;
};

// Both take a message from `room` or leave it there, or put one in, and set `full` accordingly.
Status SendTo(RingActor& actor, void* message, bool& full, Duration timeout);
bool TrySendTo(RingActor& actor, void* message, bool& full) noexcept;
Status ReceiveFrom(RingActor& actor, void* to, bool& full, Duration timeout);
// For the kernel's own thread. Take: kUnavailable when it is to end. Put: the reply, or `full` stays.
Status Take(RingActor& actor, void* to, bool& full, Duration timeout);
Status Put(RingActor& actor, void* reply, bool& full);
void Done(RingActor& actor) noexcept;
void Failed(RingActor& actor, const char* what) noexcept;
bool ShouldTerminate(const RingActor& actor) noexcept;
inline constexpr const char* kNoKnownException = "an exception that is no std::exception";

// A handler for each message, until the end.
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
