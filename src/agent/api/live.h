// /api/live: the readings of the node as they come, for many clients over WebSocket (docs/api.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/api/history_pages.h"
#include "net/websocket/websocket_server.h"

namespace gpulens {

// Returns the messages that turn `before` into `after`, both of one history: at most one of series and one of
// the tick. Empty when the tick is the same. What no message has, the attributes of the machine, is the same
// in both.
std::vector<std::string> LiveDelta(const History::Current& before, const History::Current& after);

// Serves connections that an HttpServer hands over. A message is encoded once for all clients, and without
// clients nothing is. Thread-safe.
class LiveServer {
 public:
  static constexpr std::string_view kPath = "/api/live";

  // What `readings` refers to outlives it. `clients`: at most so many.
  LiveServer(IoLoop& loop, NodeReadings readings, size_t clients);

  HttpUpgrader& upgrader() noexcept { return *server_; }
  // Call after the history observed a tick.
  void Tick();
  // Sends an event, as JSON.
  void Event(std::string_view json);
  // See Server::Shutdown; after the HttpServer's.
  void Shutdown(Duration deadline, std::function<void()> done) {
    server_->Shutdown(deadline, std::move(done));
  }

  size_t clients() const noexcept { return server_->clients(); }
  const ServerStats& stats() const noexcept { return server_->stats(); }

 private:
  SharedBytes Full();
  SharedBytes Encode();

  const NodeReadings readings_;
  std::mutex mutex_;  // guards what follows
  // What clients have; not valid after a tick without clients.
  History::Current sent_, next_;
  Duration interval_{};
  bool valid_ = false;
  SharedBytes full_;  // of `sent_`; empty: not encoded
  // Last: its end closes the connections.
  std::unique_ptr<WebSocketServer> server_;
};

}  // namespace gpulens
