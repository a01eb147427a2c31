// Where the latest snapshot is found. The pipeline puts it, pull sinks take it.
#pragma once

#include <mutex>

#include "core/frame.h"

namespace gpulens {

// Thread-safe. A snapshot that was taken stays valid as long as it is held.
class LatestSnapshot {
 public:
  void Put(Ref<const Snapshot> snapshot) {
    // The former snapshot is let go outside the lock.
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
