#include "net/http/http_server.h"

#include <algorithm>

#include "base/parse.h"
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
HttpUpgrader* HttpHandler::UpgraderOf(const HttpRequest&) { return nullptr; }
void HttpHandler::Refuse(const HttpRequest&, HttpResponse&) {}

bool HttpResponder::wanted() const noexcept { return connection_ && !connection_->gone(); }

class HttpServer::Core final : public Server::Core {
 public:
  Core(IoLoop& loop, HttpHandler& handler, const Options& options)
      : Server::Core(
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
                                options.limits.write_timeout, options.limits.linger, Duration(0)}}} {}

  HttpShared shared;

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<HttpConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

HttpServer::HttpServer(IoLoop& loop, HttpHandler& handler, Options options)
    : Server(loop, std::make_unique<Core>(loop, handler, options)) {}

const ServerStats& HttpServer::stats() const noexcept { return static_cast<Core&>(*core_).shared.stats; }

void HttpRouter::Add(std::string path, std::string methods, Function function, Refusing refuse) {
  Route route{std::move(path), {}, {}, std::move(function), std::move(refuse)};
  for (std::string_view rest = methods; !rest.empty();) {
    route.methods.emplace_back(Trim(TakeUntil(rest, ',')));
    if (route.methods.back() == "GET") route.methods.push_back("HEAD");
  }
  for (const std::string& method : route.methods) route.allow += method + ", ";
  route.allow += "OPTIONS";
  routes_.push_back(std::move(route));
}

const HttpRouter::Route* HttpRouter::Find(const HttpRequest& request) const {
  auto found =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.path == request.path(); });
  return found == routes_.end() ? nullptr : &*found;
}

void HttpRouter::Refuse(const HttpRequest& request, HttpResponse& refusal) {
  const Route* found = Find(request);
  if (found && found->refuse) found->refuse(request, refusal);
}

void HttpRouter::Handle(const HttpRequest& request, HttpResponder responder) {
  const Route* found = Find(request);
  if (!found) return responder.Send(HttpResponse::Text(404, "not found"));
  const auto& methods = found->methods;
  if (std::find(methods.begin(), methods.end(), request.method()) != methods.end()) {
    return found->function(request, std::move(responder));
  }
  bool queries = request.method() == "OPTIONS";
  HttpResponse response =
      queries ? HttpResponse{.status = 204, .content_type = {}, .headers = {}, .body = {}, .close = false}
              : HttpResponse::Text(405, std::string(request.path()) + " allows " + found->allow);
  response.AddHeader("Allow", found->allow);
  if (!queries && found->refuse) found->refuse(request, response);
  responder.Send(std::move(response));
}

}  // namespace gpulens
