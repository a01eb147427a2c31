// What the configuration says of the agent's own listeners.
#pragma once

#include <string>
#include <vector>

#include "net/http/http_server.h"
#include "pipeline/config.h"

namespace gpulens {

// The limits and the authentication of the agent's HTTP server.
HttpServer::Options HttpOptions(const Config& http, Authenticator* authenticator);

// Names by which all of the agent's listeners may be asked for: VisitorRule::hosts.
std::vector<std::string> AllowedHosts(const Config& config);

}  // namespace gpulens
