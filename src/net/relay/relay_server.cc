#include "net/relay/relay_server.h"

#include "net/relay/relay_connection.h"

namespace gpulens {

std::string_view RelayEndName(RelayEnd end) noexcept {
  constexpr std::string_view kNames[kRelayEnds] = {"complete",    "answered",    "refused", "upstream_failed",
                                                   "client_gone", "client_slow", "aborted", "stopped"};
  return kNames[static_cast<size_t>(end)];
}

void RelayOutput::Pass(std::string_view bytes) {
  if (!open_ || bytes.empty()) return;
  pieces_.push_back(bytes);
}

RelayHandle::RelayHandle() noexcept = default;
RelayHandle::RelayHandle(const RelayHandle&) noexcept = default;
RelayHandle& RelayHandle::operator=(const RelayHandle&) noexcept = default;
RelayHandle::~RelayHandle() = default;
RelayHandle::RelayHandle(RelayConnection& connection, uint64_t number) noexcept
    : connection_(&connection), number_(number) {}

void RelayHandle::Answer(HttpResponse response) const {
  if (connection_) connection_->Answer(number_, std::move(response));
}
void RelayHandle::Forward(const RelayForward& forward) const {
  if (connection_) connection_->Forward(number_, forward);
}
void RelayHandle::Resume() const {
  if (connection_) connection_->Resume(number_);
}
void RelayHandle::Abort() const {
  if (connection_) connection_->Abort(number_);
}
bool RelayHandle::over() const noexcept { return !connection_ || connection_->Over(number_); }

void RelayExchange::OnUpstreamHead(const RelayHead&, RelayPass&) {}
void RelayExchange::OnBody(std::string_view piece, RelayOutput& output) { output.Pass(piece); }
void RelayExchange::OnBodyEnd(RelayOutput&) {}
void RelayExchange::OnResume(RelayOutput&) {}
void RelayExchange::OnAttemptFailed(const RelayAttempt&) {}
void RelayExchange::OnCut(const RelayAttempt&, RelayOutput&) {}
RelayDrain RelayExchange::OnClientGone() { return {}; }
void RelayPolicy::Refuse(const RelayHead&, HttpResponse&) {}

class RelayServer::Core final : public Server::Core {
 public:
  Core(IoLoop& loop, RelayPolicy& policy, const RelayOptions& options)
      : Server::Core(
            {loop, options.authenticator, options.limits.connections, shared.stats, shared.connections}),
        shared{.loop = loop,
               .policy = policy,
               .options = options,
               .stats = {},
               .buffer = {},
               .pieces = {},
               .out = {},
               .busy = 0,
               .connections = {loop,
                               {options.limits.client_body, options.limits.client_idle, Duration(0),
                                options.limits.client_write, options.limits.linger, Duration(0)}}} {}

  RelayShared shared;

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<RelayConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

RelayServer::RelayServer(IoLoop& loop, RelayPolicy& policy, RelayOptions options)
    : Server(loop, std::make_unique<Core>(loop, policy, options)) {}

const RelayStats& RelayServer::stats() const noexcept { return static_cast<Core&>(*core_).shared.stats; }

}  // namespace gpulens
