// What servers of every protocol share: listening sockets, and their connections with phases, timeouts, order
// of closing and statistics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/ref.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/stream.h"

namespace gpulens {

// Why a client was refused. The names are values of a metric's attribute.
enum class Refusal : uint8_t { kLimit, kTimeout, kHeaderSize, kBodySize, kTls, kAuth, kOrigin, kSlow };
inline constexpr size_t kRefusals = 8;
inline constexpr const char* kRefusalNames[kRefusals] = {"limit", "timeout", "header_size", "body_size",
                                                         "tls",   "auth",    "origin",      "slow"};

// Written on the loop, read from any thread. Counters only grow; the gauge is `connections`.
struct AdmissionStats {
  std::atomic<uint64_t> connections{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused[kRefusals] = {};

  void Refused(Refusal why) noexcept {
    refused[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t refusals(Refusal why) const noexcept {
    return refused[static_cast<size_t>(why)].load(std::memory_order_relaxed);
  }
};

struct ServerStats : AdmissionStats {
  std::atomic<uint64_t> answers[6] = {};  // by the first digit of the status
  std::atomic<uint64_t> bytes_sent{0};
};

enum class Phase : uint8_t {
  kRequest,  // a request is expected or has begun: also half-open connections
  kIdle,     // between two requests
  kWork,     // a handler has the request; no timeout
  kWrite,    // a response waits for the client
  kLinger,   // all is sent; reads on until the client closes
  kOpen,     // an established WebSocket
};
inline constexpr size_t kPhases = 6;

// Counted, as responses of other threads may arrive after a connection is gone.
class Connection : public RefCounted<Connection> {
 public:
  virtual ~Connection() = default;
  // The timeout of `phase` is over. Must change the phase, enter it again, or close.
  virtual void OnDeadline(Phase phase) = 0;
  // Ends the connection now and leaves the set. Idempotent.
  virtual void Close() = 0;
  // The server is stopping: closes when nothing is in flight, else after the last response.
  virtual void FinishAndClose() = 0;

  Phase phase() const noexcept { return phase_; }

 private:
  friend class ConnectionSet;
  Connection* before_ = nullptr;
  Connection* after_ = nullptr;
  int64_t entered_ns_ = 0;
  Phase phase_ = Phase::kRequest;
  bool member_ = false;
};

// The connections of one server. Each phase has one timeout, so its list is in order of expiry, and every
// operation takes constant time. Lives on the loop's thread.
class ConnectionSet {
 public:
  // A timeout of 0 means none.
  ConnectionSet(IoLoop& loop, std::array<Duration, kPhases> timeouts);
  ~ConnectionSet();
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  size_t size() const noexcept { return size_; }
  // The set holds a reference until Remove.
  void Add(Connection& connection, Phase phase);
  void Remove(Connection& connection);
  // Enters `phase` and restarts its timeout, also if it is the present one.
  void Enter(Connection& connection, Phase phase);
  // Closes the least important connection: the oldest half-open one, then the longest idle one, then a client
  // that has not read its response for a second. False when there is none.
  bool CloseOne();
  void CloseAll();
  void FinishAll();
  // Calls `empty` once, when the set is or becomes empty.
  void OnEmpty(std::function<void()> empty);

 private:
  struct List {
    Connection* first = nullptr;
    Connection* last = nullptr;
  };
  void Link(Connection& connection, Phase phase);
  void Unlink(Connection& connection);
  void Arm(int64_t at_ns);
  void Expire();

  IoLoop& loop_;
  std::array<Duration, kPhases> timeouts_;
  std::array<List, kPhases> lists_;
  size_t size_ = 0;
  IoLoop::TimerId timer_ = 0;
  int64_t timer_at_ns_ = 0;
  std::function<void()> empty_;
};

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
    // Counts a connection that comes, and makes room for it where that is needed. False: there is no room.
    bool Admit();
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
