#include "net/websocket/websocket_server.h"

#include "net/accept/server_sockets.h"
#include "net/http/connection_admission.h"
#include "net/websocket/websocket_connection.h"

namespace gpulens {

class WebSocketServer::Core final : private ConnectionAdmission {
 public:
  Core(IoLoop& loop, FirstFrame first_frame, Options options)
      : ConnectionAdmission(
            {loop, options.authenticator, options.limits.http.connections, shared.stats, shared.connections}),
        shared{.loop = loop,
               .first_frame = std::move(first_frame),
               .authenticator = options.authenticator,
               .limits = options.limits,
               .allowed_origins = std::move(options.allowed_origins),
               .stats = {},
               .clients = 0,
               .frames = 0,
               .open = {},
               .buffer = {},
               .connections = {loop,
                               {options.limits.http.request_timeout, Duration(0), Duration(0),
                                options.limits.http.write_timeout, options.limits.close_timeout,
                                options.limits.ping_interval}}},
        sockets(loop, *this, shared.connections) {}

  void SendAll(SharedBytes text) {
    OutFrame frame;
    AppendFrameHead(frame.head, Opcode::kText, text.bytes.size());
    frame.payload = std::move(text);
    auto shared_frame = std::make_shared<const OutFrame>(std::move(frame));
    // Backwards, since a slow client takes itself out of the list.
    for (size_t i = shared.open.size(); i-- > 0;) {
      if (i < shared.open.size()) shared.open[i]->Push(shared_frame);
    }
  }

  WebSocketShared shared;
  ServerSockets sockets;
  // Tasks that were posted may run after the server has gone.
  std::shared_ptr<Core*> alive = std::make_shared<Core*>(this);

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<WebSocketConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

WebSocketServer::WebSocketServer(IoLoop& loop, FirstFrame first_frame, Options options)
    : loop_(loop), core_(std::make_unique<Core>(loop, std::move(first_frame), std::move(options))) {}

WebSocketServer::~WebSocketServer() {
  loop_.Call([this] {
    *core_->alive = nullptr;
    core_ = nullptr;
  });
}

Result<Endpoint> WebSocketServer::Listen(const Endpoint& at) { return core_->sockets.Listen(at); }
Result<Endpoint> WebSocketServer::Listen(UniqueFd listening) {
  return core_->sockets.Listen(std::move(listening));
}
void WebSocketServer::StopListening(const Endpoint& at) { core_->sockets.StopListening(at); }
std::vector<Endpoint> WebSocketServer::addresses() const { return core_->sockets.addresses(); }

void WebSocketServer::Broadcast(SharedBytes text) {
  if (loop_.InLoop()) return core_->SendAll(std::move(text));
  loop_.Post([alive = core_->alive, text = std::move(text)] {
    if (*alive) (*alive)->SendAll(text);
  });
}

size_t WebSocketServer::clients() const noexcept {
  return core_->shared.clients.load(std::memory_order_relaxed);
}
uint64_t WebSocketServer::frames_sent() const noexcept {
  return core_->shared.frames.load(std::memory_order_relaxed);
}
const ServerStats& WebSocketServer::stats() const noexcept { return core_->shared.stats; }

void WebSocketServer::Shutdown(Duration deadline, std::function<void()> done) {
  core_->sockets.Shutdown(deadline, std::move(done));
}

}  // namespace gpulens
