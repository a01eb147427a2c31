// Detects targets that are this agent's own listeners: the agent would read its own metrics.
#pragma once

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

  // The listener of this agent that answers at `url`, or null. Names other than localhost are not resolved.
  const Endpoint* Find(const HttpUrl& url) const;
  const Endpoint* Find(const Endpoint& at) const;

 private:
  std::vector<Endpoint> listening_, interfaces_;
};

// Refuses a sink that sends to a receiver of this agent, whose data would circulate forever.
// kInvalidArgument names the first such sink and its place.
Status RefuseOwnReceivers(const Config& config);

// Also refuses targets that are pages of this agent. kInvalidArgument names the first one and its place.
Status RefuseOwnPages(const Config& config);

}  // namespace gpulens
