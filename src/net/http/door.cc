#include "net/http/door.h"

#include <utility>

namespace gpulens {

void Door::OnAccept(UniqueFd socket, const Endpoint& peer) {
  house_.stats.accepted.fetch_add(1, std::memory_order_relaxed);
  if (house_.connections.size() >= house_.most_connections && !MakeRoom()) return;
  static const auto kPlain = std::make_shared<const WebRules>();
  auto rules = house_.authenticator ? house_.authenticator->Rules() : kPlain;
  auto stream = Stream::Adopt(house_.loop, std::move(socket), rules->tls, {}, house_.protocol);
  if (!stream) return house_.stats.Refused(Refusal::kLimit);
  Serve(*std::move(stream), peer, std::move(rules));
}

bool Door::MakeRoom() {
  house_.stats.Refused(Refusal::kLimit);
  return house_.connections.CloseOne();
}

}  // namespace gpulens
