#include "net/accept/server_sockets.h"

#include "base/result.h"

namespace gpulens {

ServerSockets::ServerSockets(IoLoop& loop, Acceptor& acceptor, ConnectionSet& connections)
    : loop_(loop), connections_(connections), listeners_(loop, acceptor) {}

ServerSockets::~ServerSockets() {
  if (deadline_) loop_.Cancel(deadline_);
}

Result<Endpoint> ServerSockets::Listen(const Endpoint& at) {
  ASSIGN_OR_RETURN(UniqueFd socket, OpenListeningSocket(at));
  return Listen(std::move(socket));
}

Result<Endpoint> ServerSockets::Listen(UniqueFd listening) {
  Result<Endpoint> added = Status{Code::kIo, "not run"};
  loop_.Call([&] { added = listeners_.Add(std::move(listening)); });
  return added;
}

void ServerSockets::StopListening(const Endpoint& at) {
  loop_.Call([&] { listeners_.Remove(at); });
}

std::vector<Endpoint> ServerSockets::addresses() const {
  std::vector<Endpoint> found;
  loop_.Call([&] { found = listeners_.addresses(); });
  return found;
}

void ServerSockets::Shutdown(Duration deadline, std::function<void()> done) {
  loop_.Call([&] {
    listeners_.RemoveAll();
    deadline_ = loop_.After(deadline, [this] {
      deadline_ = 0;
      connections_.CloseAll();
    });
    connections_.OnEmpty(std::move(done));
    connections_.FinishAll();
  });
}

}  // namespace gpulens
