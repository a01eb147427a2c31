// Upstream servers of a relay: their connections, which are kept for further requests, and a circuit that
// sends nothing to a server that fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/relay/relay_message.h"
#include "net/server/server.h"
#include "net/tls.h"

namespace gpulens {

// Why an upstream gave no (whole) answer, in the order of its phases.
enum class RelayFailure : uint8_t {
  kNone,
  kStreams,         // the relay has as many streams as it may
  kCircuitOpen,     // it failed too often just before
  kBusy,            // all its connections are in use
  kResolve,         // its name has no address
  kForbidden,       // its name has only addresses of link-local or metadata services
  kConnect,         // refused, unreachable
  kConnectTimeout,  // look-up and connect took too long
  kTls,             // handshake, certificate
  kTlsTimeout,      // the handshake took too long
  kClosed,          // the connection ended before an answer
  kHeadTimeout,     // no answer began in time
  kHead,            // what came is not HTTP, or its head is too large
  kIdleTimeout,     // the answer's body stopped coming
  kCut,             // the connection ended within the body
  kBody,            // the frames of the body are damaged
};
inline constexpr size_t kRelayFailures = 16;
// "connect_timeout": the value of an attribute.
std::string_view RelayFailureName(RelayFailure failure) noexcept;
// The status that a client gets for it: 502, 503 or 504.
int RelayFailureStatus(RelayFailure failure) noexcept;

// Opens when requests fail one after another, lets none through for a while, then one as a probe. Not
// thread-safe; no I/O.
class UpstreamCircuit {
 public:
  struct Options {
    int failures = 5;  // in a row that open it; 0: never
    Duration open_for = std::chrono::seconds(10);
  };
  explicit UpstreamCircuit(const Options& options) noexcept : options_(options) {}

  // Whether a request may go now. One that may must be followed by one of the other calls.
  bool Allow(Instant now) noexcept;
  void OnSuccess() noexcept;
  void OnFailure(Instant now) noexcept;
  // The request ended and shows nothing about the upstream.
  void OnAbandoned() noexcept { probing_ = false; }
  bool open() const noexcept { return open_; }

 private:
  const Options options_;
  int failures_ = 0;
  bool open_ = false, probing_ = false;
  Instant opened_;
};

struct UpstreamOptions {
  HttpUrl url = {};                            // scheme, host and port; the rest is not used
  std::shared_ptr<const TlsContext> tls = {};  // for https
  size_t max_connections = 1024;
  size_t max_idle = 256;
  Duration idle = std::chrono::seconds(90);    // that an unused connection is kept
  Duration connect = std::chrono::seconds(5);  // look-up and connect
  Duration tls_handshake = std::chrono::seconds(10);
  Duration head = std::chrono::seconds(600);           // from the request to the head of the answer
  Duration between = std::chrono::seconds(300);        // between two pieces of a body that is waited for
  Duration keep_addresses = std::chrono::seconds(10);  // of a look-up
  RelayHeadLimits limits = {.bytes = 64 << 10, .target_bytes = 0, .fields = 300};
  UpstreamCircuit::Options circuit = {};
  const Clock* clock = &RealClock();  // of the circuit and of addresses
};

class UpstreamConnection;

// A request as an upstream gets it. The bytes stay where they are until it is sent whole or the user has let
// the connection go.
struct UpstreamRequest {
  std::string_view head;
  const std::vector<std::string_view>* body = nullptr;  // null: none
  bool head_only = false;                               // HEAD: the answer has no body
  bool repeatable = false;                              // GET, HEAD: may reach the upstream twice
};

// Who gets an answer. No call comes from inside UpstreamPool::Start. In each call but OnAnswerFailed and the
// last OnAnswerBody the connection may be cancelled.
class UpstreamUser {
 public:
  // Memory for one read. What is in it is passed to the calls that follow, until the next read.
  virtual std::span<char> ReadBuffer() = 0;
  // An interim answer, 1xx but 100 and 101.
  virtual void OnInterim(const RelayHead& head) = 0;
  virtual void OnAnswerHead(const RelayHead& head, RelayFraming framing) = 0;
  // A piece of the body, or none: all that has come is passed on. With `end` the connection is gone from the
  // user. False: reads no more until ReadOn.
  virtual bool OnAnswerBody(std::string_view piece, bool end, std::string_view trailers) = 0;
  // The connection is gone from the user. `repeat`: it was a kept one, and the request may be sent again.
  virtual void OnAnswerFailed(RelayFailure failure, std::string detail, bool repeat) = 0;

 protected:
  ~UpstreamUser() = default;
};

// Connections to one upstream, of one loop. Lives on the loop's thread; counted, so that it may be replaced
// while answers of the old one go on. The loop outlives it.
class UpstreamPool : public RefCounted<UpstreamPool> {
 public:
  UpstreamPool(IoLoop& loop, UpstreamOptions options);
  ~UpstreamPool();

  const UpstreamOptions& options() const noexcept { return options_; }
  const UpstreamCircuit& circuit() const noexcept { return circuit_; }
  // The value of Host.
  const std::string& authority() const noexcept { return authority_; }
  // A request would be refused now without trying: the circuit is open or all connections are in use.
  size_t connections() const noexcept { return connections_.size(); }
  size_t idle() const noexcept { return idle_.size(); }
  uint64_t opened() const noexcept { return opened_; }
  uint64_t reused() const noexcept { return reused_; }
  // Ends the connections that are not in use.
  void CloseIdle();

  // Sends a request, on a kept connection unless `fresh`. kNone and the connection, or why there is none:
  // kCircuitOpen, kBusy.
  RelayFailure Start(UpstreamUser& user, const UpstreamRequest& request, bool fresh,
                     Ref<UpstreamConnection>& connection);

 private:
  friend class UpstreamConnection;
  void Keep(UpstreamConnection& connection);
  void Forget(UpstreamConnection& connection);
  Instant Now() const noexcept { return options_.clock->Now(); }

  IoLoop& loop_;
  const UpstreamOptions options_;
  const std::string authority_;
  std::unique_ptr<Endpoint> literal_;  // the host, when it is an address
  std::vector<Endpoint> addresses_;    // of the last look-up
  Instant looked_up_;
  UpstreamCircuit circuit_;
  std::vector<UpstreamConnection*> idle_;  // the oldest first
  uint64_t opened_ = 0, reused_ = 0;
  ConnectionSet connections_;  // last: its end closes them
};

}  // namespace gpulens
