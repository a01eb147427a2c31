// A listening socket that several servers of this process may serve, one after the other or for a moment at
// once: what a reload replaces lets go of its address only after its successor has it.
#pragma once

#include <memory>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/message/address.h"

namespace gpulens {

// Held by everyone who serves it; closed with the last one. Immutable; thread-safe.
class SharedSocket {
 public:
  // The one that somebody holds already, else a new one; errors are those of OpenListeningSocket. Ports that
  // the system chooses and Unix sockets, whose file goes with their server, are not shared. Any thread.
  static Result<std::shared_ptr<SharedSocket>> Get(const Endpoint& at);

  // A descriptor of the same socket, for HttpServer::Listen.
  Result<UniqueFd> Copy() const;

 private:
  SharedSocket(UniqueFd fd, const Endpoint& at) : fd_(std::move(fd)), at_(at) {}
  const UniqueFd fd_;
  const Endpoint at_;
};

}  // namespace gpulens
