// What every server of ours has: addresses that come and go while it serves, and an orderly end.
//
// Stands between the public object of a server, which any thread may use, and its parts on the loop's
// thread: the listening sockets and the set of connections.
#pragma once

#include <functional>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/accept/connection_set.h"
#include "net/accept/listener.h"
#include "net/io_loop.h"

namespace gpulens {

// The functions are thread-safe; made and destroyed on the loop's thread, or while the loop is not
// running. Loop, acceptor and connections outlive it.
class ServerSockets {
 public:
  ServerSockets(IoLoop& loop, Acceptor& acceptor, ConnectionSet& connections);
  ~ServerSockets();
  ServerSockets(const ServerSockets&) = delete;
  ServerSockets& operator=(const ServerSockets&) = delete;

  // Serves at one more address. Errors are those of OpenListeningSocket. Returns the real port.
  Result<Endpoint> Listen(const Endpoint& at);
  // The same with a socket that is bound already.
  Result<Endpoint> Listen(UniqueFd listening);
  // Accepts no more there; its connections live on.
  void StopListening(const Endpoint& at);
  std::vector<Endpoint> addresses() const;
  // Accepts no more, lets every connection finish, closes the rest after `deadline`, then calls `done` on
  // the loop. Call once.
  void Shutdown(Duration deadline, std::function<void()> done);

 private:
  IoLoop& loop_;
  ConnectionSet& connections_;
  Listeners listeners_;
  IoLoop::TimerId deadline_ = 0;
};

}  // namespace gpulens
