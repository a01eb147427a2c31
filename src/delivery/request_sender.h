// The way from request logs to a receiver: records as HTTP POSTs or gRPC calls, until each is taken or
// refused for good.
//
//   RequestSender sender(setup, *env.http, *env.io, clock);
//   sender.Add(log->Attach(name, bounds, sender.waker()), RequestSender::kOwn);
//   …
//   sender.Finish(deadline);
//
// What cannot be delivered now is tried again after a back-off, or when the receiver says, at another
// endpoint where there is one. Up to `in_flight` requests are under way for each endpoint at a time; those of
// one order key go one after the other, in the order of their records.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
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
#include "delivery/log_reader.h"
#include "delivery/sender_setup.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_client.h"
#include "net/io_loop.h"

namespace gpulens {

class RequestSender {
 public:
  // Logs of one chain are sent one after the other: the next begins when there is nothing in the one before.
  // Chains do not wait for each other.
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
    uint64_t refused = 0;  // records that were lost since their receiver refused them for good
    bool up = true;        // the last request was taken, or there was none
    int64_t last_success_unix_ns = 0;
  };

  // Starts the thread, where there is room for one. All that is referred to must outlive the sender, and the
  // loop must run.
  RequestSender(std::shared_ptr<const SendSetup> setup, HttpClient& client, IoLoop& loop, const Clock& clock);
  ~RequestSender();  // Finish, without waiting
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;

  // As RequestLog::Attach wants it. May be called when the sender is gone.
  std::function<void()> waker() const;
  // Thread-safe, as all below.
  void Add(std::shared_ptr<LogReader> reader, Chain chain);
  // Lets go of the reader once nothing of it is under way.
  void Remove(const std::shared_ptr<LogReader>& reader);
  // From now on requests go out so; those under way are waited for.
  void Update(std::shared_ptr<const SendSetup> setup);
  // Starts the thread where there was no room for it. kExhausted.
  Status Begin();
  // Delivers what waits as long as there is time, then ends the thread. What is left stays in the logs:
  // kTimeout says how much, and why. kDataLoss when something was refused for good. A second call does
  // nothing.
  Status Finish(Instant deadline);
  // Begins what Finish waits for.
  void BeginFinish(Instant deadline);
  // Fills `out`, whose memory is used again.
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
  void Spread(const std::shared_ptr<Open>& open, std::vector<SendPart>& parts);
  size_t QueueOf(uint64_t key, Chain chain) const;
  std::optional<Instant> StartQueues();
  std::optional<Instant> Start(size_t index);
  std::optional<size_t> Choose(uint64_t key, Instant now, Instant& next);
  void Send(size_t index, size_t endpoint);
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
  // The sender's thread alone, and Finish when it has ended.
  std::shared_ptr<const SendSetup> setup_;
  std::vector<Queue> queues_;
  std::vector<Endpoint> endpoints_;
  std::vector<uint64_t> hashes_;  // by endpoint
  std::vector<uint8_t> usable_;   // scratch of Choose
  std::vector<std::shared_ptr<Source>> taking_;
  SendParts parts_;
  std::array<size_t, kChains> opened_{};  // records under way
  uint64_t generation_ = 0;               // of the lanes: an answer to a lane of before is none
  Instant maintain_at_;
  std::string trouble_;  // what was said of the last that was not taken

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
