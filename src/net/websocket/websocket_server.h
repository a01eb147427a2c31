// A WebSocket server that pushes the same text to everybody.
//
// Any path is taken. A client gets the present text at once and every broadcast after it; what it sends
// is checked and ignored. A client that does not keep up is dropped and counted; it never slows others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/accept/connection_set.h"
#include "net/auth/authenticator.h"
#include "net/io_loop.h"
#include "net/message/http_parser.h"

namespace gpulens {

struct WebSocketLimits {
  HttpLimits http;                // the handshake, connections and the write timeout
  size_t queued_frames = 8;       // not yet taken by the kernel
  size_t queued_bytes = 8 << 20;  // beyond one frame
  size_t client_message = 64 << 10;
  // A client is asked for a sign of life this often, and dropped when a whole span brings none.
  Duration ping_interval = std::chrono::seconds(30);
  // How long a client has to answer our close frame.
  Duration close_timeout = std::chrono::seconds(2);
};

// Thread-safe except where said. The Authenticator outlives it, and the loop outlives all.
class WebSocketServer {
 public:
  struct Options {
    WebSocketLimits limits;
    Authenticator* authenticator = nullptr;
    // Origins that may connect besides those of this machine and of the Host asked for, as a browser
    // writes them ("https://grafana.example.org"); "*" is everybody.
    std::vector<std::string> allowed_origins;
  };
  // Gives the text for a client that has just come; empty bytes mean that there is none yet. Called on
  // the loop.
  using FirstFrame = std::function<SharedBytes()>;

  WebSocketServer(IoLoop& loop, FirstFrame first_frame, Options options);
  ~WebSocketServer();  // closes everything at once

  // As HttpServer's.
  Result<Endpoint> Listen(const Endpoint& at);
  Result<Endpoint> Listen(UniqueFd listening);
  void StopListening(const Endpoint& at);
  std::vector<Endpoint> addresses() const;

  // Sends `text` (UTF-8) to every client, in the order of the calls. Copies nothing.
  void Broadcast(SharedBytes text);

  // Clients with a finished handshake.
  size_t clients() const noexcept;
  uint64_t frames_sent() const noexcept;
  // A dropped slow client is Refusal::kSlow.
  const ServerStats& stats() const noexcept;

  // Says goodbye (1001) to all, waits for them to close, closes the rest after `deadline`, then calls
  // `done` on the loop. Call once.
  void Shutdown(Duration deadline, std::function<void()> done);

 private:
  class Core;
  IoLoop& loop_;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
