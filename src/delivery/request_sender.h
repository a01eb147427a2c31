// Exporter: sends records of request logs to a receiver as HTTP POSTs or gRPC calls, until each is accepted
// or refused permanently.
//
//   RequestSender sender(setup, *env.http, *env.io, clock);
//   sender.Add(log->Attach(name, bounds, sender.waker()), RequestSender::kOwn);
//   …
//   sender.Finish(deadline);
//
// Failed requests are retried after a back-off, or the time that the receiver requests, at another endpoint
// if there is one. Up to `in_flight` requests are in flight for each endpoint; those of one key are sent one
// after the other, in the order of their records.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "delivery/record.h"
#include "delivery/request_log.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"

namespace gpulens {

// Meaning of an answer for its request.
struct SendOutcome {
  // kRework: again at once, after SendSetup::rework; the second time, as kAgain.
  enum Kind : uint8_t { kTaken, kAgain, kRefused, kRework } kind = kTaken;
  uint64_t rejected = 0;                  // items of an accepted request that were rejected
  std::string detail;                     // human-readable reason
  std::optional<uint64_t> accepted = {};  // instead of `rejected`, if the receiver reports it
};

// How a kind of request is sent.
struct SendRoute {
  size_t signal = 0;             // of SendSetup::signals
  std::string headers;           // whole lines: Content-Type …
  std::string grpc_method = {};  // "/package.Service/Method": a call of it, not a POST
  bool gzip = false;             // of a call: the body is compressed; a POST has a header for it
};

struct SendEndpoint {
  std::string name;                 // for the log: "http://host:port"
  uint64_t hash = 0;                // for PickEndpoint
  std::vector<HttpTarget> targets;  // by signal
};

// One request of a record.
struct SendPart {
  size_t route = 0;
  std::string headers;  // whole lines, of this request only
  std::shared_ptr<const std::string> body;
  uint32_t items = 0;
  uint64_t key = 0;  // requests of one key stay in order; with by_hash it also chooses the endpoint
};

// The requests of a record for one receiver.
struct SendParts {
  std::vector<SendPart> list;  // empty: nothing for this receiver
  uint32_t left_out = 0;       // items that the sink filters out
  uint32_t untranslated = 0;   // items that the receiver's format cannot hold
};

struct SendAccess {
  std::string headers;  // whole lines
  std::shared_ptr<const TlsContext> tls;
};

// Configuration of a sender. Immutable; its functions are called on the sender's thread only.
struct SendSetup {
  std::string name;  // of the sink, for the log
  std::vector<std::string> signals;
  std::vector<SendRoute> routes;
  std::vector<SendEndpoint> endpoints;
  bool by_hash = false;    // an endpoint for each key; else the first that works
  uint32_t in_flight = 1;  // requests at a time for each endpoint, of own and of received data
  Duration timeout = std::chrono::seconds(10);  // of one request
  Backoff::Options backoff;
  // Parts that one setup made can be sent by another of the same format.
  std::string format = {};
  // Called before each request; after an error the request is retried later.
  std::function<Result<SendAccess>(size_t endpoint, size_t signal)> access;
  // Called for each answer. Failures without one (no connection, timeout) are always retried.
  std::function<SendOutcome(const HttpReply& reply, size_t route)> validate;
  // The same for calls, also for calls without an answer.
  std::function<SendOutcome(const GrpcReply& reply, size_t route)> classify_call = {};
  // Adds the requests of a record to `parts`, which is empty. `alone`: send it after all earlier records are
  // done. After an error the record counts as refused.
  std::function<Status(LogRecord& record, SendParts& parts, bool& alone)> prepare;
  // Called before each attempt; may replace route and body of a request, for a receiver of an older protocol.
  // After an error the request counts as refused. May be empty.
  std::function<Status(SendPart& part)> rework = {};
};

// Whether OTLP/HTTP and remote write retry the status: 429, 502, 503 and 504.
bool IsRetryable(int http_status) noexcept;
// The same for calls, by the rules of OTLP/gRPC: no answer, CANCELLED, DEADLINE_EXCEEDED, ABORTED,
// OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS, and RESOURCE_EXHAUSTED when the receiver sends how long to wait.
bool IsRetryable(const GrpcReply& reply);

class RequestSender {
 public:
  // The logs of a chain are sent one after the other, each after the one before is empty. Chains are
  // independent.
  enum Chain : uint8_t { kOwn, kReceived, kChains };
  struct Stats {
    struct Signal {
      uint64_t delivered = 0, rejected = 0;  // items
    };
    std::vector<Signal> signals;  // as in the setup
    // By HTTP status, name of the gRPC code, or the name of the failure.
    std::map<std::string, uint64_t, std::less<>> requests;
    uint64_t retries = 0, sent_bytes = 0;
    uint64_t left_out = 0, untranslated = 0;  // items, as in SendParts
    uint64_t refused = 0;                     // records that their receiver refused permanently
    bool up = true;                           // the last request was accepted, or there was none
    int64_t last_success_unix_ns = 0;
  };

