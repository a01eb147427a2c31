// Where plugins report that something happened. What is reported waits here until the next tick.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Thread-safe. Never waits for a reader: when kMaxWaiting events wait, a further one is dropped and
// counted.
class EventDesk {
 public:
  static constexpr size_t kMaxWaiting = 4096;

  void Report(Event event);
  // What was reported since the last call, oldest first.
  std::vector<Event> Take();
  uint64_t dropped() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Event> waiting_;
  uint64_t dropped_ = 0;
};

}  // namespace gpulens
