// One thread's window of exponential buckets: 160 counts from an offset, at a scale, with the sum and the
// zeros. A value outside of it moves the window or halves its scale, which happens a few times in the life of
// a series. One thread writes; others read meanwhile and detect by the head whether the counts were being
// moved.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/power_buckets.h"

namespace gpulens::instruments {

// Exponential buckets of OpenTelemetry (base-2): the sum of several windows of them. Pure.
using buckets::Coarser;
using buckets::FinestIndex;
using buckets::kFinest;

// Buckets of a series; where values need more, two neighbours are merged.
inline constexpr uint32_t kWindow = 160;

// Beyond what doubles can need, at kFinest.
inline constexpr int kMostCoarse = 20;
inline constexpr int32_t kMostOffset = 1 << 20;

// Counts of a growing range of buckets, at one scale.
class ExponentialSum {
 public:
  // `counts[i]` of bucket offset + i at `scale`.
  void Add(int scale, int32_t offset, std::span<const uint64_t> counts);
  // At most kWindow buckets, from the first to the last that is not 0.
  int scale() const noexcept { return scale_; }
  int32_t offset() const noexcept { return low_; }
  std::span<const uint64_t> counts() const noexcept { return counts_; }

 private:
  void CoarsenTo(int scale);
  void Cover(int32_t low, int32_t high);

  int scale_ = kFinest;
  int32_t low_ = 0;
  std::vector<uint64_t> counts_;
};

using CounterCell = std::atomic<uint64_t>;
// Each cell is a number of its own; the head alone orders the others.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

// Cells of one series: a head, the sum as a double, zeros, then the counts.
inline constexpr uint32_t kHeadCell = 0, kSumCell = 1, kZeroCell = 2, kFirstCount = 3;
inline constexpr uint32_t kExponentialCells = kFirstCount + kWindow;

// Decoded head. It changes before and after the counts are moved, so that a reader knows whether it read them
// at one scale.
struct WindowHead {
  // Added to the offset, so that a head of 0, of a window without counts, is far away from every index.
  static constexpr uint32_t kBias = uint32_t{1} << 30;

  uint32_t offset = 0;  // of the first count, plus kBias; 0: there is none
  uint8_t coarser = 0;  // than kFinest
  uint32_t moves = 0;   // odd: they are being moved; 24 bits

  int scale() const noexcept { return kFinest - coarser; }
  int32_t first() const noexcept { return static_cast<int32_t>(offset - kBias); }
  // Position of an index of kFinest in the window; kWindow or more: outside.
  uint32_t Place(int32_t index) const noexcept {
    return static_cast<uint32_t>(Coarser(index, coarser)) + kBias - offset;
  }

  static WindowHead Of(uint64_t cell) noexcept {
    return {static_cast<uint32_t>(cell), static_cast<uint8_t>(cell >> 32), static_cast<uint32_t>(cell >> 40)};
  }
  uint64_t cell() const noexcept {
    return offset | static_cast<uint64_t>(coarser) << 32 | static_cast<uint64_t>(moves & 0xffffff) << 40;
  }
};

struct ExponentialCounts {
  ExponentialSum buckets;
  double sum = 0;
  uint64_t zeros = 0;
};

// Cells in which a thread keeps the window that it is moving, for readers of other processes, which cannot
// wait for it: it may have been killed.
struct WindowMove {
  static constexpr uint32_t kWhich = 0, kHead = 1, kCounts = 2, kCells = kCounts + kWindow;
};

// Adds what `at` has to `out`. Any thread.
void ReadWindow(const CounterCell* at, ExponentialCounts& out);
// The same for cells of another process, where `cells[which]` is the window. Never waits.
void ReadForeignWindow(const CounterCell* cells, uint32_t which, const CounterCell* move,
                       ExponentialCounts& out);
// Writes a sum of windows as one window, which no other thread reads yet, or which is read under a lock.
void WriteWindow(CounterCell* at, const ExponentialCounts& whole) noexcept;
// Puts the window `cells[which]` where it holds `index`, of kFinest, too. For the thread that writes. `move`:
// null where no other process reads.
WindowHead MoveWindow(CounterCell* cells, uint32_t which, CounterCell* move, const WindowHead& head,
                      int32_t index) noexcept;

inline void AddTo(CounterCell& cell, uint64_t n) noexcept { cell.store(cell.load(kRelaxed) + n, kRelaxed); }
inline void AddTo(CounterCell& cell, double n) noexcept {
  const double sum = std::bit_cast<double>(cell.load(kRelaxed)) + n;
  cell.store(std::bit_cast<uint64_t>(sum), kRelaxed);
}

// Counts a finite value that is not negative. For the thread that writes. `move`: calls MoveWindow.
template <class Move>
inline void RecordInWindow(CounterCell* at, double value, Move move) noexcept {
  AddTo(at[kSumCell], value);
  if (value < std::numeric_limits<double>::min()) [[unlikely]] {
    if (value == 0) return AddTo(at[kZeroCell], uint64_t{1});
    value = std::numeric_limits<double>::min();
  }
  const int32_t index = FinestIndex(value);
  const WindowHead head = WindowHead::Of(at[kHeadCell].load(kRelaxed));
  uint32_t place = head.Place(index);
  if (place >= kWindow) [[unlikely]]
    place = move(head, index).Place(index);
  AddTo(at[kFirstCount + place], uint64_t{1});
}

// The same for a window that no other process reads.
inline void RecordInWindow(CounterCell* at, double value) noexcept {
  RecordInWindow(at, value, [at](const WindowHead& head, int32_t index) noexcept {
    return MoveWindow(at, 0, nullptr, head, index);
  });
}
// The same for the window `cells[which]`, with `move` as MoveWindow has it.
inline void RecordInWindow(CounterCell* cells, uint32_t which, CounterCell* const& move,
                           double value) noexcept {
  RecordInWindow(cells + which, value, [&](const WindowHead& head, int32_t index) noexcept {
    return MoveWindow(cells, which, move, head, index);
  });
}

}  // namespace gpulens::instruments
