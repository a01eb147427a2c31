// When launch calls began, by correlation id, until their kernels' records come; and memory for CUPTI's
// records. Both take their memory once, by mmap, are of static storage and are never destroyed. Any thread
// may call them; no call waits.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(hidden)
namespace gpulens::inject {

class LaunchTimes {
 public:
  static constexpr unsigned kSlotBits = 17;

  bool Open() noexcept {
    void* at = ::mmap(nullptr, sizeof(std::atomic<uint64_t>) << kSlotBits, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    slots_ = static_cast<std::atomic<uint64_t>*>(at);
    return true;
  }
  // Replaces the launch that began 2^kSlotBits calls before.
  void Put(uint32_t correlation, uint64_t begin_ns) noexcept {
    SlotOf(correlation)
        .store(TagOf(correlation) << kTimeBits | (begin_ns & kTimeMask), std::memory_order_relaxed);
  }
  enum class Answer { kFound, kUnknown, kOverwritten };
  // Sets `delay_ns` to the time from the launch to `start_ns`, and forgets the launch. A start that is up to
  // a millisecond before the launch is none after it: the clocks of device and host are matched that well
  // only.
  Answer Take(uint32_t correlation, uint64_t start_ns, uint64_t& delay_ns) noexcept {
    std::atomic<uint64_t>& slot = SlotOf(correlation);
    uint64_t held = slot.load(std::memory_order_relaxed);
    if (held == 0) return Answer::kUnknown;
    if (held >> kTimeBits != TagOf(correlation)) {
      // A later launch is here, or one from before this correlation, whose launch was not seen.
      const uint64_t ahead = (held - TagOf(correlation) * (kTimeMask + 1)) >> kTimeBits;
      return ahead < (uint64_t{1} << (63 - kTimeBits)) ? Answer::kOverwritten : Answer::kUnknown;
    }
    if (!slot.compare_exchange_strong(held, 0, std::memory_order_relaxed)) return Answer::kOverwritten;
    delay_ns = (start_ns - held) & kTimeMask;
    if (delay_ns > kTimeMask - 1'000'000) delay_ns = 0;
    return delay_ns <= kTimeMask / 2 ? Answer::kFound : Answer::kUnknown;
  }

 private:
  static constexpr unsigned kTimeBits = 32 + kSlotBits;  // the rest is the tag; 2^49 ns is 6.5 days
  static constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;
  static uint64_t TagOf(uint32_t correlation) noexcept { return correlation >> kSlotBits; }
  std::atomic<uint64_t>& SlotOf(uint32_t correlation) noexcept {
    return slots_[correlation & ((uint32_t{1} << kSlotBits) - 1)];
  }
  std::atomic<uint64_t>* slots_ = nullptr;
};

// Buffers for CUPTI, of a fixed number.
class BufferPool {
 public:
  static constexpr size_t kBuffers = 16, kSize = size_t{1} << 20;

  bool Open() noexcept {
    void* at = ::mmap(nullptr, kBuffers * kSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    memory_ = static_cast<uint8_t*>(at);
    return true;
  }
  // Null: all are taken.
  uint8_t* Take() noexcept {
    uint32_t taken = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const auto free =
          static_cast<unsigned>(__builtin_ffs(static_cast<int>(~taken & ((1U << kBuffers) - 1))));
      if (free == 0) return nullptr;
      const uint32_t bit = 1U << (free - 1);
      if (taken_.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire))
        return memory_ + (free - 1) * kSize;
    }
  }
  void Return(const uint8_t* buffer) noexcept {
    const size_t at = static_cast<size_t>(buffer - memory_) / kSize;
    if (buffer >= memory_ && at < kBuffers) taken_.fetch_and(~(1U << at), std::memory_order_release);
  }

 private:
  uint8_t* memory_ = nullptr;
  std::atomic<uint32_t> taken_{0};
};

}  // namespace gpulens::inject
#pragma GCC visibility pop
