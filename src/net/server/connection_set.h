// Connections of a server: their phases, timeouts and order of closing, and the server's statistics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/ref.h"
#include "net/io_loop.h"

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

}  // namespace gpulens
