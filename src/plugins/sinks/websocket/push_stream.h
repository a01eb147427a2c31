// WebSocket stream of the zernel telemetry API: its frame, when frames are sent, and the server.
//
//   {"gpu_utilization":[{"key":"4242:0","current_bytes":1,"peak_bytes":2}],"cuda_latency_p50_us":0.0,…,
//    "last_update_ms":1711800000000,"valid":{"gpu_utilization":true,"cuda_latency_p50_us":false,…}}
//
// Clients format every field as a number: unknown values are 0.0, with false in `valid`. Latencies are
// quantiles of the last minute over all processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/frame.h"
#include "core/series_finder.h"
#include "net/server/server.h"
#include "net/websocket/websocket_server.h"
#include "plugins/agent_stats.h"
#include "plugins/plugin.h"
#include "wire/json/json_snapshot.h"

namespace gpulens {

// Not thread-safe.
class PushFrame {
 public:
  PushFrame();
  // Returns the frame of a snapshot; null gives a frame of unknown values.
  std::string Make(const Snapshot* snapshot);

 private:
  bool GpusAreRead(const Snapshot& snapshot);

  // Of all processes.
  SummaryByKey launches_, waits_;
  SummaryByKey collectives_;  // by operation
  MemoryByProcess memory_;
  SeriesFinder collector_up_;
};

// Copies the counters of a server into statistics that outlive it, so that a reload neither resets a counter
// nor leaves a dangling pointer. Used on the loop's thread.
class StatsMirror {
 public:
  explicit StatsMirror(ServerStats& to) noexcept : to_(to) {}
  ~StatsMirror();  // resets its number of connections
  void Update(const ServerStats& from) noexcept;

 private:
  struct Seen {
    uint64_t connections = 0, accepted = 0, bytes_sent = 0;
    uint64_t answers[6] = {}, refused[kRefusals] = {};
  };
  ServerStats& to_;
  Seen seen_;
};

// Schedules frames: one per interval, each with the tick that has just closed. Without ticks, and where the
// interval is shorter than theirs, the interval alone decides. Has no clock; not thread-safe.
class PushPace {
 public:
  explicit PushPace(Duration interval) noexcept : interval_(interval) {}

  void Start(Instant now) noexcept { Pushed(now); }
  // Call when a tick has closed. Returns whether a frame is to be sent with it.
  bool Ticked(Instant now) noexcept;
  // Call when a frame is sent.
  void Pushed(Instant now) noexcept { pushed_at_ = now; }
  // Returns when a frame is due if no tick closes before.
  Instant due() const noexcept;

 private:
  // Returns the time between two ticks; zero while it is unknown.
  Duration period(Instant now) const noexcept;

  const Duration interval_;
  Duration period_{};
  Instant pushed_at_, ticked_at_;
  bool ticked_ = false;
};

// Sends the latest frame to all clients at every push interval. Thread-safe; frames are made and sent on the
// loop, which outlives this but may have stopped.
class PushStream {
 public:
  struct Options {
    std::vector<std::string> listen;
    std::vector<std::string> allowed_origins;
    Duration interval = std::chrono::seconds(1);
  };

  // kInvalidArgument for a bad address; else as OpenListeningSocket. An IPv6 loopback address is ignored on a
  // machine without one. An address at which another PushStream listens is shared with it until that one is
  // destroyed, so that a reload refuses no client.
  static Result<std::unique_ptr<PushStream>> Open(const Options& options, Env& env);
  ~PushStream();

  std::vector<Endpoint> addresses() const { return server_->addresses(); }
  size_t clients() const noexcept { return server_->clients(); }
  // Call when Env::latest has a new tick. Does not allocate without clients.
  void Ticked();
  // Closes all connections; returns when they are closed or after `timeout`.
  void Close(Duration timeout);

 private:
  class Loop;
  PushStream(const Options& options, Env& env);
  Status Listen(const Endpoint& at);

  IoLoop& io_;
  std::shared_ptr<Loop> loop_;
  std::unique_ptr<WebSocketServer> server_;
  std::vector<std::shared_ptr<SharedSocket>> sockets_;
};

}  // namespace gpulens
