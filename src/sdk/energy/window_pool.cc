#include "sdk/energy/window_pool.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace gpulens::sdk {
namespace {

using energy::kPendingMarks;
using energy::kPhases;

constexpr auto kRelaxed = std::memory_order_relaxed;

std::string_view TextOf(const WindowSlot::PhaseName& name) noexcept { return name.data(); }

}  // namespace

void TickSums::Statistic::Add(double value) noexcept {
  if (!std::isfinite(value)) return;
  peak = count == 0 ? value : std::max(peak, value);
  sum += value;
  ++count;
}

void WindowSlot::Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept {
  ledger_ = ledger;
  begin_ns_ = at_ns;
  shares_ = shares;
  taken_ = false;
  end_ns_.store(energy::kOpenEnd, kRelaxed);
  tokens_.store(0, kRelaxed);
  marked_.store(0, kRelaxed);
  read_.store(0, kRelaxed);
  lost_marks_.store(0, kRelaxed);
  phases_.store(1, kRelaxed);
  holders_.store(2, kRelaxed);
}

bool WindowSlot::End(int64_t at_ns) noexcept {
  int64_t open = energy::kOpenEnd;
  return end_ns_.compare_exchange_strong(open, std::max(at_ns, begin_ns_), std::memory_order_release,
                                         kRelaxed);
}

uint8_t WindowSlot::PhaseOf(std::string_view name) const noexcept {
  name = name.substr(0, kNameBytes - 1);
  const uint8_t count = phases_.load(std::memory_order_acquire);
  for (uint8_t i = 1; i < count; ++i) {
    if (TextOf(names_[i]) == name) return i;
  }
  return 0;
}

void WindowSlot::Mark(std::string_view name, int64_t at_ns) noexcept {
  if (ended()) return;
  name = name.substr(0, kNameBytes - 1);
  uint8_t phase = PhaseOf(name);
  const uint8_t count = phases_.load(kRelaxed);
  if (phase == 0 && count == kPhases) phase = kPhases - 1;
  if (phase == 0) {
    phase = count;
    names_[phase].fill('\0');
    std::copy(name.begin(), name.end(), names_[phase].begin());
    phases_.store(static_cast<uint8_t>(count + 1), std::memory_order_release);
  }
  const uint32_t at = marked_.load(kRelaxed);
  if (at - read_.load(std::memory_order_acquire) == kPendingMarks) {
    lost_marks_.fetch_add(1, kRelaxed);
    return;
  }
  marks_[at % kPendingMarks] = {.at_ns = at_ns, .phase = phase};
  marked_.store(at + 1, std::memory_order_release);
}

void WindowSlot::TakeOver() noexcept {
  if (!taken_) {
    taken_ = true;
    account = {};
    account.shares = shares_;
    account.begin_ns = begin_ns_;
    ticks = {};
    device_begins.clear();
    device_ends.clear();
  }
  // The end is read first, so that everything added or marked before it is seen.
  account.end_ns = end_ns();
  account.tokens = tokens_.load(kRelaxed);
  const uint32_t written = marked_.load(std::memory_order_acquire);
  uint32_t read = read_.load(kRelaxed);
  while (read != written && account.mark_count < kPendingMarks)
    account.marks[account.mark_count++] = marks_[read++ % kPendingMarks];
  read_.store(read, std::memory_order_release);
}

WindowPool::~WindowPool() {
  for (std::atomic<WindowSlot*>& chunk : chunks_) delete[] chunk.load();
}

WindowSlot* WindowPool::At(uint32_t number) const noexcept {
  return &chunks_[number / kChunk].load(std::memory_order_acquire)[number % kChunk];
}

// Numbers in the list are one higher; 0 ends it.
WindowSlot* WindowPool::Pop() noexcept {
  uint64_t head = free_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    WindowSlot* slot = At(static_cast<uint32_t>(head) - 1);
    const uint64_t next = ((head >> 32) + 1) << 32 | slot->next_free_.load(kRelaxed);
    if (free_.compare_exchange_weak(head, next, std::memory_order_acq_rel, std::memory_order_acquire))
      return slot;
  }
  return nullptr;
}

void WindowPool::Push(WindowSlot* slot) noexcept {
  uint64_t head = free_.load(kRelaxed);
  uint64_t next = 0;
  do {
    slot->next_free_.store(static_cast<uint32_t>(head), kRelaxed);
    next = ((head >> 32) + 1) << 32 | (slot->number_ + 1);
  } while (!free_.compare_exchange_weak(head, next, std::memory_order_acq_rel, kRelaxed));
}

bool WindowPool::Grow() noexcept {
  std::lock_guard lock(growing_);
  if (static_cast<uint32_t>(free_.load()) != 0) return true;  // another thread was first
  const uint32_t count = chunk_count_.load(kRelaxed);
  if (count == kChunks) return false;
  auto* chunk = new (std::nothrow) WindowSlot[kChunk];
  if (!chunk) return false;
  chunks_[count].store(chunk, std::memory_order_release);
  chunk_count_.store(count + 1, kRelaxed);
  for (uint32_t i = 0; i < kChunk; ++i) chunk[i].number_ = count * kChunk + i;
  for (uint32_t i = kChunk; i-- > 0;) Push(&chunk[i]);
  return true;
}

WindowSlot* WindowPool::Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept {
  WindowSlot* slot = Pop();
  while (!slot) {
    if (!Grow()) return nullptr;
    slot = Pop();
  }
  slot->Begin(ledger, shares, at_ns);
  slot->next_fresh_ = fresh_.load(kRelaxed);
  while (!fresh_.compare_exchange_weak(slot->next_fresh_, slot, std::memory_order_release, kRelaxed)) {
  }
  return slot;
}

void WindowPool::Release(WindowSlot* slot) noexcept {
  if (slot->holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) Push(slot);
}

}  // namespace gpulens::sdk