  // Starts the thread, if possible. The arguments outlive the sender; the loop is running.
  RequestSender(std::shared_ptr<const SendSetup> setup, HttpClient& client, IoLoop& loop, const Clock& clock);
  ~RequestSender();  // Finish, without waiting
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;

  // For RequestLog::Attach. May be called after the sender is destroyed.
  std::function<void()> waker() const;
  // Thread-safe, as all below.
  void Add(std::shared_ptr<LogReader> reader, Chain chain);
  // Releases the reader once none of its records is in flight.
  void Remove(const std::shared_ptr<LogReader>& reader);
  // Replaces the setup, after the requests in flight.
  void Update(std::shared_ptr<const SendSetup> setup);
  // Starts the thread if it is not running. kExhausted without resources for it.
  Status Begin();
  // Delivers waiting records until the deadline, then ends the thread. kTimeout when records remain in the
  // logs; kDataLoss when some were refused permanently. A second call does nothing.
  Status Finish(Instant deadline);
  // Starts what Finish waits for.
  void BeginFinish(Instant deadline);
  // Fills `out`, reusing its memory.
  void stats(Stats& out) const;

 private:
  struct Waker;
  struct Source;
  struct Open;
  struct Item;
  struct Queue;
  struct Endpoint;
  struct Answer;

  void Run();
  void TakeAnswers();
  void TakeSetup();
  void FillQueues();
  bool OpenNext(Source& source);
  void Enqueue(const std::shared_ptr<Open>& open, std::vector<SendPart>& parts);
  size_t QueueOf(uint64_t key, Chain chain) const;
  std::optional<Instant> StartQueues();
  std::optional<Instant> Start(size_t index);
  std::optional<size_t> Choose(uint64_t key, Instant now, Instant& next);
  void Send(size_t index, size_t endpoint);
  void Receive(Answer answer);
  void Validate(Answer& answer);
  void Settle(size_t index, SendOutcome outcome, const std::string& code, std::optional<Duration> wait);
  void Leave(Queue& queue);
  void Close(Open& open);
  Instant Maintain();
  bool Busy() const;
  bool AllEmpty();
  void Count(const Open& open);
  void Count(const Item& item, const std::string& code, const SendOutcome& outcome);
  void Report(const Item& item, size_t endpoint, const SendOutcome& outcome);
  Duration TimeLeft(Duration wanted) const;

  HttpClient& client_;
  GrpcClient calls_;
  IoLoop& loop_;
  const Clock& clock_;
  const std::shared_ptr<Waker> waker_;
  // Used by the sender's thread, and by Finish after its end.
  std::shared_ptr<const SendSetup> setup_;
  std::vector<Queue> queues_;
  std::vector<Endpoint> endpoints_;
  std::vector<uint64_t> hashes_;  // by endpoint
  std::vector<uint8_t> usable_;   // scratch of Choose
  std::vector<std::shared_ptr<Source>> taking_;
  SendParts parts_;
  std::array<size_t, kChains> opened_{};  // records in flight
  uint64_t generation_ = 0;               // of the queues; answers for earlier ones are ignored
  Instant maintain_at_;
  std::string trouble_;  // reason of the last failure

  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Source>> sources_;
  std::shared_ptr<const SendSetup> next_setup_;
  std::vector<Answer> answers_;
  bool ending_ = false;
  Instant end_by_;
  Stats stats_;

  std::thread thread_;
};

}  // namespace gpulens
