// Whether a target is one of this agent's own listeners: reading it would feed its numbers back to itself.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/message/address.h"
#include "plugins/config.h"

namespace gpulens {

// Immutable; safe to share.
class OwnPages {
 public:
  // The addresses in http.listen and websocket.listen, and those of this machine's interfaces.
  static OwnPages Of(const Config& config);
  OwnPages(std::vector<Endpoint> listening, std::vector<Endpoint> interfaces)
      : listening_(std::move(listening)), interfaces_(std::move(interfaces)) {}

  // The listener that answers at `url`; null when it is not ours. Names but localhost are not looked up.
  const Endpoint* Find(const HttpUrl& url) const;
  const Endpoint* Find(const Endpoint& at) const;

 private:
  std::vector<Endpoint> listening_, interfaces_;
};

// kInvalidArgument that names the first sink whose receiver is our own, and its place: what it sends would
// come back to it for ever.
Status RefuseOwnReceivers(const Config& config);

// kInvalidArgument that names the first target that is our own page, and its place; or what
// RefuseOwnReceivers says.
Status RefuseOwnPages(const Config& config);

}  // namespace gpulens
