#include "net/relay/upstream.h"

#include <algorithm>

#include "base/check.h"
#include "net/relay/upstream_connection.h"

namespace gpulens {
namespace {

struct FailureRow {
  std::string_view name;
  int status;
};
constexpr FailureRow kFailureRows[kRelayFailures] = {
    {"none", 200},    {"streams", 503},      {"circuit_open", 503}, {"busy", 503},
    {"resolve", 502}, {"forbidden", 502},    {"connect", 502},      {"connect_timeout", 504},
    {"tls", 502},     {"tls_timeout", 504},  {"closed", 502},       {"head_timeout", 504},
    {"head", 502},    {"idle_timeout", 504}, {"cut", 502},          {"body", 502},
};

}  // namespace

std::string_view RelayFailureName(RelayFailure failure) noexcept {
  return kFailureRows[static_cast<size_t>(failure)].name;
}
int RelayFailureStatus(RelayFailure failure) noexcept {
  return kFailureRows[static_cast<size_t>(failure)].status;
}

bool UpstreamCircuit::Allow(Instant now) noexcept {
  if (!open_) return true;
  if (probing_ || now - opened_ < options_.open_for) return false;
  probing_ = true;
  return true;
}

void UpstreamCircuit::OnSuccess() noexcept {
  failures_ = 0;
  open_ = probing_ = false;
}

void UpstreamCircuit::OnFailure(Instant now) noexcept {
  const bool probe = std::exchange(probing_, false);
  if (options_.failures == 0 || (++failures_ < options_.failures && !probe)) return;
  // Requests that began before it opened fail later; they do not prolong it.
  if (open_ && !probe) return;
  open_ = true;
  opened_ = now;
}

UpstreamPool::UpstreamPool(IoLoop& loop, UpstreamOptions options)
    : loop_(loop),
      options_(std::move(options)),
      authority_(options_.url.Authority()),
      circuit_(options_.circuit),
      connections_(loop, [this] {
        std::array<Duration, kPhases> timeouts{};
        const auto set = [&](Phase phase, Duration timeout) {
          timeouts[static_cast<size_t>(phase)] = timeout;
        };
        set(UpstreamConnection::kConnecting, options_.connect);
        set(UpstreamConnection::kHandshake, options_.tls_handshake);
        set(UpstreamConnection::kAwaitsHead, options_.head);
        set(UpstreamConnection::kAwaitsBody, options_.between);
        set(UpstreamConnection::kKept, options_.idle);
        return timeouts;
      }()) {
  if (auto ip = ParseIp(options_.url.host, options_.url.port)) literal_ = std::make_unique<Endpoint>(*ip);
}

UpstreamPool::~UpstreamPool() = default;

void UpstreamPool::CloseIdle() {
  while (!idle_.empty()) idle_.front()->Close();
}

RelayFailure UpstreamPool::Start(UpstreamUser& user, const UpstreamRequest& request, bool fresh,
                                 Ref<UpstreamConnection>& connection) {
  if (!circuit_.Allow(Now())) return RelayFailure::kCircuitOpen;
  while (!fresh && !idle_.empty()) {
    connection = Ref<UpstreamConnection>(idle_.back());
    idle_.pop_back();
    if (connection->Reuse(user, request)) {
      ++reused_;
      return RelayFailure::kNone;
    }
    connection->Close();
  }
  if (connections_.size() >= options_.max_connections && !idle_.empty()) idle_.front()->Close();
  if (connections_.size() >= options_.max_connections) {
    circuit_.OnAbandoned();
    connection = nullptr;
    return RelayFailure::kBusy;
  }
  connection = MakeRef<UpstreamConnection>(*this);
  ++opened_;
  connection->Open(user, request);
  return RelayFailure::kNone;
}

void UpstreamPool::Keep(UpstreamConnection& connection) {
  if (options_.max_idle == 0) return connection.Close();
  if (idle_.size() >= options_.max_idle) idle_.front()->Close();
  idle_.push_back(&connection);
  connections_.Enter(connection, UpstreamConnection::kKept);
}

void UpstreamPool::Forget(UpstreamConnection& connection) {
  const auto found = std::find(idle_.begin(), idle_.end(), &connection);
  if (found != idle_.end()) idle_.erase(found);
  connections_.Remove(connection);
}

}  // namespace gpulens
