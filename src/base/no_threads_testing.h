// Simulates a machine that cannot start threads, for tests.
#pragma once

#include <atomic>

namespace gpulens {

// While one exists, base/threads.h starts no thread.
class NoThreads {
 public:
  NoThreads() { ++living; }
  ~NoThreads() { --living; }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  static std::atomic<int> living;
};

}  // namespace gpulens
