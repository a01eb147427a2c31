// For tests: a machine that has no room for another thread.
#pragma once

#include <atomic>

namespace gpulens {

// While one lives, no thread of this process can be started by base/threads.h.
class NoThreads {
 public:
  NoThreads() { ++living; }
  ~NoThreads() { --living; }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  static std::atomic<int> living;
};

}  // namespace gpulens
