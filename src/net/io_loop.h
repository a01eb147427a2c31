// The one thread that waits for sockets, timers and signals.
//
// Everything that has a socket lives on this thread: its callbacks never run at the same time and
// must never wait. Work that takes longer than a few hundred microseconds belongs on a worker, which
// comes back with Post. Built on Asio, which stays inside io_loop.cc and stream.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "net/message/address.h"

namespace boost::asio {
class io_context;
}

namespace gpulens {

// Thread-safe except where said. Outlives every Stream, server, client and responder made on it.
class IoLoop {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;

  IoLoop();
  ~IoLoop();  // Stop()
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  // Starts the thread. A loop is started once. See status().
  void Start();
  // kExhausted when there was no room for the thread: then Call runs what it is given, and nothing else runs.
  Status status() const;
  // Runs on the calling thread instead, until Stop() from any thread.
  void Run();
  // Ends the loop and joins its thread; waiting tasks are dropped, never run. Not from the loop itself
  // when Start() was used.
  void Stop();

  // Runs `task` on the loop, after the present callback, in the order of the calls of one thread.
  void Post(Task task);
  // Runs `task` on the loop and returns when it is done: at once on the loop's own thread, and on the
  // calling thread when no loop is running (before Start, after Stop). Not while another thread calls Stop.
  void Call(const Task& task);
  // True on the loop's thread.
  bool InLoop() const noexcept;

  // Runs `task` on the loop once `delay` has passed on the monotonic clock. 0 is never an id.
  TimerId After(Duration delay, Task task);
  // Forgets a timer; ids that have fired are ignored. On the loop it is certain that the task will not
  // run afterwards; from another thread it may be running.
  void Cancel(TimerId id);

  // Calls `task` on the loop at every delivery of `signal`, from now on. The signal's default action is
  // replaced for the whole process. kInvalidArgument for signals that cannot be caught.
  Status OnSignal(int signal, Task task);

  // Looks up a host name (an IP address needs no lookup) on a helper thread that the first lookup
  // starts; calls `done` on the loop with at least one address, or kUnavailable. A lookup cannot be
  // cut short: whoever needs a deadline forgets the answer.
  using Resolved = std::function<void(Result<std::vector<Endpoint>>)>;
  void Resolve(std::string host, uint16_t port, Resolved done);

  // For net/*.cc only.
  boost::asio::io_context& context() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
