// Accepts the connections of a server of any protocol: enforces the connection limit and starts TLS.
#pragma once

#include <memory>

#include "net/accept/connection_set.h"
#include "net/accept/listener.h"
#include "net/auth/authenticator.h"
#include "net/stream.h"

namespace gpulens {

// Used on the loop's thread. What `Dependencies` refers to outlives it, but need not be constructed before
// it.
class ConnectionAdmission : public Acceptor {
 public:
  struct Dependencies {
    IoLoop& loop;
    Authenticator* authenticator;  // null: no authentication and no TLS
    size_t max_connections;
    AdmissionStats& stats;
    ConnectionSet& connections;
    Stream::Protocol protocol = Stream::Protocol::kHttp1;
  };

  // At the limit, closes an idle connection; if none is idle, rejects the new one.
  void OnAccept(UniqueFd socket, const Endpoint& peer) final;
  bool MakeRoom() final;

 protected:
  explicit ConnectionAdmission(Dependencies dependencies) : dependencies_(dependencies) {}
  ~ConnectionAdmission() = default;
  // Called for each accepted connection. `rules` hold until it ends.
  virtual void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) = 0;

 private:
  Dependencies dependencies_;
};

}  // namespace gpulens
