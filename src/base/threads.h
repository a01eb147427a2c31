// Starts threads without exceptions: a machine at its limit of processes or memory gives a Status.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <functional>
#include <thread>

#include <gpulens/status.h>

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

}  // namespace gpulens
