// HTTP/1.1 relay: takes requests of clients, lets a policy choose where each goes, and streams the upstream's
// answer back without collecting it. It has no opinion on content: routes, keys, budgets and metering are the
// policy's.
//
// Bytes are passed on as they come. Of a head only what belongs to one connection is replaced (RFC 9110,
// 7.6.1): Connection and what it names, Keep-Alive, Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade, Expect,
// Host. Of a body only the frames are ours. No Via is added; redirects are passed on and never followed.
// Forwarded and X-Forwarded-* of clients that are not trusted are dropped; for a trusted one its address is
// appended to X-Forwarded-For.
//
// At most one read of an answer (64 KiB) waits for a slow client; then the upstream is not read. An idle
// stream holds no buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/ref.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/http_message.h"
#include "net/relay/address_range.h"
#include "net/relay/relay_message.h"
#include "net/relay/upstream.h"
#include "net/server/server.h"

namespace gpulens {

class RelayConnection;
struct RelayShared;

// Limits for clients, of one server: of one loop.
struct RelayLimits {
  size_t connections = 20'000;
  size_t streams = 10'000;  // requests that are at an upstream
  RelayHeadLimits head;
  size_t body_bytes = 32u << 20;
  size_t arriving_bytes = 1u << 30;   // of all bodies that are held; a request above it gets 429
  size_t pipelined_bytes = 16 << 10;  // that a client may send ahead
  // For the head of a request; then, in each such interval, for 64 KiB of its body or the rest of it.
  Duration client_body = std::chrono::seconds(60);
  Duration client_idle = std::chrono::seconds(75);  // between two requests
  // In each such interval a client has to read 64 KiB of what waits for it, or all.
  Duration client_write = std::chrono::seconds(60);
  Duration linger = std::chrono::seconds(2);  // reading goes on after the last answer, so that it arrives
};

// A request as the policy sees it. Its views are valid until OnEnd, but the body: until an answer's head
// passes.
struct RelayRequest {
  const RelayHead& head;
  std::string_view body;  // whole in OnRequest, empty before
  const Endpoint& peer;
  bool tls = false;
};

// Where a request goes. Read during the call of Forward, but `body`.
struct RelayForward {
  Ref<UpstreamPool> upstream;
  std::string_view target;                 // empty: as received
  std::span<const std::string_view> drop;  // names of fields that do not pass, without case
  std::string_view fields;                 // whole lines that are added at the end
  // Pieces that replace the body: of the request's, or bytes of the policy that live until OnEnd or the next
  // Forward. Null: the body as received.
  const std::vector<std::string_view>* body = nullptr;
};

// How an upstream's answer passes. Filled in OnUpstreamHead; views are read when that returns.
struct RelayPass {
  std::span<const std::string_view> drop;
  std::string_view fields;
  // Each piece is written before OnBody sees it. Otherwise OnBody chooses what is written.
  bool write_first = true;
  // OnBody passes as many bytes as it gets, so Content-Length stays. Always so with `write_first`.
  bool same_length = false;
};

// What OnBody, OnBodyEnd and OnResume let pass.
class RelayOutput {
 public:
  // The bytes must live until the next call of the exchange. Ignored in OnBody of an answer that passes
  // `write_first`.
  void Pass(std::string_view bytes);
  // Nothing more is read from the upstream, and the end of the answer is not sent, until Resume.
  void Hold() noexcept { hold_ = true; }

 private:
  friend class RelayConnection;
  explicit RelayOutput(std::vector<std::string_view>& pieces) noexcept : pieces_(pieces) {}
  std::vector<std::string_view>& pieces_;
  bool hold_ = false, open_ = true;
};

// What becomes of the upstream when the client has gone.
struct RelayDrain {
  uint64_t bytes = 0;  // of payload that are still read; 0: the connection is closed at once
  Duration time = {};
};

enum class RelayEnd : uint8_t {
  kComplete,        // the upstream's answer was handed over whole
  kAnswered,        // the policy's own answer was
  kRefused,         // the relay answered: body too large, too slow or damaged
  kUpstreamFailed,  // see failure
  kClientGone,      // closed or reset its connection
  kClientSlow,      // did not read in time
  kAborted,         // by the policy
  kStopped,         // the server ended first
};
inline constexpr size_t kRelayEnds = 8;
// "client_gone": the value of an attribute.
std::string_view RelayEndName(RelayEnd end) noexcept;

struct RelayOutcome {
  RelayEnd end = RelayEnd::kComplete;
  RelayFailure failure = RelayFailure::kNone;  // of kUpstreamFailed; of a drained answer that was not whole
  int status = 0;                              // sent to the client; 0: none
  uint64_t received = 0;                       // payload bytes of the answer that came from the upstream
  uint64_t passed = 0;                         // payload bytes that were given out for the client
  // The upstream's answer was read to its end, also after the client had gone.
  bool answer_whole = false;
  std::string_view detail;  // of a failure
};

// An attempt that gave no answer, before a byte went to the client.
struct RelayAttempt {
  RelayFailure failure = RelayFailure::kNone;
  std::string_view detail;
  // Bytes of the request were sent, so the upstream may have begun it.
  bool dispatched = false;
};

// Reaches a request from outside its callbacks. Copyable; used on the loop's thread, from anywhere there.
// Calls after OnEnd do nothing.
class RelayHandle {
 public:
  RelayHandle() noexcept;
  RelayHandle(const RelayHandle&) noexcept;
  RelayHandle& operator=(const RelayHandle&) noexcept;
  ~RelayHandle();

