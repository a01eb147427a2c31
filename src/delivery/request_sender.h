// The way from a parcel queue to its receiver: one parcel after the other, as HTTP POST or as a gRPC call,
// until each is taken or refused for good.
//
//   ParcelSender sender({.name = "otlp", .routes = …}, *queue, *env.http, *env.io, clock);
//   queue->Push(body, points);
//   …
//   sender.Finish(deadline);
//
// What cannot be delivered now is tried again after a back-off, or when the receiver says; the order stays.
// The first byte of a parcel is its route, an index into Options::routes; the rest is the body as it is sent.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/backoff.h"
#include "delivery/parcel_queue.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"

namespace gpulens {

// What an answer means for its parcel.
struct SendOutcome {
  // kAnew: at once, as Options::rework makes it now; the second time, as kAgain.
  enum Kind : uint8_t { kTaken, kAgain, kRefused, kAnew } kind = kTaken;
  uint64_t rejected = 0;                  // of a parcel that was taken: items that were not
  std::string detail;                     // why, for people
  std::optional<uint64_t> accepted = {};  // instead of `rejected`, where the receiver says how many it took
};

// Where a kind of parcel goes. `name` is the signal in metrics: "metrics", "logs".
struct SendRoute {
  std::string name;
  HttpTarget target;
  std::string headers;           // whole lines, after those of Options::access
  std::string grpc_method = {};  // "/package.Service/Method": a call of it, not a POST
  bool gzip = false;             // of a call: parcels are packed. A POST says so in `headers`
};

class ParcelSender {
 public:
  struct Access {
    std::string headers;  // whole lines
    std::shared_ptr<const TlsContext> tls;
  };
  struct Options {
    std::string name;  // of the sink, for the log
    std::vector<SendRoute> routes;
    Duration timeout = std::chrono::seconds(10);  // of one request
    Backoff::Options backoff;
    // Asked for a route before each request, on the sender's thread; not ok: it is tried again later.
    std::function<Result<Access>(size_t route)> access;
    // Asked for each answer. Failures without one (no connection, no answer in time) are always tried again.
    std::function<SendOutcome(const HttpReply& reply)> judge;
    // The same for calls; also asked for none.
    std::function<SendOutcome(const GrpcReply& reply)> judge_call = {};
    // Asked before each try; may put another route and body in place of a parcel's: for a receiver that turns
    // out to know an older protocol. Not ok: the parcel is refused. May be empty.
    std::function<Status(size_t& route, std::shared_ptr<const std::string>& body)> rework = {};
  };
  struct Stats {
    struct Route {
      uint64_t delivered = 0, rejected = 0;  // items
    };
    std::vector<Route> routes;  // as in Options
    // By HTTP status, name of the gRPC code, or the name of the failure.
    std::map<std::string, uint64_t, std::less<>> requests;
    uint64_t retries = 0, sent_bytes = 0;
    uint64_t refused = 0;  // parcels that were lost since their receiver refused them for good
    bool up = true;        // the last request was taken, or there was none
    int64_t last_success_unix_ns = 0;
  };

  // Starts the thread. All that is referred to must outlive the sender, and the loop must run.
  ParcelSender(Options options, ParcelQueue& queue, HttpClient& client, IoLoop& loop, const Clock& clock);
  ~ParcelSender();  // Finish, without waiting
  ParcelSender(const ParcelSender&) = delete;
  ParcelSender& operator=(const ParcelSender&) = delete;

  // Starts the thread where there was no room for it when this was made. By one thread; kExhausted.
  Status Begin();

  // Delivers what is queued as long as there is time, then ends the thread. What is left stays in the queue:
  // kTimeout tells how much, and why. kDataLoss when something was refused for good. Called by one thread; a
  // second call does nothing.
  Status Finish(Instant deadline);
  // Fills `out`, whose memory is used again. Thread-safe.
  void stats(Stats& out) const;

 private:
  void Run();
  bool Ending() const;
  Duration TimeLeft(Duration wanted) const;
  bool OutOfTime() const { return TimeLeft(std::chrono::hours(1)) == Duration::zero(); }
  void Deliver(Parcel parcel);
  // What one request came to: `code` for the statistics, and how long the receiver asks to wait.
  struct Tried {
    SendOutcome outcome;
    std::string code;
    std::optional<Duration> wait = {};
  };
  struct Way {
    std::unique_ptr<HttpChannel> http;  // one of the two
    std::unique_ptr<GrpcChannel> grpc;
  };
  Tried Try(size_t route, const std::shared_ptr<const std::string>& body);
  template <class Reply, class Start>
  bool Await(Duration timeout, Start start, Reply& reply);
  void Count(const Parcel& parcel, size_t route, const std::string& code, const SendOutcome& outcome,
             size_t bytes);
  Status Rework(size_t& route, std::shared_ptr<const std::string>& body) const;
  void Tell(const Parcel& parcel, size_t route, const SendOutcome& outcome);

  const Options options_;
  ParcelQueue& queue_;
  IoLoop& loop_;
  const Clock& clock_;
  std::vector<Way> ways_;  // one for each route
  Backoff backoff_;
  // The sender's thread alone, and Finish when it has ended.
  bool waits_ = false;   // the last request was not taken
  std::string trouble_;  // what was said of the last that was not

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool ending_ = false;
  Instant end_by_;
  Stats stats_;

  std::thread thread_;
};

// Retried: what OTLP/HTTP and remote write agree on, 429, 502, 503 and 504. Other refusals are for good.
bool IsRetryable(int http_status) noexcept;
// The same for calls, as OTLP/gRPC has it: no answer, CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE,
// UNAVAILABLE, DATA_LOSS, and RESOURCE_EXHAUSTED when the receiver says how long to wait.
bool IsRetryable(const GrpcReply& reply);

}  // namespace gpulens
