// A load run: requests to an OpenAI-compatible server, and when what came back.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cli/bench/completion_chunk.h"
#include "cli/bench/load_observer.h"
#include "cli/bench/load_plan.h"
#include "cli/bench/load_record.h"
#include "cli/bench/sse_reader.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {

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
