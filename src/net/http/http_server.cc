#include "net/http/http_server.h"

#include "base/result.h"
#include "net/accept/connection_set.h"
#include "net/accept/listener.h"
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

bool HttpResponder::wanted() const noexcept { return connection_ && !connection_->gone(); }

class HttpServer::Core final : private Acceptor {
 public:
  Core(IoLoop& loop, HttpHandler& handler, const Options& options)
      : shared{.loop = loop,
               .handler = handler,
               .authenticator = options.authenticator,
               .limits = options.limits,
               .stats = {},
               .files = HttpBodyFiles(loop),
               .buffer = {},
               .spare_parser = nullptr,
               .connections = {loop,
                               {options.limits.request_timeout, options.limits.idle_timeout, Duration(0),
                                options.limits.write_timeout, options.limits.linger, Duration(0)}}},
        listeners(loop, *this) {}

  HttpShared shared;
  Listeners listeners;
  IoLoop::TimerId deadline = 0;

 private:
  void OnAccept(UniqueFd socket, const Endpoint& peer) override {
    shared.stats.accepted.fetch_add(1, std::memory_order_relaxed);
    if (shared.connections.size() >= shared.limits.connections) {
      shared.stats.Refused(Refusal::kLimit);
      if (!shared.connections.CloseOne()) return;
    }
    static const auto kPlain = std::make_shared<const WebRules>();
    auto rules = shared.authenticator ? shared.authenticator->Rules() : kPlain;
    auto stream = Stream::Adopt(shared.loop, std::move(socket), rules->tls);
    if (!stream) return shared.stats.Refused(Refusal::kLimit);
    MakeRef<HttpConnection>(shared, *std::move(stream), peer, std::move(rules))->Start();
  }

  bool MakeRoom() override {
    shared.stats.Refused(Refusal::kLimit);
    return shared.connections.CloseOne();
  }
};

HttpServer::HttpServer(IoLoop& loop, HttpHandler& handler, Options options)
    : loop_(loop), core_(std::make_unique<Core>(loop, handler, options)) {}

HttpServer::~HttpServer() {
  loop_.Call([this] {
    if (core_->deadline) loop_.Cancel(core_->deadline);
    core_ = nullptr;
  });
}

Result<Endpoint> HttpServer::Listen(const Endpoint& at) {
  ASSIGN_OR_RETURN(UniqueFd socket, OpenListeningSocket(at));
  return Listen(std::move(socket));
}

Result<Endpoint> HttpServer::Listen(UniqueFd listening) {
  Result<Endpoint> added = Status{Code::kIo, "not run"};
  loop_.Call([&] { added = core_->listeners.Add(std::move(listening)); });
  return added;
}

void HttpServer::StopListening(const Endpoint& at) {
  loop_.Call([&] { core_->listeners.Remove(at); });
}

std::vector<Endpoint> HttpServer::addresses() const {
  std::vector<Endpoint> found;
  loop_.Call([&] { found = core_->listeners.addresses(); });
  return found;
}

void HttpServer::Shutdown(Duration deadline, std::function<void()> done) {
  loop_.Call([&] {
    core_->listeners.RemoveAll();
    core_->deadline = loop_.After(deadline, [core = core_.get()] {
      core->deadline = 0;
      core->shared.connections.CloseAll();
    });
    core_->shared.connections.OnEmpty(std::move(done));
    core_->shared.connections.FinishAll();
  });
}

const ServerStats& HttpServer::stats() const noexcept { return core_->shared.stats; }

}  // namespace gpulens
