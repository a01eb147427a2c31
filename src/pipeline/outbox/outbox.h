// What a network sink has to send: it waits in a queue, a thread of its own sends it and tries again. The
// sink encodes; all else is here, and the same for every sink.
//
//   ASSIGN_OR_RETURN(outbox_, Outbox::Make(config, {.name = "webhook", .signals = {"metrics"}, …}, env));
//   RETURN_IF_ERROR(outbox_->Ready());
//   outbox_->Push(route, body, points);
//
// So a receiver that is away holds up nobody.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "delivery/parcel_queue.h"
#include "delivery/parcel_sender.h"
#include "pipeline/delivery/delivery_stats.h"
#include "pipeline/plugin.h"
#include "pipeline/remote/remote_access.h"

namespace gpulens {

// Ready, Push and Finish belong to the sink's thread; stats is thread-safe.
class Outbox {
 public:
  // A kind of request. Its place among the routes stands in front of each parcel of the queue, on disk too: a
  // program of a later version adds routes at the end.
  struct Route {
    size_t signal = 0;  // of Setup::signals
    HttpUrl url;
    std::string headers;           // whole lines: Content-Type …
    std::string grpc_method = {};  // as SendRoute has them
    bool gzip = false;
  };
  struct Setup {
    std::string_view name;                  // of the sink, and of its folder
    std::vector<std::string_view> signals;  // as metrics tell them; static storage
    std::vector<Route> routes;
    std::function<SendOutcome(const HttpReply& reply)> judge;
    std::function<SendOutcome(const GrpcReply& reply)> judge_call = {};
    size_t answer_bytes = 64u << 10;  // of an answer, at most
    std::string_view keep = {};       // as HttpResponseParser::Limits has it
    // As ParcelSender::Options has it; the other route is one of the same signal.
    std::function<Status(size_t& route, std::shared_ptr<const std::string>& body)> rework = {};
  };

  // `config` has kOutboxOptions. `env`, which has a network, outlives it.
  static Result<std::unique_ptr<Outbox>> Make(const Config& config, Setup setup, Env& env);
  ~Outbox();

  // Not ok: the queue cannot be opened now. Waits some seconds for one that another sink has: the sink before
  // a reload holds its folder until it has ended.
  Status Ready();
  // After Ready. Copies `body`. Not ok: nothing was taken, and the same may be pushed again.
  Status Push(size_t route, std::string_view body, uint32_t items);
  // After Ready. Whether so much can be pushed without anything being dropped, and leave a quarter of the
  // queue free: for what cannot be kept back by whoever made it.
  bool HasRoom(size_t bytes) const;
  // Delivers what waits as long as there is time, and ends the thread. Not ok: what was lost or is left.
  Status Finish(Instant deadline);
  // False before the first Ready. As Sink::Delivery.
  bool stats(DeliveryStats& out) const;

 private:
  Outbox(const Config& config, Setup setup, Env& env);
  Status Prepare(const Config& config);
  Result<std::unique_ptr<ParcelQueue>> OpenQueue(bool patient) const;
  void Start(std::unique_ptr<ParcelQueue> queue);
  Result<ParcelSender::Access> Access(size_t route);

  const Setup setup_;
  const Config queue_config_;
  Env& env_;
  std::vector<RemoteAccess> access_;  // by route; used by the sender's thread alone
  ParcelSender::Options way_;         // until there is a sender
  std::string parcel_;
  mutable std::mutex mutex_;  // guards the making of what follows, and sent_
  std::unique_ptr<ParcelQueue> queue_;
  mutable ParcelSender::Stats sent_;
  std::unique_ptr<ParcelSender> sender_;  // last: it ends before what it uses
};

}  // namespace gpulens
