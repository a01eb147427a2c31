// Reads one node again and again on a thread of its own, so that a node that is away holds up neither the
// screen nor another node.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/node/node_json.h"
#include "cli/node/node_reader.h"

namespace gpulens {

// What one round read. Members without a value were not read in it.
struct TopUpdate {
  Status failure;  // of the page of values
  std::optional<NodeNow> now;
  std::optional<NodeHistory> trends, charts;
  std::string charts_of;  // the GPU's UUID, or its index
  std::optional<std::vector<NodeEvent>> events;
};

// The GPU whose charts are read, and how far back.
struct TopChartRequest {
  std::string key, value;  // "gpu.uuid" or "gpu.index"; empty: none
  int64_t window_s = 300;
  int64_t steps = 60;
  friend bool operator==(const TopChartRequest&, const TopChartRequest&) = default;
};

// Thread-safe. Uses the reader from its thread alone, from Start to the end of Stop.
class TopFeed {
 public:
  TopFeed(NodeReader& reader, Duration interval) : reader_(reader), interval_(interval) {}
  // Reads once on the calling thread: before Start.
  TopUpdate ReadOnce();
  // kExhausted: no thread could be started. `wake` is called after each round, on the thread.
  Status Start(std::function<void()> wake);
  // False when the thread is still waiting for its node after `longest`: the process then ends without
  // destroying this.
  bool Stop(Duration longest);

  // Rounds since the last call, oldest first; at most the 8 newest.
  std::vector<TopUpdate> Take();
  void Request(TopChartRequest request);

 private:
  void Run();

  NodeReader& reader_;
  const Duration interval_;
  std::function<void()> wake_;
  // Of the thread.
  uint64_t layout_ = 0, tick_ = 0;
  bool has_trends_ = false, has_events_ = false;
  Instant events_at_, charts_at_;
  TopChartRequest charts_done_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stop_ = false, ended_ = false;
  std::vector<TopUpdate> updates_;
  TopChartRequest charts_;
  std::thread thread_;
};

}  // namespace gpulens
