// A load run: requests to an OpenAI-compatible server, and when what came back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/bench/completion_stream.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/tls.h"

namespace gpulens {

struct LoadPlan {
  HttpUrl url;          // where to post: ".../v1/chat/completions"
  std::string headers;  // whole lines, each ending "\r\n"
  std::shared_ptr<const TlsContext> tls;
  bool chat = true;  // messages; else a prompt
  bool stream = true;
  std::string model;

  uint64_t requests = 200;  // at most; 0: until `duration`
  Duration duration{};      // no request begins later; 0: until `requests`
  // Closed loop: so many requests are always in flight, each begins when one ends.
  // Open loop (rate > 0): requests a second fall due at random (Poisson), whatever the server does; at most
  // `concurrency` are in flight, and one that had to wait for that is timed from when it was due.
  uint32_t concurrency = 8;
  double rate = 0;
  uint64_t warmup = 0;  // so many requests at the start are in no figure

  uint32_t prompt_words = 128;  // about as many tokens
  uint32_t shared_words = 0;    // of these, the same in all prompts, at their beginning: a prefix cache helps
  uint32_t max_tokens = 128;
  bool ignore_eos = false;  // vLLM, SGLang: always max_tokens
  Duration timeout = std::chrono::seconds(120);
  uint64_t seed = 1;  // of the prompts and of the times they fall due
};

// The body of request `number`. Equal plans and numbers make equal bodies; different numbers different
// prompts.
std::string RequestBody(const LoadPlan& plan, uint64_t number);
// Seconds from one request to the next, of an open loop.
class ArrivalTimes {
 public:
  ArrivalTimes(double rate, uint64_t seed) noexcept : rate_(rate), state_(seed) {}
  Duration Next() noexcept;

 private:
  double rate_;
  uint64_t state_;
};

struct LoadRequest {
  enum class Outcome : uint8_t { kOk, kError, kCancelled };

  uint64_t number = 0;
  int64_t due_ns = 0;    // when it should have been sent; latencies count from here
  int64_t sent_ns = 0;   // when it was
  int64_t first_ns = 0;  // first token; 0: none, or the answer was not streamed
  int64_t last_ns = 0;   // last token
  int64_t done_ns = 0;
  uint64_t chunks = 0;  // events that brought text
  std::optional<uint64_t> prompt_tokens = {}, cached_tokens = {}, completion_tokens = {};
  std::string error = {};  // of kError: "HTTP 429", "timeout" …
  Outcome outcome = Outcome::kOk;
};

struct LoadRecord {
  static constexpr size_t kMostGaps = 4u << 20;

  struct Error {
    uint64_t count = 0;
    std::string detail;  // of the first one
  };

  std::vector<LoadRequest> requests;  // in the order in which they ended; warm-up included
  std::vector<double> gap_seconds;    // between events that brought text; not of the warm-up
  bool gaps_cut = false;              // there were more than kMostGaps
  std::map<std::string, Error> errors;
  bool stopped = false;  // before its plan was done
  int64_t start_ns = 0;  // the run's start, by the monotonic clock
};

// Called on the run's loop, of warm-up requests, too: once OnSent, at most once OnFirstToken, once OnEnded.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  virtual void OnSent(const LoadRequest& request) = 0;
  virtual void OnFirstToken(const LoadRequest& request) = 0;
  // `gap_seconds` are between its events that brought text.
  virtual void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) = 0;
};

// How far it is.
struct LoadProgress {
  uint64_t ended = 0, in_flight = 0, errors = 0, output_tokens = 0;
  double elapsed_seconds = 0;
  double first_token_seconds = 0;  // of the newest request that has one; 0: none yet
};

// Start, Stop and progress are called on the loop, where everything happens; so is the destructor.
class LoadRun {
 public:
  // `done` is called once, from inside a callback of the loop: when the plan is done, or after Stop.
  // `observer` may be null; it outlives the run.
  LoadRun(IoLoop& loop, LoadPlan plan, std::function<void()> done, LoadObserver* observer = nullptr);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  void Start();
  // What is in flight is cut off and counts as cancelled.
  void Stop();
  LoadProgress progress() const noexcept;
  // Once `done` was called.
  const LoadRecord& record() const noexcept { return record_; }

 private:
  struct Slot;

  int64_t Now() const noexcept;
  bool MayBegin() const noexcept;
  void BeginNext();            // closed loop: on every free slot
  void ScheduleNext();         // open loop: the next one that falls due
  void OnDue(int64_t due_ns);  // open loop
  void Send(Slot& slot, int64_t due_ns);
  void OnBytes(Slot& slot, std::string_view bytes);
  void OnData(Slot& slot, std::string_view data);
  void Take(LoadRequest& request, const CompletionChunk& chunk) const;
  void OnReply(Slot& slot, HttpReply& reply);
  std::string FailureOf(Slot& slot, HttpReply& reply, std::string& detail) const;
  void OnText(Slot& slot);
  void Keep(Slot& slot, const std::string& detail);
  void EndIfDone();

  IoLoop& loop_;
  HttpClient client_;
  const LoadPlan plan_;
  std::function<void()> done_;
  LoadObserver* const observer_;
  ArrivalTimes arrivals_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
  std::deque<int64_t> waiting_;  // due, but all slots are taken
  LoadRecord record_;
  int64_t start_ns_ = 0, next_due_ns_ = 0;
  uint64_t begun_ = 0, scheduled_ = 0, errors_ = 0, output_tokens_ = 0;
  double newest_first_ = 0;
  IoLoop::TimerId timer_ = 0;
  bool stopping_ = false, ended_ = false;
};

}  // namespace gpulens
