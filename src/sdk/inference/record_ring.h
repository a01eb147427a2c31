// Records on their way from any thread to the one that writes. Neither side waits, and a record whose texts
// are short takes no memory of its own.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "store/telemetry/rows.h"

namespace gpulens::inference {

// What is still to be found out of a record when it is written: by the thread that writes, before.
class Settler {
 public:
  virtual ~Settler() = default;
  virtual void Settle(telemetry::Row& row) noexcept = 0;
};

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
    size_t bytes = 0;
    for (std::string_view text : row.texts) bytes += text.size();
    char* far = nullptr;
    if (bytes > kNear) {
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
        slot.numbers = row.numbers;
        slot.far = far;
        char* to = far ? far : slot.near;
        for (size_t i = 0; i < telemetry::kTexts; ++i) {
          slot.sizes[i] = static_cast<uint32_t>(row.texts[i].size());
          if (!row.texts[i].empty()) std::memcpy(to, row.texts[i].data(), row.texts[i].size());
          to += row.texts[i].size();
        }
        slot.settler = settler ? settler->release() : nullptr;
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
    telemetry::Row row;
    row.numbers = slot.numbers;
    const char* from = slot.far ? slot.far : slot.near;
    for (size_t t = 0; t < telemetry::kTexts; ++t) {
      row.texts[t] = {from, slot.sizes[t]};
      from += slot.sizes[t];
    }
    return row;
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
  // A model's name, an engine's, a UUID and some more.
  static constexpr size_t kNear = 96;
  struct Slot {
    uint64_t turn;
    std::array<uint32_t, telemetry::kTexts> sizes;
    char* far;
    Settler* settler;
    telemetry::Numbers numbers;
    char near[kNear];
  };
  // All of a slot may begin as zeros, which the kernel gives for nothing.
  static std::atomic_ref<uint64_t> Turn(Slot& slot) noexcept { return std::atomic_ref(slot.turn); }

  size_t mask_;
  int bits_;
  Slot* slots_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> released_ = 0;
};

}  // namespace gpulens::inference
