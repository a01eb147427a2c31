// What a RequestSender knows of its receiver: where requests go, what a record becomes, what answers mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/backoff.h"
#include "delivery/record.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_client.h"

namespace gpulens {

// What an answer means for its request.
struct SendOutcome {
  // kAnew: at once, as SendSetup::rework makes it now; the second time, as kAgain.
  enum Kind : uint8_t { kTaken, kAgain, kRefused, kAnew } kind = kTaken;
  uint64_t rejected = 0;                  // of a request that was taken: items that were not
  std::string detail;                     // why, for people
  std::optional<uint64_t> accepted = {};  // instead of `rejected`, where the receiver says how many it took
};

// How a kind of request is sent.
struct SendRoute {
  size_t signal = 0;             // of SendSetup::signals
  std::string headers;           // whole lines: Content-Type …
  std::string grpc_method = {};  // "/package.Service/Method": a call of it, not a POST
  bool gzip = false;             // of a call: the body is packed. A POST says so in `headers`
};

struct SendEndpoint {
  std::string name;                 // for people: "http://host:port"
  uint64_t hash = 0;                // for PickEndpoint
  std::vector<HttpTarget> targets;  // by signal
};

// One request of those that a record becomes.
struct SendPart {
  size_t route = 0;
  std::string headers;  // whole lines, of this request alone
  std::shared_ptr<const std::string> body;
  uint32_t items = 0;
  uint64_t key = 0;  // requests of one key stay in order; with by_hash it also chooses the endpoint
};

// What a record becomes for one receiver.
struct SendParts {
  std::vector<SendPart> list;  // none: nothing in it is for this receiver
  uint32_t left_out = 0;       // items that the sink shall not send
  uint32_t untranslated = 0;   // items that the receiver's format cannot hold
};

struct SendAccess {
  std::string headers;  // whole lines
  std::shared_ptr<const TlsContext> tls;
};

// What a sender knows of its receiver. Immutable; its functions are called on the sender's thread alone.
struct SendSetup {
  std::string name;  // of the sink, for the log
  std::vector<std::string> signals;
  std::vector<SendRoute> routes;
  std::vector<SendEndpoint> endpoints;
  bool by_hash = false;    // each key has its endpoint; else the first that works is taken
  uint32_t in_flight = 1;  // requests at a time for each endpoint, of own and of received data
  Duration timeout = std::chrono::seconds(10);  // of one request
  Backoff::Options backoff;
  // Parts that one setup made can be sent by another of the same format.
  std::string format = {};
  // Asked before each request; not ok: it is tried again later.
  std::function<Result<SendAccess>(size_t endpoint, size_t signal)> access;
  // Asked for each answer. Failures without one (no connection, no answer in time) are always tried again.
  std::function<SendOutcome(const HttpReply& reply, size_t route)> validate;
  // The same for calls; also asked for none.
  std::function<SendOutcome(const GrpcReply& reply, size_t route)> classify_call = {};
  // Adds what a record becomes to `parts`, which is empty. `alone`: all records before it must be done first.
  // Not ok: the record is refused.
  std::function<Status(LogRecord& record, SendParts& parts, bool& alone)> prepare;
  // Asked before each try; may put another route and body in place of a part's: for a receiver that turns
  // out to know an older protocol. Not ok: the part is refused. May be empty.
  std::function<Status(SendPart& part)> rework = {};
};

// Retried: what OTLP/HTTP and remote write agree on, 429, 502, 503 and 504. Other refusals are for good.
bool IsRetryable(int http_status) noexcept;
// The same for calls, as OTLP/gRPC has it: no answer, CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE,
// UNAVAILABLE, DATA_LOSS, and RESOURCE_EXHAUSTED when the receiver says how long to wait.
bool IsRetryable(const GrpcReply& reply);

}  // namespace gpulens