  // Answers the request, before an upstream's answer passes. Instead of an upstream's, in OnUpstreamHead.
  void Answer(HttpResponse response) const;
  // Sends the request on; in OnUpstreamHead and OnAttemptFailed: once more. Not before OnRequest.
  void Forward(const RelayForward& forward) const;
  // After Hold.
  void Resume() const;
  // Cuts the answer: what has been passed goes out, then the connection ends without the end of the answer.
  void Abort() const;
  bool over() const noexcept;

 private:
  friend class RelayConnection;
  RelayHandle(RelayConnection& connection, uint64_t number) noexcept;
  Ref<RelayConnection> connection_;
  uint64_t number_ = 0;
};

// The policy's part of one request. Called on the loop's thread; calls do not block and do not throw.
class RelayExchange {
 public:
  virtual ~RelayExchange() = default;
  // The request is whole. Calls Answer or Forward of its handle, now or later.
  virtual void OnRequest(const RelayRequest& request) = 0;
  // The head of an answer. To try again or to answer instead, calls Forward or Answer.
  virtual void OnUpstreamHead(const RelayHead& head, RelayPass& pass);
  virtual void OnBody(std::string_view piece, RelayOutput& output);
  // The answer's payload is whole. May pass more unless `write_first` or `same_length`.
  virtual void OnBodyEnd(RelayOutput& output);
  // After Resume: passes what was held.
  virtual void OnResume(RelayOutput& output);
  // Calls Forward or Answer, or lets the relay answer (RelayFailureStatus).
  virtual void OnAttemptFailed(const RelayAttempt& attempt);
  // The answer was cut after its head had passed. May pass a last piece, as an error event; the connection
  // then ends without the end of the answer.
  virtual void OnCut(const RelayAttempt& attempt, RelayOutput& output);
  // With kClientGone or kClientSlow while the request is at an upstream.
  virtual RelayDrain OnClientGone();
  // Exactly once, last. The exchange is destroyed afterwards.
  virtual void OnEnd(const RelayOutcome& outcome) = 0;
};

// Outlives the servers that use it.
class RelayPolicy {
 public:
  virtual ~RelayPolicy() = default;
  // The head of a request has come. May answer at once by the handle; the body then is not read.
  virtual std::unique_ptr<RelayExchange> Begin(const RelayRequest& request, RelayHandle handle) = 0;
  // The relay itself is about to answer (400, 408, 413, 429, 431, 502, 503, 504 …): may replace body and
  // type. Of a request that is not valid the head is empty.
  virtual void Refuse(const RelayHead& head, HttpResponse& refusal);
};

// Written on the loop, read from any thread.
struct RelayStats : ServerStats {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> streams{0};   // a gauge
  std::atomic<uint64_t> arriving{0};  // a gauge: bytes of held bodies
};

struct RelayOptions {
  RelayLimits limits;
  Authenticator* authenticator = nullptr;  // its TLS and headers of our answers; users are not got
  std::vector<AddressRange> trusted_peers;
  // A client that ends its sending side still reads: its answer goes on until it resets. Otherwise it has
  // gone, as most clients mean it.
  bool half_close = false;
};

// Serves on one loop; several servers on several loops may listen at one socket (SharedSocket). Thread-safe
// as Server is. Shutdown lets open streams finish until its deadline.
class RelayServer : public Server {
 public:
  RelayServer(IoLoop& loop, RelayPolicy& policy, RelayOptions options);

  const RelayStats& stats() const noexcept;

 private:
  class Core;
};

}  // namespace gpulens
