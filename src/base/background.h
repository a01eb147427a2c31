// A thread that does one piece of work when it is asked to: running programs, which nobody else waits for.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"

namespace gpulens {

// Request may be called from any thread. The destructor makes stop_fd readable, waits for the work to end,
// and joins; a request that runs then is not answered.
class Background {
 public:
  // `work` gets the deadline of the request; it runs on the thread alone.
  explicit Background(std::function<void(Instant deadline)> work);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Calls `done` once, from the thread, after the work. One request at a time. Where there is no room for the
  // thread, which is tried again with each request, `done` is called at once, and no work was done.
  void Request(Instant deadline, std::function<void()> done);
  // Readable when the work shall end at once.
  int stop_fd() const noexcept { return stop_.get(); }
  // For the work: whether it shall end, and a wait that such an end cuts short.
  bool stopping();
  void Pause(Duration span);
  // Begins: until then requests wait. What the work needs has to stand before. kExhausted: no thread, yet.
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
