// The way into a server, whatever it speaks: how many may be in, who goes when there are more, and whether
// TLS is spoken with those that come.
#pragma once

#include <memory>

#include "net/accept/connection_set.h"
#include "net/accept/limits.h"
#include "net/accept/listener.h"
#include "net/auth/authenticator.h"
#include "net/stream.h"

namespace gpulens {

// Lives on the loop's thread. What `House` names outlives it, but need not be made before it.
class Door : public Acceptor {
 public:
  struct House {
    IoLoop& loop;
    Authenticator* authenticator;  // null: everyone, without TLS
    size_t most_connections;
    DoorStats& stats;
    ConnectionSet& connections;
    Stream::Protocol protocol = Stream::Protocol::kHttp1;
  };

  // An idle connection goes for one too many; where all are busy, the new one does.
  void OnAccept(UniqueFd socket, const Endpoint& peer) final;
  bool MakeRoom() final;

 protected:
  explicit Door(House house) : house_(house) {}
  ~Door() = default;
  // A client that was let in. `rules` are those of its whole stay.
  virtual void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) = 0;

 private:
  House house_;
};

}  // namespace gpulens
