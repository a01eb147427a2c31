// Small parts of an actor.
#pragma once

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/ring_kernel.h>

namespace gpulens::internal {

// The processor time of a thread that runs.
class ThreadCpu {
 public:
  void Watch(pthread_t thread) noexcept { known_ = ::pthread_getcpuclockid(thread, &clock_) == 0; }
  std::optional<double> Seconds() const noexcept {
    timespec at{};
    if (!known_ || ::clock_gettime(clock_, &at) != 0) return std::nullopt;
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
  }

 private:
  bool known_ = false;
  clockid_t clock_{};
};

// Waits until `ready`; false: not by the end of `timeout`. Further than a year is for ever.
template <class Ready>
bool Wait(std::condition_variable& on, std::unique_lock<std::mutex>& lock, Duration timeout,
          const Ready& ready) {
  if (ready()) return true;
  if (timeout <= Duration::zero()) return false;
  if (timeout > std::chrono::hours(24 * 365)) return on.wait(lock, ready), true;
  return on.wait_until(lock, std::chrono::steady_clock::now() + timeout, ready);
}

inline double Seconds(Duration span) noexcept { return std::chrono::duration<double>(span).count(); }

// What is told of a kernel that does not do as it is asked.
Status LateBy(const std::string& id, std::string_view what);
Status Refusal(const std::string& id, KernelState state, const std::string& failure, std::string_view what);
Status WrongState(const std::string& id, KernelState state, KernelState wanted, std::string_view what);

}  // namespace gpulens::internal
