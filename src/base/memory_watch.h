// Whether the agent's processes hold less memory than limits.memory: what pages and programs of others bring
// is refused above it, so that they cannot end the agent or its own readings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace gpulens {

// Thread-safe.
class MemoryWatch {
 public:
  // What the processes hold now, in bytes; 0: not known, then there is room.
  using Used = std::function<uint64_t()>;

  MemoryWatch(const Clock& clock, Used used) : clock_(clock), used_(std::move(used)) {}

  // 0: none.
  void SetLimit(uint64_t bytes) noexcept { limit_ = bytes; }
  uint64_t limit() const noexcept { return limit_; }
  // Cheap to ask for each series: the kernel is asked ten times a second, and once for some hundred series.
  bool HasRoom();

 private:
  void Look(int64_t now);

  const Clock& clock_;
  const Used used_;
  std::atomic<uint64_t> limit_{0}, queried_{0};
  std::atomic<int64_t> looked_ns_{INT64_MIN};
  std::atomic<bool> room_{true};
  std::mutex looking_;  // guards what follows
  int64_t trimmed_ns_ = INT64_MIN;
};

}  // namespace gpulens
