// A few threads that run short jobs which never wait: collecting, parsing, gzip, bcrypt.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/ring.h"

namespace gpulens {

// Thread-safe. Jobs start in the order they were posted. The destructor finishes running jobs and
// drops queued ones.
class Workers {
 public:
  explicit Workers(size_t threads = 2, size_t queue_limit = 512);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False, and the job is dropped, when the queue is full or Stop was called.
  bool Post(std::function<void()> job);
  // Queued jobs are dropped, running ones are finished; returns when all threads have ended.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  Ring<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gpulens
