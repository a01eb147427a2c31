// WebSocket server that broadcasts text to all clients, at any path of its own addresses, or on connections
// that an HttpServer hands over. A new client gets the present text first. What clients send is checked and
// ignored; one that does not keep up is dropped and counted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/auth/authenticator.h"
#include "net/http/http_server.h"
#include "net/io_loop.h"
#include "net/message/http_parser.h"
#include "net/server/server.h"

namespace gpulens {

struct WebSocketLimits {
  HttpLimits http;                // the handshake, connections and the write timeout
  size_t queued_frames = 8;       // of one client, not yet taken by the kernel
  size_t queued_bytes = 8 << 20;  // beyond one frame
  size_t client_message = 64 << 10;
  // Between pings; a client that sends nothing for a whole interval is dropped.
  Duration ping_interval = std::chrono::seconds(30);
  // For a client to answer our close frame.
  Duration close_timeout = std::chrono::seconds(2);
};

// Thread-safe. The Authenticator outlives it.
class WebSocketServer final : public Server, public HttpUpgrader {
 public:
  struct Options {
    WebSocketLimits limits;
    Authenticator* authenticator = nullptr;
    // OriginPolicy::origins.
    std::vector<std::string> allowed_origins;
  };
  // Returns the text for a new client; empty: none yet. Called on the loop.
  using FirstFrame = std::function<SharedBytes()>;

  WebSocketServer(IoLoop& loop, FirstFrame first_frame, Options options);

  // Origin and access were checked by the HttpServer. One connection more than `limits.http.connections` gets
  // 503. An HttpServer that hands over is shut down first.
  void TakeOver(HttpUpgrade upgrade) override;

  // Sends `text` (UTF-8) to every client, in the order of the calls, without copying.
  void Broadcast(SharedBytes text);

  // Clients with a finished handshake.
  size_t clients() const noexcept;
  uint64_t frames_sent() const noexcept;
  // A dropped slow client is Refusal::kSlow.
  const ServerStats& stats() const noexcept;

 private:
  class Core;
  Core& core() const noexcept;
};

}  // namespace gpulens
