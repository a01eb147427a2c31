// Pool of open windows, shared by programs and the accounting: begin, end and mark take no lock, do not
// allocate and do not wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "energy/share_ledger.h"

namespace gpulens::sdk {

class DeviceLedger;

// Readings between begin and end.
struct TickSums {
  struct Statistic {
    double sum = 0, peak = 0;
    uint32_t count = 0;
    void Add(double value) noexcept;
  };
  uint32_t count = 0;
  Statistic watts, utilization, memory, temperature;
};

// One window. The program's side writes the atomics and the marks; everything below is guarded by the
// engine's lock. Freed when both sides have let go.
class WindowSlot {
 public:
  static constexpr size_t kNameBytes = 32;
  using PhaseName = std::array<char, kNameBytes>;

  // ---- the program's side: one thread at a time, AddTokens any
  void Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept;
  bool End(int64_t at_ns) noexcept;  // false: it had ended
  void AddTokens(int64_t tokens) noexcept {
    if (tokens > 0) tokens_.fetch_add(tokens, std::memory_order_relaxed);
  }
  void Mark(std::string_view name, int64_t at_ns) noexcept;
  // The number of a phase; 0: there is none of this name.
  uint8_t PhaseOf(std::string_view name) const noexcept;

  DeviceLedger* ledger() const noexcept { return ledger_; }
  int64_t begin_ns() const noexcept { return begin_ns_; }
  int64_t end_ns() const noexcept { return end_ns_.load(std::memory_order_acquire); }
  bool ended() const noexcept { return end_ns() != energy::kOpenEnd; }
  // Marks that could not be kept: too many between two readings.
  uint32_t lost_marks() const noexcept { return lost_marks_.load(std::memory_order_relaxed); }

  // ---- the engine's side, under its lock
  void TakeOver() noexcept;  // brings the account up to date
  energy::Account account;
  TickSums ticks;

 private:
  friend class WindowPool;
  DeviceLedger* ledger_ = nullptr;
  int64_t begin_ns_ = 0;
  bool shares_ = false, taken_ = false;
  std::atomic<int64_t> end_ns_{energy::kOpenEnd}, tokens_{0};
  // Marks on their way: written at `marked_`, read up to it.
  std::array<energy::Account::Mark, energy::kPendingMarks> marks_{};
  std::atomic<uint32_t> marked_{0}, read_{0}, lost_marks_{0};
  // Written before the mark that uses it; the first is of no name.
  std::array<PhaseName, energy::kPhases> names_{};
  std::atomic<uint8_t> phases_{1};

  std::atomic<uint32_t> holders_{0}, next_free_{0};
  WindowSlot* next_fresh_ = nullptr;
  uint32_t number_ = 0;
};

// Thread-safe; Begin and Release neither lock nor allocate once there were as many windows at a time.
class WindowPool {
 public:
  static constexpr uint32_t kChunk = 32, kChunks = 512;

  WindowPool() = default;
  ~WindowPool();
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;

  // With two holders: the program and the engine. Null when 16,384 are open or not settled yet, or there is
  // no memory.
  WindowSlot* Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept;
  // Those that began since the last call; the engine's hold of them is the caller's. By one thread at a time.
  template <class Visit>
  void TakeFresh(Visit visit) {
    for (WindowSlot* slot = fresh_.exchange(nullptr, std::memory_order_acquire); slot;) {
      WindowSlot* next = slot->next_fresh_;
      visit(slot);
      slot = next;
    }
  }
  // Releases one hold.
  void Release(WindowSlot* slot) noexcept;

 private:
  WindowSlot* At(uint32_t number) const noexcept;
  bool Grow() noexcept;
  WindowSlot* Pop() noexcept;
  void Push(WindowSlot* slot) noexcept;

  // The number of the first free one, above it a count of changes: a slot may leave and come back meanwhile.
  std::atomic<uint64_t> free_{0};
  std::atomic<WindowSlot*> fresh_{nullptr};
  std::mutex growing_;
  std::array<std::atomic<WindowSlot*>, kChunks> chunks_{};
  std::atomic<uint32_t> chunk_count_{0};
};

}  // namespace gpulens::sdk
