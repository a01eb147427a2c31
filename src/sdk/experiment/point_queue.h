// Points on their way from any thread to the one that writes, and the names of their keys. Neither waits, and
// once a key was seen nothing allocates.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::experiments {

struct QueuedPoint {
  uint32_t key = 0;
  int64_t step = 0, unix_ns = 0;
  double value = 0;
};

// Bounded; many push, one pops.
class PointQueue {
 public:
  // Rounded up to a power of two.
  explicit PointQueue(size_t capacity) : slots_(std::bit_ceil(capacity < 2 ? 2 : capacity)) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }

  size_t capacity() const noexcept { return slots_.size(); }
  // A snapshot.
  size_t size() const noexcept {
    const uint64_t pushed = pushed_.load(std::memory_order_relaxed),
                   popped = popped_.load(std::memory_order_relaxed);
    return pushed > popped ? static_cast<size_t>(pushed - popped) : 0;
  }

  // False when full.
  bool Push(const QueuedPoint& point) noexcept {
    uint64_t at = pushed_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at & (slots_.size() - 1)];
      // The slot's turn is `at` when it is free for it; the load sees what the reader did before it gave it
      // back.
      const uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (!pushed_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        slot.point = point;
        slot.turn.store(at + 1, std::memory_order_release);
        return true;
      }
      if (turn < at) return false;
      at = pushed_.load(std::memory_order_relaxed);
    }
  }
  // False when the next one is not there yet.
  bool Pop(QueuedPoint& point) noexcept {
    const uint64_t at = popped_.load(std::memory_order_relaxed);
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.turn.load(std::memory_order_acquire) != at + 1) return false;
    point = slot.point;
    slot.turn.store(at + slots_.size(), std::memory_order_release);
    popped_.store(at + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn = 0;
    QueuedPoint point;
  };
  std::vector<Slot> slots_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> popped_ = 0;
};

// Keys by number; a key once seen stays.
class KeyTable {
 public:
  static constexpr size_t kMostKeys = 4096;
  static constexpr uint32_t kNone = UINT32_MAX;

  // kNone: there are too many. Takes a lock and memory for a new key alone, which `fits` validates.
  uint32_t Find(std::string_view key, bool (*fits)(std::string_view) noexcept) noexcept {
    const size_t hash = std::hash<std::string_view>()(key);
    for (size_t i = hash;; ++i) {
      const Entry* entry = places_[i % places_.size()].load(std::memory_order_acquire);
      if (!entry) return fits(key) ? Add(key, hash) : kNone;
      if (entry->hash == hash && entry->name == key) return entry->number;
    }
  }
  // `number` is from Find.
  const std::string& Name(uint32_t number) const noexcept {
    return by_number_[number].load(std::memory_order_acquire)->name;
  }

 private:
  struct Entry {
    std::string name;
    size_t hash;
    uint32_t number;
  };

  uint32_t Add(std::string_view key, size_t hash) noexcept try {
    std::lock_guard lock(mutex_);
    for (size_t i = hash;; ++i) {
      std::atomic<const Entry*>& place = places_[i % places_.size()];
      if (const Entry* entry = place.load(std::memory_order_relaxed)) {
        if (entry->hash == hash && entry->name == key) return entry->number;
        continue;
      }
      if (entries_.size() == kMostKeys) return kNone;
      const auto number = static_cast<uint32_t>(entries_.size());
      entries_.push_back(std::make_unique<Entry>(Entry{std::string(key), hash, number}));
      by_number_[number].store(entries_.back().get(), std::memory_order_release);
      place.store(entries_.back().get(), std::memory_order_release);
      return number;
    }
  } catch (...) {  // no memory
    return kNone;
  }

  std::array<std::atomic<const Entry*>, 2 * kMostKeys> places_{};
  std::array<std::atomic<const Entry*>, kMostKeys> by_number_{};
  std::mutex mutex_;  // of those who add
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace gpulens::experiments
