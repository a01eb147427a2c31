// Bounded FIFO queue that does not allocate after construction.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace gpulens {

// Not thread-safe.
template <class T>
class Ring {
 public:
  explicit Ring(size_t capacity) : slots_(capacity ? capacity : 1) {}

  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return slots_.size(); }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == slots_.size(); }

  // False, and `value` is untouched, when full.
  bool Push(T&& value) {
    if (full()) return false;
    slots_[(head_ + size_++) % slots_.size()] = std::move(value);
    return true;
  }
  // True when the oldest element was dropped.
  bool PushDroppingOldest(T value) {
    bool dropped = full();
    if (dropped) Pop();
    Push(std::move(value));
    return dropped;
  }
  std::optional<T> Pop() {
    if (empty()) return std::nullopt;
    T value = std::exchange(slots_[head_], T{});
    head_ = (head_ + 1) % slots_.size();
    --size_;
    return value;
  }
  // The i-th oldest; i < size().
  const T& operator[](size_t i) const noexcept { return slots_[(head_ + i) % slots_.size()]; }

 private:
  std::vector<T> slots_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace gpulens
