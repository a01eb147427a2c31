// A load run: sends requests to an OpenAI-compatible server, records when the answers arrived, and summarizes
// them.
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

#include <gpulens/inference_record.h>
#include <gpulens/stats.h>

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

  uint64_t requests = 200;  // maximum number; 0: until `duration`
  Duration duration{};      // no request begins later; 0: until `requests`
  // Closed loop (rate 0): `concurrency` requests are always in flight; a request begins when one ends.
  // Open loop: `rate` requests per second fall due at random times (Poisson), independent of the answers. At
  // most `concurrency` are in flight; a request that had to wait is timed from when it was due.
  uint32_t concurrency = 8;
  double rate = 0;
  uint64_t warmup = 0;  // number of requests at the start that no figure includes

  uint32_t prompt_words = 128;  // about as many tokens
  uint32_t shared_words = 0;    // the first of them that all prompts share, for prefix caches
  uint32_t max_tokens = 128;
  bool ignore_eos = false;  // vLLM, SGLang: always max_tokens
  Duration timeout = std::chrono::seconds(120);
  uint64_t seed = 1;  // of the prompts and of the times they fall due
};

// Returns the body of request `number`. Equal plans and numbers give equal bodies, different numbers
// different prompts.
std::string RequestBody(const LoadPlan& plan, uint64_t number);
// Random times between the requests of an open loop.
class ArrivalTimes {
 public:
  ArrivalTimes(double rate, uint64_t seed) noexcept : rate_(rate), state_(seed) {}
  Duration Next() noexcept;

 private:
  double rate_;
  uint64_t state_;
};

struct LoadRequest {
  using Outcome = gpulens::Outcome;

  uint64_t number = 0;
  int64_t due_ns = 0;    // when it should have been sent; latencies count from here
  int64_t sent_ns = 0;   // when it was sent
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

// Receives the events of each request on the run's loop, warm-up included: OnSent once, OnFirstToken at most
// once, OnEnded once.
class LoadObserver {
 public:
  virtual ~LoadObserver() = default;
  virtual void OnSent(const LoadRequest& request) = 0;
  virtual void OnFirstToken(const LoadRequest& request) = 0;
  // `gap_seconds`: times between its events that brought text.
  virtual void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) = 0;
};

// Progress of a run.
struct LoadProgress {
  uint64_t ended = 0, in_flight = 0, errors = 0, output_tokens = 0;
  double elapsed_seconds = 0;
  double first_token_seconds = 0;  // of the newest request that has one; 0: none yet
};

// Runs a LoadPlan. Start, Stop, progress and the destructor are called on the loop.
class LoadRun {
 public:
  // `done` is called once, from inside a callback of the loop: when the plan is done, or after Stop.
  // `observer` may be null; it outlives the run.
  LoadRun(IoLoop& loop, LoadPlan plan, std::function<void()> done, LoadObserver* observer = nullptr);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  void Start();
  // Cancels the requests in flight.
  void Stop();
  LoadProgress progress() const noexcept;
  // Valid once `done` was called.
  const LoadRecord& record() const noexcept { return record_; }

 private:
  struct Slot;

  int64_t Now() const noexcept;
  bool MayBegin() const noexcept;
  void BeginNext();            // closed loop: sends on every free slot
  void ScheduleNext();         // open loop
  void OnDue(int64_t due_ns);  // open loop: sends or queues the request
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

// Limits in seconds; a good request meets all that are set.
struct LoadTargets {
  std::optional<double> ttft = {}, itl = {}, e2e = {};  // `itl`: mean time between its tokens
  bool any() const noexcept { return ttft || itl || e2e; }
};

// Figures of the answered requests after the warm-up; errors and cancelled ones are only counted.
struct LoadSummary {
  uint64_t ok = 0, errors = 0, cancelled = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  bool prompt_tokens_known = false, cached_tokens_known = false;
  // Requests whose tokens the server did not report: their events are counted instead.
  uint64_t without_usage = 0;
  // Events with text and tokens of the requests with known token counts. Fewer events than tokens: several
  // tokens arrive at once, and `itl` is the time between events.
  uint64_t chunks = 0, tokens_of_chunks = 0;
  int64_t begin_ns = 0, end_ns = 0;       // since the run's start
  double elapsed_seconds = kNotMeasured;  // from the first that was due to the last that ended
  double requests_per_second = kNotMeasured, output_tokens_per_second = kNotMeasured,
         total_tokens_per_second = kNotMeasured;
  Distribution ttft, itl, e2e;
  Distribution tpot;  // time of a request after its first token, per further token
  Distribution late;  // how long a request had to wait before it was sent
  // Of all ended requests, errors and cancelled ones included.
  double good_ratio = kNotMeasured, good_per_second = kNotMeasured;
  // Number of the request, in order of their ends, from which the output rate was steady. Empty: it never
  // was, or, when steady_validated is false, there were too few requests.
  std::optional<uint64_t> steady_since;
  bool steady_validated = false;
};

// Computes the figures of a run. Pure.
LoadSummary Summarize(const LoadRecord& record, uint64_t warmup, uint32_t concurrency,
                      const LoadTargets& targets = {});

}  // namespace gpulens
