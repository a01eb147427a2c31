// The library's event set: every reader registers its GPU, one thread waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {

// Shared by the main thread, the readers and the thread that waits. Thread-safe; no lock is held during a
// library call.
class EventWaiter {
 public:
  // `types`: of EventType.
  explicit EventWaiter(uint64_t types) noexcept : types_(types) {}

  // Makes the set; false on a library without events, which is so learnt once. Before any reader starts.
  bool Open(Caller& caller);
  // After GPU `index` was opened: registers the configured types that it supports. A
  // handle is registered once.
  void Register(Caller& caller, unsigned index, Device device);

  enum class Outcome : uint8_t { kEvent, kNothing, kBroken };
  // Waits for one event, at most `timeout_ms`. kBroken: the library failed; wait a while before the next.
  Outcome Wait(Caller& caller, unsigned timeout_ms, DeviceEvent& out);
  unsigned devices() const noexcept { return registered_.load(std::memory_order_relaxed); }
  bool has_devices() const noexcept { return registered_.load(std::memory_order_acquire) > 0; }

  // Whether MIG instances of the GPU have changed since the last call.
  bool TakeRescan(unsigned index) noexcept {
    return index < kMaxGpus && rescan_[index].exchange(false, std::memory_order_relaxed);
  }

 private:
  uint32_t IndexOf(Device device);

  const uint64_t types_;
  EventSet set_ = nullptr;
  std::atomic<unsigned> registered_{0};
  std::mutex mutex_;
  std::array<Device, kMaxGpus> devices_{};
  std::array<std::atomic<bool>, kMaxGpus> rescan_{};
};

// Starts the thread that waits and sends; it ends with `shared`. kExhausted when no thread can be made. The
// slot stays as long as the process.
Status StartEventThread(std::shared_ptr<reader::AgentChannel> shared,
                        std::shared_ptr<const NvmlLibrary> library, std::shared_ptr<EventWaiter> hub,
                        CallSlot& slot);

}  // namespace gpulens::nvml
