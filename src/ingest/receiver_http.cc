#include "ingest/receiver_http.h"

#include "base/result.h"

namespace gpulens {
namespace {

// Bodies take longer than the heads that other servers of ours get.
constexpr Duration kRequestTimeout = std::chrono::seconds(30);

}  // namespace

ReceiverHttp::ReceiverHttp(const Options& options, Env& env, HttpHandler& handler) {
  HttpServer::Options server;
  server.authenticator = env.authenticator;
  server.limits.connections = options.connections;
  server.limits.body_bytes = options.max_request;
  server.limits.arriving_bytes = options.max_arriving;
  server.limits.request_timeout = kRequestTimeout;
  server_ = std::make_unique<HttpServer>(*env.io, handler, server);
}

Result<std::unique_ptr<ReceiverHttp>> ReceiverHttp::Open(const Options& options, Env& env,
                                                         HttpHandler& handler) {
  std::unique_ptr<ReceiverHttp> made(new ReceiverHttp(options, env, handler));
  ASSIGN_OR_RETURN(made->sockets_, ListenForReceiver(options.at, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket));
                   }));
  return made;
}

void ReceiverHttp::Close(Duration timeout) {
  // So that nobody comes to a socket that is not accepted from any more.
  sockets_.clear();
  server_->Shutdown(timeout, [closed = closed_] { closed->Report(); });
}

void AddRetryAfter(HttpResponse& response, Duration after) {
  if (after.count() <= 0) return;
  response.AddHeader("Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(after).count()));
}

}  // namespace gpulens
