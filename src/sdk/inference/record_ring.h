// Records on their way from any thread to the one that writes. Neither side waits, and a record whose texts
// are short takes no memory of its own. They are kept as they were given: what becomes of them in the table
// is computed where they are read, not on the time of those who give.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "sdk/inference/packed_record.h"

namespace gpulens::inference {

// Bounded; many push, one reads. Records lie one behind the other, each in as many lines of memory as it
// wants. A record stays in its place until the reader says that it is stored, so one that cannot be written
// now is not copied and not lost.
class RecordRing {
 public:
  static constexpr size_t kMostRecords = size_t{1} << 24;

  // Rounded up to a power of two; at most kMostRecords. There is room for so many of the longest, so that
  // only their number is counted. Memory is touched when as many wait as never before.
  explicit RecordRing(size_t capacity)
      : mask_(static_cast<uint32_t>(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1)),
        entries_(New<uint64_t>(mask_ + size_t{1})),
        // A record that begins before the end may run over it; as many lines at the beginning stay unused.
        memory_(New<std::byte>(((mask_ + size_t{2}) * PackedRecord::kMostLines + 1) * sizeof(Line))),
        lines_(
            reinterpret_cast<Line*>((reinterpret_cast<uintptr_t>(memory_.get()) | (sizeof(Line) - 1)) + 1)) {}
  ~RecordRing() { Release(Ready(capacity())); }
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  size_t capacity() const noexcept { return mask_ + size_t{1}; }
  // How many have been pushed and released, modulo 2^32: to be compared by Until.
  uint32_t pushed() const noexcept { return Count(pushed_.load(std::memory_order_acquire)); }
  uint32_t released() const noexcept { return released_.load(std::memory_order_acquire); }
  static int32_t Until(uint32_t from, uint32_t to) noexcept { return static_cast<int32_t>(to - from); }
  size_t waiting() const noexcept {
    const uint32_t from = released();  // first: then no more can have been released than pushed
    return static_cast<uint32_t>(Until(from, pushed()));
  }

  // How many have been pushed with it, modulo 2^32 from 1 on; 0: it is full, or a long text found no memory.
  uint64_t Push(const telemetry::Row& row, std::unique_ptr<Settler>* settler = nullptr) noexcept {
    return PushGiven(row, settler);
  }
  uint64_t Push(const InferenceRecord& record) noexcept { return PushGiven(record, nullptr); }

  // ---- the reader's
  // How many there are from the oldest on without a gap, at most so many.
  size_t Ready(size_t most) const noexcept {
    const uint32_t from = released_.load(std::memory_order_relaxed);
    uint32_t count = 0;
    while (count < most && Entry(from + count).load(std::memory_order_acquire) >> 32 == from + count + 1U)
      ++count;
    return count;
  }
  // The i-th oldest; i below what Ready said. Its texts live until it is released.
  telemetry::Row At(size_t i) const noexcept { return Record(i).Unpack(); }
  // Numbers are kept as settled, texts are as its Settler's.
  Settler* settler(size_t i) const noexcept { return Record(i).settler(); }
  void Release(size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) Record(i).Free();
    const uint32_t released = released_.load(std::memory_order_relaxed) + static_cast<uint32_t>(count);
    released_.store(released, std::memory_order_release);
    // When nothing waits, records begin anew in memory that is near, as long as nobody has just taken a
    // place.
    uint64_t end = pushed_.load(std::memory_order_relaxed);
    if (Count(end) == released)
      pushed_.compare_exchange_strong(end, Place(released, 0), std::memory_order_release,
                                      std::memory_order_relaxed);
  }

 private:
  using Line = PackedRecord::Line;
  struct Freed {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  template <class T>
  using Memory = std::unique_ptr<T[], Freed>;
  // Zeros, which the kernel gives for nothing.
  template <class T>
  static Memory<T> New(size_t count) {
    Memory<T> memory(static_cast<T*>(std::calloc(count, sizeof(T))));
    if (!memory) throw std::bad_alloc();
    return memory;
  }

  // A number of records, modulo 2^32, and a number of lines.
  static uint64_t Place(uint32_t count, uint32_t line) noexcept { return uint64_t{count} << 32 | line; }
  static uint32_t Count(uint64_t place) noexcept { return static_cast<uint32_t>(place >> 32); }
  Line* Lines(uint64_t place) const noexcept {
    return lines_ + (static_cast<uint32_t>(place) & (capacity() * PackedRecord::kMostLines - 1));
  }
  // Of the n-th record from 0 on: n + 1 and its first line, once it is there.
  std::atomic_ref<uint64_t> Entry(uint32_t n) const noexcept { return std::atomic_ref(entries_[n & mask_]); }
  PackedRecord& Record(size_t i) const noexcept {
    const uint32_t n = released_.load(std::memory_order_relaxed) + static_cast<uint32_t>(i);
    return *reinterpret_cast<PackedRecord*>(Lines(Entry(n).load(std::memory_order_relaxed)));
  }

  template <class T>
  uint64_t PushGiven(const T& given, std::unique_ptr<Settler>* settler) noexcept {
    char* far = nullptr;
    if (const size_t bytes = PackedRecord::FarBytes(given); bytes > 0) [[unlikely]] {
      far = new (std::nothrow) char[bytes];
      if (!far) return 0;
    }
    // Its length is to be known before it takes a place.
    PackedRecord packed;
    const size_t size = packed.Pack(given, far, settler ? settler->get() : nullptr);
    // Both loads see what the reader did before it gave places back. The second may be of later.
    uint64_t at = pushed_.load(std::memory_order_acquire), end = 0;
    do {
      if (Until(released_.load(std::memory_order_acquire), Count(at)) > static_cast<int32_t>(mask_)) {
        delete[] far;
        return 0;
      }
      end = Place(Count(at) + 1, static_cast<uint32_t>(at) + static_cast<uint32_t>(size));
    } while (!pushed_.compare_exchange_weak(at, end, std::memory_order_acquire));
    if (settler) static_cast<void>(settler->release());
    const Line* from = reinterpret_cast<const Line*>(&packed);
    Line* to = Lines(at);
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
    Entry(Count(at)).store(Place(Count(end), static_cast<uint32_t>(at)), std::memory_order_release);
    return uint64_t{Count(at)} + 1;
  }

  const uint32_t mask_;
  const Memory<uint64_t> entries_;
  const Memory<std::byte> memory_;
  Line* const lines_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;  // the place behind the last one
  alignas(64) std::atomic<uint32_t> released_ = 0;
};

}  // namespace gpulens::inference
