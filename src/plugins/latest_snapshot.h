// Holds the latest snapshot: set by the pipeline, read by pull sinks.
#pragma once

#include <mutex>

#include "core/frame.h"

namespace gpulens {

// Thread-safe. A returned snapshot is valid as long as it is held.
class LatestSnapshot {
 public:
  void Put(Ref<const Snapshot> snapshot) {
    // The previous snapshot is released outside the lock.
    std::lock_guard lock(mutex_);
    std::swap(latest_, snapshot);
  }
  // Null before the first tick.
  Ref<const Snapshot> latest() const {
    std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  Ref<const Snapshot> latest_;
};

}  // namespace gpulens
