// Who may reach the agent's own listeners.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "net/http/http_server.h"
#include "pipeline/config.h"

namespace gpulens {

// Other machines are served only with TLS and passwords (`locked`: the web configuration has both), or when
// somebody has said that they need neither. Of http and of the WebSocket stream, which shares its locks;
// receivers have a rule of their own. kInvalidArgument names the address.
Status RefuseOpenListeners(const Config& config, bool locked);

// The limits and the authentication of the agent's HTTP server.
HttpServer::Options HttpOptions(const Config& http, Authenticator* authenticator);

// Names by which all of the agent's listeners may be asked for: VisitorRule::hosts.
std::vector<std::string> AllowedHosts(const Config& config);

}  // namespace gpulens
