// The page that a reader process shares with the agent: which library call each of its threads is in, and
// since when. A call that never returns is so known by name although its thread cannot speak.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpulens::reader {

// Devices that one reader process reads: GPUs, and partitions of GPUs where the library counts these.
inline constexpr uint32_t kMaxDevices = 64;

// A number of the library's call table. kNoCall: in none.
using CallNumber = uint16_t;
inline constexpr CallNumber kNoCall = 0;

// A function of a vendor library: null where the library lacks it. `Call` numbers the library's functions.
template <class Call, class Signature>
struct LibraryFunction;
template <class Call, class... Parameters>
struct LibraryFunction<Call, int(Parameters...)> {
  Call call;
  int (*pointer)(Parameters...) = nullptr;

  explicit operator bool() const noexcept { return pointer != nullptr; }
  int operator()(Parameters... parameters) const { return pointer(parameters...); }
  // `symbol`: what dlsym gives.
  void Assign(void* symbol) noexcept { pointer = reinterpret_cast<decltype(pointer)>(symbol); }
};

// Written by one thread of the reader process, read by the agent at any time. The reader may see the call of
// one moment with the time of a later one: it can only make a call look younger.
class CallSlot {
 public:
  void Begin(CallNumber call, int64_t boot_ns) noexcept {
    since_boot_ns_.store(boot_ns, std::memory_order_relaxed);
    call_.store(call, std::memory_order_release);
  }
  void End() noexcept { call_.store(kNoCall, std::memory_order_release); }

  struct View {
    CallNumber call =
        kNoCall;  // May be a number that is no call: the reader process's bytes are not trusted.
    int64_t since_boot_ns = 0;  // Not negative.
  };
  View Read() const noexcept {
    uint32_t call = call_.load(std::memory_order_acquire);
    return {static_cast<CallNumber>(call < 0xFFFF ? call : 0xFFFF),
            std::max<int64_t>(since_boot_ns_.load(std::memory_order_relaxed), 0)};
  }

 private:
  std::atomic<uint32_t> call_{kNoCall};
  std::atomic<int64_t> since_boot_ns_{0};
};
static_assert(sizeof(CallSlot) == 16);
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// Lies in a memory file of kCallPageBytes that starts as zeros.
struct CallPage {
  CallSlot main;
  std::array<CallSlot, kMaxDevices> devices;
  CallSlot waiting;  // Of the thread that waits for the library's events: to wait is its work.
  // The slot of the call in which the process ended itself, counted from 1 in the order above; 0: no call
  // did, or it had no time to write it. The process writes it once.
  std::atomic<uint32_t> ended_in{0};
};
inline constexpr uint32_t kEndedInMain = 1, kEndedInDevice = 2,
                          kEndedInWaiting = kEndedInDevice + kMaxDevices;
inline constexpr size_t kCallPageBytes = 4096;
static_assert(sizeof(CallPage) <= kCallPageBytes);

}  // namespace gpulens::reader
