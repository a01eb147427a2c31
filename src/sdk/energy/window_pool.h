// Pool of open windows, shared by programs and the accounting. Begin, end and mark take no lock, do not
// allocate and do not wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "energy/share_ledger.h"

namespace gpulens::sdk {

class DeviceLedger;

// Sums over the readings of a window.
struct TickSums {
  struct Statistic {
    double sum = 0, peak = 0;
    uint32_t count = 0;
    void Add(double value) noexcept;
  };
  uint32_t count = 0;
  Statistic watts, utilization, memory, temperature;
};

// The energy curve of one device at an edge of a window.
struct DeviceEdge {
  double joules = kNotMeasured;
  uint32_t flaws = 0;  // CurvePosition::flaws_ended of a begin, flaws_begun of an end
  energy::EnergyFlaw flaw = energy::EnergyFlaw::kNone;
};

// One window. The program's side writes the atomics and the marks; the engine's lock guards the rest. Freed
// when both sides have released it.
class WindowSlot {
 public:
  static constexpr size_t kNameBytes = 32;
  using PhaseName = std::array<char, kNameBytes>;

  // ---- the program's side: one thread at a time; AddTokens is thread-safe
  void Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept;
  bool End(int64_t at_ns) noexcept;  // false: it has already ended
  void AddTokens(int64_t tokens) noexcept {
    if (tokens > 0) tokens_.fetch_add(tokens, std::memory_order_relaxed);
  }
  void Mark(std::string_view name, int64_t at_ns) noexcept;
  // Returns the number of the phase with this name; 0: none.
  uint8_t PhaseOf(std::string_view name) const noexcept;

  DeviceLedger* ledger() const noexcept { return ledger_; }
  int64_t begin_ns() const noexcept { return begin_ns_; }
  int64_t end_ns() const noexcept { return end_ns_.load(std::memory_order_acquire); }
  bool ended() const noexcept { return end_ns() != energy::kOpenEnd; }
  // Number of marks dropped because there were too many between two readings.
  uint32_t lost_marks() const noexcept { return lost_marks_.load(std::memory_order_relaxed); }

  // ---- the engine's side, under its lock
  void TakeOver() noexcept;  // brings the account up to date
  energy::EnergyAccount account;
  TickSums ticks;
  // The curves of the ledger's devices at the begin and at the end, once these are settled. They keep their
  // memory for the next window.
  std::vector<DeviceEdge> device_begins, device_ends;

 private:
  friend class WindowPool;
  DeviceLedger* ledger_ = nullptr;
  int64_t begin_ns_ = 0;
  bool shares_ = false, taken_ = false;
  std::atomic<int64_t> end_ns_{energy::kOpenEnd}, tokens_{0};
  // Ring of marks: written at `marked_`, read up to it.
  std::array<energy::EnergyAccount::Mark, energy::kPendingMarks> marks_{};
  std::atomic<uint32_t> marked_{0}, read_{0}, lost_marks_{0};
  // A name is written before the first mark that uses it; entry 0 is unused.
  std::array<PhaseName, energy::kPhases> names_{};
  std::atomic<uint8_t> phases_{1};

  std::atomic<uint32_t> holders_{0}, next_free_{0};
  WindowSlot* next_fresh_ = nullptr;
  uint32_t number_ = 0;
};

// Thread-safe. Begin and Release neither lock nor allocate, unless more windows are open than ever before.
class WindowPool {
 public:
  static constexpr uint32_t kChunk = 32, kChunks = 512;

  WindowPool() = default;
  ~WindowPool();
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;

  // Begins a window with two references, the program's and the engine's. Null when 16,384 are open or not yet
  // settled, or there is no memory.
  WindowSlot* Begin(DeviceLedger* ledger, bool shares, int64_t at_ns) noexcept;
  // Visits the windows begun since the last call and passes on the engine's reference. Called by one thread
  // at a time.
  template <class Visit>
  void TakeFresh(Visit visit) {
    for (WindowSlot* slot = fresh_.exchange(nullptr, std::memory_order_acquire); slot;) {
      WindowSlot* next = slot->next_fresh_;
      visit(slot);
      slot = next;
    }
  }
  // Releases one reference.
  void Release(WindowSlot* slot) noexcept;

 private:
  WindowSlot* At(uint32_t number) const noexcept;
  bool Grow() noexcept;
  WindowSlot* Pop() noexcept;
  void Push(WindowSlot* slot) noexcept;

  // Number of the first free slot in the low half, a change counter in the high half: it prevents the ABA
  // problem.
  std::atomic<uint64_t> free_{0};
  std::atomic<WindowSlot*> fresh_{nullptr};
  std::mutex growing_;
  std::array<std::atomic<WindowSlot*>, kChunks> chunks_{};
  std::atomic<uint32_t> chunk_count_{0};
};

}  // namespace gpulens::sdk
