// Records on their way from any thread to the one that writes. Neither side waits, and a record whose texts
// are short takes no memory of its own. They are kept as they were given: what becomes of them in the table
// is computed where they are read, not on the time of those who give.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "sdk/inference/record_slot.h"

namespace gpulens::inference {

// Bounded; many push, one reads. A record stays in its place until the reader says that it is stored, so one
// that cannot be written now is not copied and not lost.
class RecordRing {
 public:
  // Rounded up to a power of two. The memory is touched as it is first used.
  explicit RecordRing(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1),
        bits_(std::countr_one(mask_)),
        slots_(static_cast<Slot*>(std::calloc(mask_ + 1, sizeof(Slot)))) {
    if (!slots_) throw std::bad_alloc();
  }
  ~RecordRing() {
    Release(Ready(capacity()));
    std::free(slots_);
  }
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  size_t capacity() const noexcept { return mask_ + 1; }
  uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_acquire); }
  uint64_t released() const noexcept { return released_.load(std::memory_order_acquire); }

  // How many have been pushed with it; 0: it is full, or a long text found no memory.
  uint64_t Push(const telemetry::Row& row, std::unique_ptr<Settler>* settler = nullptr) noexcept {
    return PushGiven(row, settler);
  }
  uint64_t Push(const InferenceRecord& record) noexcept { return PushGiven(record, nullptr); }

  // ---- the reader's
  // How many there are from the oldest on without a gap, at most so many.
  size_t Ready(size_t most) const noexcept {
    const uint64_t from = released_.load(std::memory_order_relaxed);
    size_t count = 0;
    while (count < most && Turn(slots_[(from + count) & mask_]).load(std::memory_order_acquire) ==
                               ((from + count) >> bits_ << 1) + 1)
      ++count;
    return count;
  }
  // The i-th oldest; i below what Ready said. Its texts live until it is released.
  telemetry::Row At(size_t i) const noexcept {
    const Slot& slot = slots_[(released_.load(std::memory_order_relaxed) + i) & mask_];
    return slot.Row();
  }
  // Numbers are kept as settled, texts are as its Settler's.
  Settler* settler(size_t i) const noexcept {
    return slots_[(released_.load(std::memory_order_relaxed) + i) & mask_].settler;
  }
  void Release(size_t count) noexcept {
    uint64_t at = released_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < count; ++i, ++at) {
      Slot& slot = slots_[at & mask_];
      delete[] std::exchange(slot.far, nullptr);
      delete std::exchange(slot.settler, nullptr);
      Turn(slot).store(((at >> bits_) + 1) << 1, std::memory_order_release);
    }
    released_.store(at, std::memory_order_release);
  }

 private:
  using Slot = RecordSlot;
  // All of a slot may begin as zeros, which the kernel gives for nothing.
  static std::atomic_ref<uint64_t> Turn(Slot& slot) noexcept { return std::atomic_ref(slot.turn); }

  template <class T>
  uint64_t PushGiven(const T& given, std::unique_ptr<Settler>* settler) noexcept {
    size_t bytes = 0;
    Slot::EachText(given, [&](std::string_view text) { bytes += text.size(); });
    char* far = nullptr;
    if (bytes > Slot::kNear) {
      far = new (std::nothrow) char[bytes];
      if (!far) return 0;
    }
    uint64_t at = pushed_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at & mask_];
      // Free in its n-th use is 2n, taken 2n + 1. The load sees what the reader did before it gave it back.
      const uint64_t turn = Turn(slot).load(std::memory_order_acquire), free = at >> bits_ << 1;
      if (turn == free) {
        if (!pushed_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        slot.far = far;
        slot.settler = settler ? settler->release() : nullptr;
        slot.Keep(given);
        Turn(slot).store(free + 1, std::memory_order_release);
        return at + 1;
      }
      if (turn < free) {
        delete[] far;
        return 0;
      }
      at = pushed_.load(std::memory_order_relaxed);
    }
  }

  size_t mask_;
  int bits_;
  Slot* slots_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> released_ = 0;
};

}  // namespace gpulens::inference
