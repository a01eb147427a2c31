// What NCCL's RAS reports of a job: ranks that are behind, in error or gone, for the diagnosis, and as series
// and events.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/frame_writer.h"
#include "net/message/address.h"
#include "plugins/collectors/nccl/diagnosis_feed.h"
#include "plugins/event_queue.h"
#include "sources/nccl_ras/ras_answer.h"
#include "sources/nccl_ras/ras_client.h"

namespace gpulens {

// "127.0.0.1:28028", or "auto": NCCL_RAS_ADDR of the agent's environment, else that. kInvalidArgument: it is
// neither.
Result<Endpoint> RasAddress(const std::string& text);

// Not thread-safe.
class RasFeed {
 public:
  // Takes a state. RAS has the number of collectives that each rank has called, so a rank is behind when
  // another one has called more; that they do not move is known from the second state on.
  void Take(const nccl_ras::RasReport& report, Instant now);
  // Adds the members of the last state to a batch, each state once a run until it is older than `max_age`.
  void Feed(DiagnosisFeed& feed, Instant now, Duration max_age) const;
  // Whether a rank is behind or missing: then the state should be queried sooner.
  bool suspicious() const noexcept { return suspicious_; }
  void Write(FrameWriter& out);
  static void Report(const nccl_ras::RasEvent& event, Instant now, EventQueue* queue);

 private:
  struct Communicator {
    nccl_ras::RasCommunicator state;
    std::map<int32_t, Instant> changed;  // of the counts, by rank
    Instant seen;
    EntityRef entity;
    Series errors;
    int64_t in_error = 0;
  };
  std::map<uint64_t, Communicator> communicators_;
  Instant taken_;
  bool suspicious_ = false;
};

}  // namespace gpulens
