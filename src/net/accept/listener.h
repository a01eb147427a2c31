// Listening sockets and the accepting of connections.
//
// Many addresses at once; addresses come and go while others serve. When file descriptors run out a
// spare one is given up to turn the newest client away, so that accepting never spins. Lives on the
// loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/blocking/listening_socket.h"
#include "net/message/address.h"
#include "net/stream.h"

namespace gpulens {

class Acceptor {
 public:
  virtual void OnAccept(UniqueFd socket, const Endpoint& peer) = 0;
  // No descriptor is left for a client that knocks. Closing an idle connection makes room for it.
  // False when there is none.
  virtual bool MakeRoom() = 0;

 protected:
  ~Acceptor() = default;
};

class Listeners {
 public:
  // `acceptor` outlives this.
  Listeners(IoLoop& loop, Acceptor& acceptor);
  ~Listeners();

  // Starts to accept; returns the address with its real port.
  Result<Endpoint> Add(UniqueFd listening);
  // Stops to accept there and closes the socket; nothing when it is not ours.
  void Remove(const Endpoint& at);
  void RemoveAll();
  std::vector<Endpoint> addresses() const;

 private:
  class One;
  IoLoop& loop_;
  Acceptor& acceptor_;
  UniqueFd spare_;
  std::vector<std::unique_ptr<One>> all_;
};

}  // namespace gpulens
