// The one thread that checks passwords. bcrypt takes 50 ms to seconds a try, on purpose, and anybody may ask
// for a try: so it has a place of its own, where it holds up neither collecting nor answers.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "net/message/address.h"

namespace gpulens {

// Checks that wait, in a fair order: addresses take turns, and each one's checks are done in the order in
// which they came. Not thread-safe.
class PasswordQueue {
 public:
  // Called once: with true when it is its turn, with false when it has to give way.
  using Job = std::function<void(bool turn)>;
  struct Limits {
    size_t waiting = 64;
    size_t of_one_address = 8;
  };
  explicit PasswordQueue(const Limits& limits) : limits_(limits) {}

  // False, and `job` is not taken, when that address has its share, or when the queue is full and no address
  // has more than this one. In a full queue the newest check of the address that has most gives way: it is
  // put into `gone`.
  bool Push(const Endpoint& from, Job& job, Job& gone);
  std::optional<Job> Pop();
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }

 private:
  // Of whom a check is: IPv4 by address, IPv6 by its network of 64 bits, this machine as one.
  using Key = std::array<uint8_t, 9>;
  static Key KeyOf(const Endpoint& from) noexcept;

  const Limits limits_;
  std::map<Key, std::deque<Job>> waiting_;  // none is empty
  std::optional<Key> last_;                 // whose turn it was
  size_t size_ = 0;
};

// Runs the checks of a PasswordQueue at a low priority. Thread-safe. The thread starts with the first check.
class PasswordThread {
 public:
  explicit PasswordThread(const PasswordQueue::Limits& limits = {}) : queue_(limits) {}
  ~PasswordThread() { Stop(); }
  PasswordThread(const PasswordThread&) = delete;
  PasswordThread& operator=(const PasswordThread&) = delete;

  // False, and the job is not called, when there is no room for it, after Stop, or where no thread can be
  // made. A job that gives way to another one is called by the thread that posts that one.
  bool Post(const Endpoint& from, PasswordQueue::Job job);
  // Finishes the check that runs; those that wait are dropped without a call.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  PasswordQueue queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gpulens
