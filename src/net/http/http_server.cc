#include "net/http/http_server.h"

#include "net/accept/server_sockets.h"
#include "net/http/connection_admission.h"
#include "net/http/http_connection.h"

namespace gpulens {

HttpResponder::HttpResponder(IoLoop& loop, Ref<HttpConnection> connection, uint64_t number) noexcept
    : loop_(&loop), connection_(std::move(connection)), number_(number) {}
HttpResponder::HttpResponder(HttpResponder&&) noexcept = default;
HttpResponder& HttpResponder::operator=(HttpResponder&& other) noexcept {
  std::swap(loop_, other.loop_);
  std::swap(connection_, other.connection_);
  std::swap(number_, other.number_);
  return *this;
}

HttpResponder::~HttpResponder() {
  if (connection_) Send(HttpResponse::Text(500, "The request was not answered."));
}

void HttpResponder::Send(HttpResponse response) {
  Ref<HttpConnection> connection = std::exchange(connection_, nullptr);
  if (!connection) return;
  if (loop_->InLoop()) return connection->Answer(number_, std::move(response));
  loop_->Post(
      [connection = std::move(connection), number = number_, response = std::move(response)]() mutable {
        connection->Answer(number, std::move(response));
      });
}

bool HttpHandler::IsForAll(const HttpRequest&) const { return false; }
void HttpHandler::Refuse(const HttpRequest&, HttpResponse&) {}

bool HttpResponder::wanted() const noexcept { return connection_ && !connection_->gone(); }

class HttpServer::Core final : private ConnectionAdmission {
 public:
  Core(IoLoop& loop, HttpHandler& handler, const Options& options)
      : ConnectionAdmission(
            {loop, options.authenticator, options.limits.connections, shared.stats, shared.connections}),
        shared{.loop = loop,
               .handler = handler,
               .authenticator = options.authenticator,
               .limits = options.limits,
               .stats = {},
               .files = HttpBodyFiles(loop),
               .buffer = {},
               .spare_parser = nullptr,
               .arriving = 0,
               .connections = {loop,
                               {options.limits.request_timeout, options.limits.idle_timeout, Duration(0),
                                options.limits.write_timeout, options.limits.linger, Duration(0)}}},
        sockets(loop, *this, shared.connections) {}

  HttpShared shared;
  ServerSockets sockets;

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<HttpConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

HttpServer::HttpServer(IoLoop& loop, HttpHandler& handler, Options options)
    : loop_(loop), core_(std::make_unique<Core>(loop, handler, options)) {}

HttpServer::~HttpServer() {
  loop_.Call([this] { core_ = nullptr; });
}

Result<Endpoint> HttpServer::Listen(const Endpoint& at) { return core_->sockets.Listen(at); }
Result<Endpoint> HttpServer::Listen(UniqueFd listening) {
  return core_->sockets.Listen(std::move(listening));
}
void HttpServer::StopListening(const Endpoint& at) { core_->sockets.StopListening(at); }
std::vector<Endpoint> HttpServer::addresses() const { return core_->sockets.addresses(); }

void HttpServer::Shutdown(Duration deadline, std::function<void()> done) {
  core_->sockets.Shutdown(deadline, std::move(done));
}

const ServerStats& HttpServer::stats() const noexcept { return core_->shared.stats; }

}  // namespace gpulens
