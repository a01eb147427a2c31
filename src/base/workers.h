// A few threads that run short jobs which never wait: collecting, parsing, gzip, bcrypt.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/ring.h"

namespace gpulens {

// Thread-safe. Jobs start in the order they were posted. The destructor finishes running jobs and
// drops queued ones. Threads for which there is no room are tried again with each job; one is enough for all.
class Workers {
 public:
  explicit Workers(size_t threads = 2, size_t queue_limit = 512);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // kExhausted while not even one thread can be started: jobs wait.
  Status status() const;
  // False, and the job is dropped, when the queue is full or Stop was called.
  bool Post(std::function<void()> job);
  // Queued jobs are dropped, running ones are finished; returns when all threads have ended.
  void Stop();

 private:
  void Run();
  void Grow();

  const size_t wanted_;
  mutable std::mutex mutex_;  // guards what follows, but `threads_` while they are joined
  std::condition_variable wake_;
  Ring<std::function<void()>> queue_;
  bool stopping_ = false;
  Status started_;  // of the last thread that was tried
  std::vector<std::thread> threads_;
};

}  // namespace gpulens
