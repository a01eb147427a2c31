// Memory of processes: what they use, what can be released, and the limit above which new series are refused.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace gpulens {

// The resident bytes of a process, 0 for this one; with `shared`, also those of files that it shares with
// others. 0: unknown.
uint64_t ResidentBytes(pid_t pid, bool shared);

// Releases freed memory and the pages of the program's file, once the start is over. Code and constants that
// are still needed return from the page cache at a soft fault each. Thread-safe; other threads go on.
void ReleaseStartPages() noexcept;

// Compares the memory of the agent's processes with limits.memory. Above it series of pages and other
// programs are refused, so that they cannot end the agent or its own readings. Thread-safe.
class MemoryWatch {
 public:
  // The bytes in use now; 0: unknown, then there is room.
  using Used = std::function<uint64_t()>;

  MemoryWatch(const Clock& clock, Used used) : clock_(clock), used_(std::move(used)) {}

  // 0: no limit.
  void SetLimit(uint64_t bytes) noexcept { limit_ = bytes; }
  uint64_t limit() const noexcept { return limit_; }
  // Cheap enough for each series: reads the memory ten times a second, and once per 256 calls.
  bool HasRoom();

 private:
  void Check(int64_t now);

  const Clock& clock_;
  const Used used_;
  std::atomic<uint64_t> limit_{0}, calls_{0};
  std::atomic<int64_t> checked_ns_{INT64_MIN};
  std::atomic<bool> room_{true};
  std::mutex checking_;  // guards what follows
  int64_t trimmed_ns_ = INT64_MIN;
};

}  // namespace gpulens
