// Threads, started without exceptions (a machine at its limit of processes or memory gives a Status), and
// what runs on them: a pool for short jobs, and one thread for a single long one.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/ring.h"

namespace gpulens {

// `thread` must not be joinable; it is unchanged on failure. kExhausted: "start a thread: …". Thread-safe.
Status StartThread(std::thread& thread, std::function<void()> body);

// Starts a thread that is not joined. `stack_bytes` 0: the default stack.
Status StartDetachedThread(std::function<void()> body, size_t stack_bytes = 0);

// Blocks all signals on this thread, and on those that it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Runs short jobs that never block: collecting, parsing, gzip. Thread-safe. Jobs start in the order of Post.
// The destructor finishes running jobs and drops queued ones. Threads that could not be started are tried
// again with each job; one suffices for all.
class Workers {
 public:
  explicit Workers(size_t threads = 2, size_t queue_limit = 512);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // kExhausted while no thread can be started: jobs wait.
  Status status() const;
  // False, and the job is dropped, when the queue is full or Stop was called.
  bool Post(std::function<void()> job);
  // Drops queued jobs, finishes running ones and joins all threads.
  void Stop();

 private:
  void Run();
  void Grow();

  const size_t wanted_;
  mutable std::mutex mutex_;  // guards what follows, but `threads_` while they are joined
  std::condition_variable wake_;
  Ring<std::function<void()>> queue_;
  bool stopping_ = false;
  Status started_;  // of the last attempt
  std::vector<std::thread> threads_;
};

// A thread that does one piece of work per request, such as running programs. Request is thread-safe. The
// destructor makes stop_fd readable and joins; a running request is not answered then.
class Background {
 public:
  // `work` gets the deadline of the request.
  explicit Background(std::function<void(Instant deadline)> work);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Calls `done` once, on the thread, after the work. One request at a time. When the thread cannot be
  // started, which is tried with each request, calls `done` at once without work.
  void Request(Instant deadline, std::function<void()> done);
  // Readable when the work should end at once.
  int stop_fd() const noexcept { return stop_.get(); }
  // For the work: whether it should end, and a pause that this interrupts.
  bool stopping();
  void Pause(Duration span);
  // Starts the thread; requests wait until then. kExhausted: no thread yet.
  Status Start();

 private:
  void Run();

  const std::function<void(Instant)> work_;
  UniqueFd stop_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  std::function<void()> done_;  // set: a request waits or runs
  Instant deadline_;
  bool begun_ = false;
  std::thread thread_;
};

}  // namespace gpulens
