// A client of one RAS address: a connection on which events come, and a query of the state now and then. Each
// query makes every process of the job answer, so it is rare.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "net/io_loop.h"
#include "net/message/address.h"

namespace gpulens::nccl_ras {

// Thread-safe. Made and destroyed on any thread but the loop's.
class RasClient {
 public:
  struct Options {
    Endpoint at;
    Duration query_every = std::chrono::seconds(60);
    Duration answer_within = std::chrono::seconds(30);  // RAS waits up to ten seconds for its peers
    Duration greeting_within = std::chrono::seconds(5);
    Duration again_after = std::chrono::seconds(5);  // after a connection failed; doubled up to query_every
    size_t events = 1024;                            // that wait for Take; more are dropped and counted
  };
  // Begins at once. `loop` outlives it.
  RasClient(IoLoop& loop, const Options& options);
  ~RasClient();

  struct Taken {
    std::string report;               // JSON of the newest state that was not taken yet; empty: none
    std::vector<std::string> events;  // JSON objects, oldest first
    uint64_t dropped = 0;             // events, since the start
    Status status;         // of the last exchange. kUnavailable: nothing listens, or it has no JSON
    bool watches = false;  // events would come
  };
  Taken Take();
  // Queries the state soon, but at most once in 10 s.
  void QuerySoon();

 private:
  class Exchange;
  class Impl;
  IoLoop* loop_ = nullptr;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gpulens::nccl_ras
