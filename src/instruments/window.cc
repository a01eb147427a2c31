#include "instruments/window.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

namespace gpulens::instruments {

void ExponentialSum::CoarsenTo(int scale) {
  const int by = scale_ - scale;
  if (by <= 0) return;
  scale_ = scale;
  if (counts_.empty()) return;
  const int32_t low = Coarser(low_, by), high = Coarser(low_ + static_cast<int32_t>(counts_.size()) - 1, by);
  std::vector<uint64_t> coarse(static_cast<size_t>(high - low) + 1);
  for (size_t i = 0; i < counts_.size(); ++i)
    coarse[static_cast<size_t>(Coarser(low_ + static_cast<int32_t>(i), by) - low)] += counts_[i];
  counts_ = std::move(coarse);
  low_ = low;
}

// Makes room for both ends, at a coarser scale if needed.
void ExponentialSum::Cover(int32_t low, int32_t high) {
  if (!counts_.empty()) {
    low = std::min(low, low_);
    high = std::max(high, low_ + static_cast<int32_t>(counts_.size()) - 1);
  }
  int by = 0;
  while (Coarser(high, by) - Coarser(low, by) >= static_cast<int32_t>(kWindow)) ++by;
  CoarsenTo(scale_ - by);
  low = Coarser(low, by);
  high = Coarser(high, by);
  if (counts_.empty()) low_ = low;
  counts_.insert(counts_.begin(), static_cast<size_t>(low_ - low), 0);
  low_ = low;
  counts_.resize(static_cast<size_t>(high - low) + 1);
}

void ExponentialSum::Add(int scale, int32_t offset, std::span<const uint64_t> counts) {
  const auto some = [](uint64_t count) { return count != 0; };
  const auto begin = std::find_if(counts.begin(), counts.end(), some);
  if (begin == counts.end()) return;
  const auto last = std::find_if(counts.rbegin(), counts.rend(), some);
  const int32_t first = static_cast<int32_t>(begin - counts.begin());
  const int32_t end = static_cast<int32_t>(counts.rend() - last);
  CoarsenTo(scale);
  int by = scale - scale_;
  Cover(Coarser(offset + first, by), Coarser(offset + end - 1, by));
  by = scale - scale_;
  for (int32_t i = first; i < end; ++i)
    counts_[static_cast<size_t>(Coarser(offset + i, by) - low_)] += counts[static_cast<size_t>(i)];
}

void WriteWindow(CounterCell* at, const ExponentialCounts& whole) noexcept {
  at[kSumCell].store(std::bit_cast<uint64_t>(whole.sum), kRelaxed);
  at[kZeroCell].store(whole.zeros, kRelaxed);
  const std::span<const uint64_t> counts = whole.buckets.counts();
  if (counts.empty()) return;
  const WindowHead head{.offset = static_cast<uint32_t>(whole.buckets.offset()) + WindowHead::kBias,
                        .coarser = static_cast<uint8_t>(kFinest - whole.buckets.scale()),
                        .moves = 0};
  at[kHeadCell].store(head.cell(), kRelaxed);
  for (uint32_t i = 0; i < kWindow; ++i)
    at[kFirstCount + i].store(i < counts.size() ? counts[i] : 0, kRelaxed);
}

WindowHead MoveWindow(CounterCell* cells, uint32_t which, CounterCell* move, const WindowHead& head,
                      int32_t index) noexcept {
  CounterCell* const at = cells + which;
  std::array<uint64_t, kWindow> counts{};
  for (uint32_t i = 0; i < kWindow; ++i) counts[i] = at[kFirstCount + i].load(kRelaxed);
  uint32_t first = 0, last = kWindow - 1;
  while (first < last && counts[first] == 0) ++first;
  while (last > first && counts[last] == 0) --last;
  const bool none = counts[first] == 0;
  const int32_t here = Coarser(index, head.coarser);
  const int32_t low = none ? here : std::min(here, head.first() + static_cast<int32_t>(first));
  const int32_t high = none ? here : std::max(here, head.first() + static_cast<int32_t>(last));
  uint8_t by = 0;
  while (Coarser(high, by) - Coarser(low, by) >= static_cast<int32_t>(kWindow)) ++by;
  const int32_t used = Coarser(high, by) - Coarser(low, by) + 1;
  const int32_t begin = Coarser(low, by) - (static_cast<int32_t>(kWindow) - used) / 2;
  std::array<uint64_t, kWindow> next{};
  for (uint32_t i = first; i <= last && !none; ++i)
    next[static_cast<size_t>(Coarser(head.first() + static_cast<int32_t>(i), by) - begin)] += counts[i];
  WindowHead moved{.offset = static_cast<uint32_t>(begin) + WindowHead::kBias,
                   .coarser = static_cast<uint8_t>(head.coarser + by),
                   .moves = head.moves + 1};
  if (move) {
    move[WindowMove::kHead].store(head.cell(), kRelaxed);
    for (uint32_t i = 0; i < kWindow; ++i) move[WindowMove::kCounts + i].store(counts[i], kRelaxed);
    move[WindowMove::kWhich].store(which, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  at[kHeadCell].store(moved.cell(), kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (uint32_t i = 0; i < kWindow; ++i) at[kFirstCount + i].store(next[i], kRelaxed);
  ++moved.moves;
  at[kHeadCell].store(moved.cell(), std::memory_order_release);
  return moved;
}

void ReadWindow(const CounterCell* at, ExponentialCounts& out) {
  std::array<uint64_t, kWindow> counts;
  WindowHead head;
  for (;;) {
    const uint64_t before = at[kHeadCell].load(std::memory_order_acquire);
    head = WindowHead::Of(before);
    for (uint32_t i = 0; i < kWindow; ++i) counts[i] = at[kFirstCount + i].load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    // Moving takes less than a microsecond; its thread may be interrupted in it, so others get their turn.
    if (head.moves % 2 == 0 && at[kHeadCell].load(kRelaxed) == before) break;
    std::this_thread::yield();
  }
  out.zeros += at[kZeroCell].load(kRelaxed);
  out.sum += std::bit_cast<double>(at[kSumCell].load(kRelaxed));
  if (head.offset != 0) out.buckets.Add(head.scale(), head.first(), counts);
}

namespace {
constexpr int kTries = 100'000;
}  // namespace

void ReadForeignWindow(const CounterCell* cells, uint32_t which, const CounterCell* move,
                       ExponentialCounts& out) {
  const CounterCell* const at = cells + which;
  std::array<uint64_t, kWindow> counts;
  WindowHead head;
  // Each further try needs a move, of which a window has a few in its life: more is no file of ours.
  for (int tries = 0; tries < kTries; ++tries) {
    const uint64_t before = at[kHeadCell].load(std::memory_order_acquire);
    head = WindowHead::Of(before);
    const CounterCell* from = at + kFirstCount;
    if (head.moves % 2 != 0) {
      if (move[WindowMove::kWhich].load(kRelaxed) != which) continue;  // the move has ended meanwhile
      head = WindowHead::Of(move[WindowMove::kHead].load(kRelaxed));
      from = move + WindowMove::kCounts;
    }
    for (uint32_t i = 0; i < kWindow; ++i) counts[i] = from[i].load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (at[kHeadCell].load(kRelaxed) == before) break;
    head = {};
  }
  out.zeros += at[kZeroCell].load(kRelaxed);
  const bool sound = head.coarser <= kMostCoarse && std::abs(head.first()) <= kMostOffset;
  if (head.offset != 0 && sound) out.buckets.Add(head.scale(), head.first(), counts);
}

}  // namespace gpulens::instruments
