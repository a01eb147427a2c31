// Event loop on one thread: sockets, timers and signals. Built on Asio, which stays inside io_loop.cc and
// stream.cc.
//
// Objects with sockets live on its thread, so their callbacks never run concurrently. Callbacks must not
// block; work of more than a few hundred microseconds belongs on a worker, which returns by Post.
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

// Thread-safe. Outlives every Stream, server, client and responder made on it.
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
  // kExhausted when the thread could not be started: then only tasks given to Call run.
  Status status() const;
  // Runs on the calling thread instead, until Stop() from any thread.
  void Run();
  // Ends the loop, drops waiting tasks and joins the thread; after Start() not from the loop itself.
  void Stop();

  // Runs `task` on the loop, after the present callback, in the order of the calls of one thread.
  void Post(Task task);
  // Runs `task` on the loop and returns when it is done; on the calling thread when that is the loop's, or no
  // loop runs (before Start, after Stop). Not while another thread calls Stop.
  void Call(const Task& task);
  // True on the loop's thread.
  bool InLoop() const noexcept;

  // Runs `task` on the loop after `delay` of the monotonic clock. Ids are never 0.
  TimerId After(Duration delay, Task task);
  // Ignores timers that have fired. When called on the loop the task does not run afterwards; from another
  // thread it may be running.
  void Cancel(TimerId id);

  // Calls `task` on the loop at every delivery of `signal`, in place of its default action for the whole
  // process. kInvalidArgument for signals that cannot be caught.
  Status OnSignal(int signal, Task task);

  // Looks up a host name, or parses an IP address, and calls `done` on the loop with at least one address, or
  // kUnavailable. Look-ups run on a helper thread and cannot be cancelled.
  using Resolved = std::function<void(Result<std::vector<Endpoint>>)>;
  void Resolve(std::string host, uint16_t port, Resolved done);

  // For net/*.cc only.
  boost::asio::io_context& context() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
