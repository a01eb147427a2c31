// Listening sockets, and what servers of every protocol share.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/server/connection_set.h"
#include "net/stream.h"

namespace gpulens {

class Acceptor {
 public:
  virtual void OnAccept(UniqueFd socket, const Endpoint& peer) = 0;
  // No file descriptor is left for a new client: closes an idle connection. False when there is none.
  virtual bool MakeRoom() = 0;

 protected:
  ~Acceptor() = default;
};

// Accepts connections at addresses that come and go. When file descriptors run out, a spare one is used to
// turn the newest client away, so that accepting never spins. Lives on the loop's thread.
class Listeners {
 public:
  // `acceptor` outlives this.
  Listeners(IoLoop& loop, Acceptor& acceptor);
  ~Listeners();

  // Starts to accept; returns the address with its real port.
  Result<Endpoint> Add(UniqueFd listening);
  // Closes the socket at `at`, if there is one.
  void Remove(const Endpoint& at);
  void RemoveAll();
  std::vector<Endpoint> addresses() const;

 private:
  class Listener;
  IoLoop& loop_;
  Acceptor& acceptor_;
  UniqueFd spare_;
  std::vector<std::unique_ptr<Listener>> all_;
};

// A listening socket that several servers of this process may use: on a reload the old server gives up its
// address only after the new one has it. Closed with the last owner. Immutable; thread-safe.
class SharedSocket {
 public:
  // The present socket at `at`, else a new one; errors are those of OpenListeningSocket. Ports chosen by the
  // system and Unix sockets, whose file is removed with their server, are not shared. Any thread.
  static Result<std::shared_ptr<SharedSocket>> Get(const Endpoint& at);

  // A descriptor of the same socket, for Server::Listen.
  Result<UniqueFd> Copy() const;

 private:
  SharedSocket(UniqueFd fd, const Endpoint& at) : fd_(std::move(fd)), at_(at) {}
  const UniqueFd fd_;
  const Endpoint at_;
};

// Base of the servers: addresses, the connection limit, TLS and an orderly end. Thread-safe. The loop
// outlives it.
class Server {
 public:
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves at one more address; returns it with its real port. Errors are those of OpenListeningSocket.
  Result<Endpoint> Listen(const Endpoint& at);
  // The same with a bound socket (socket activation, SharedSocket).
  Result<Endpoint> Listen(UniqueFd listening);
  // Accepts no more there; its connections live on. To move, Listen at the new address first.
  void StopListening(const Endpoint& at);
  std::vector<Endpoint> addresses() const;
  // Accepts no more, lets every connection finish what is in flight, closes the rest after `deadline`, then
  // calls `done` on the loop. Call once.
  void Shutdown(Duration deadline, std::function<void()> done);

 protected:
  // The part on the loop's thread. What `Dependencies` refers to may be constructed later.
  class Core : private Acceptor {
   public:
    virtual ~Core();

   protected:
    struct Dependencies {
      IoLoop& loop;
      Authenticator* authenticator;  // null: no authentication and no TLS
      size_t max_connections;
      AdmissionStats& stats;
      ConnectionSet& connections;
      Stream::Protocol protocol = Stream::Protocol::kHttp1;
    };
    explicit Core(const Dependencies& dependencies);
    // Called for each accepted connection. `rules` hold until it ends.
    virtual void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) = 0;

   private:
    friend class Server;
    // At the limit, closes an idle connection; if none is idle, rejects the new one.
    void OnAccept(UniqueFd socket, const Endpoint& peer) final;
    bool MakeRoom() final;

    const Dependencies dependencies_;
    Listeners listeners_;
    IoLoop::TimerId deadline_ = 0;
  };

  Server(IoLoop& loop, std::unique_ptr<Core> core);
  ~Server();  // closes everything at once

  IoLoop& loop_;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
