#include "net/http/connection_admission.h"

#include <utility>

namespace gpulens {

void ConnectionAdmission::OnAccept(UniqueFd socket, const Endpoint& peer) {
  dependencies_.stats.accepted.fetch_add(1, std::memory_order_relaxed);
  if (dependencies_.connections.size() >= dependencies_.max_connections && !MakeRoom()) return;
  static const auto kPlain = std::make_shared<const WebRules>();
  auto rules = dependencies_.authenticator ? dependencies_.authenticator->Rules() : kPlain;
  auto stream = Stream::Adopt(dependencies_.loop, std::move(socket), rules->tls, {}, dependencies_.protocol);
  if (!stream) return dependencies_.stats.Refused(Refusal::kLimit);
  Serve(*std::move(stream), peer, std::move(rules));
}

bool ConnectionAdmission::MakeRoom() {
  dependencies_.stats.Refused(Refusal::kLimit);
  return dependencies_.connections.CloseOne();
}

}  // namespace gpulens
