// Storage of the counts of all instruments of the process: for each thread an array of 64-bit cells that only
// it writes, and one for ended threads. A cell has one number for all threads. Arrays grow when a thread
// first touches a cell, so a thread pays for what it uses. After a fork all cells of the child are 0.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <vector>

#include <gpulens/instruments.h>

#include "base/ref.h"
#include "instruments/window.h"
#include "instruments/worker_file.h"

namespace gpulens::instruments {

// How to merge a range of cells of several threads.
enum class CellMeaning : uint8_t { kInteger, kDouble, kExponential };

// Thread-safe. There is one, which is never destroyed.
class CellStore {
 public:
  // Cells that one thread writes: in memory of the process, or in the file that workers share.
  struct Array {
    CounterCell* cells = nullptr;
    uint32_t size = 0;
    std::unique_ptr<CounterCell[]> memory;  // null: in the file
    uint64_t extent = 0;                    // of the file, which has these counts; 0: none
    // Null: no other process reads.
    CounterCell* move() const noexcept { return memory || !cells ? nullptr : cells - WindowMove::kCells; }
  };
  // Cells of one thread; made at its first touch, freed or kept for another thread at its end.
  struct Thread {
    Array array;
    pthread_t owner{};
    internal::Cells* used = nullptr;  // by which it records
  };

  static CellStore& Instance() noexcept;

  // Adds adjacent cells of these kinds and returns the number of the first.
  struct Part {
    uint32_t count;
    CellMeaning meaning;
  };
  uint32_t Allocate(std::initializer_list<Part> parts);

  // Gives `thread`, whose own thread calls, all cells there are. Its array is another one afterwards.
  void Grow(Thread& thread) noexcept;
  void Join(Thread& thread) noexcept;
  void Leave(Thread& thread) noexcept;
  // From now on counts are in the file, which lives as long as the process: those of a thread that records
  // nothing more, too. Another process sees what a thread records from its next record on.
  void UseFile(WorkerFile& file);
  // Adds to what ended threads have left: of a thread that is past its own end.
  void AddLate(uint32_t cell, uint64_t n) noexcept;
  void AddLate(uint32_t cell, double n) noexcept;
  void RecordLate(uint32_t first, double value) noexcept;

  // Sums over all threads.
  uint64_t Integer(uint32_t cell) const noexcept;
  double Double(uint32_t cell) const noexcept;
  // Whether any thread has touched a cell of the range.
  bool Touched(uint32_t first, uint32_t count) const noexcept;
  ExponentialCounts Window(uint32_t first) const;

  // Called when an instrument is made and when a thread first touches cells, also after a fork, so that
  // exporters can start with them. May lock, must not wait, and may be called by several threads at once.
  // Null: none.
  using UseHook = void (*)() noexcept;
  static void OnUse(UseHook hook) noexcept { use_hook.store(hook, std::memory_order_release); }
  static void ReportUse() noexcept {
    if (const UseHook hook = use_hook.load(std::memory_order_acquire)) hook();
  }

  // Times that the process was forked, counted in the child, and the time of the last.
  uint32_t forks() const noexcept;
  int64_t forked_unix_ns() const noexcept;

 private:
  struct Range {
    uint32_t first, count;
    CellMeaning meaning;
  };
  friend class Immortal<CellStore>;
  static inline constinit std::atomic<UseHook> use_hook{nullptr};
  CellStore();
  static void BeforeFork() noexcept;
  static void AfterForkInParent() noexcept;
  static void AfterForkInChild() noexcept;
  void Enlarge(Array& array, uint32_t least);
  void CopyToFile(Array& from);
  void Merge(const Array& from);
  Array& Late();
  template <class Visit>
  void VisitAll(Visit visit) const;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Range> ranges_;
  uint32_t cells_ = 0;
  std::vector<Thread*> threads_;
  Array retired_;            // of ended threads
  std::vector<Array> idle_;  // of the file: of ended threads, for the next ones
  WorkerFile* file_ = nullptr;
  uint32_t forks_ = 0;
  int64_t forked_unix_ns_ = 0;
};

}  // namespace gpulens::instruments
