#include "agent/run/open_listeners.h"

#include <string>

#include "base/result.h"
#include "net/address.h"

namespace gpulens {

Status RefuseOpenListeners(const Config& config, bool locked) {
  if (locked || config.Group("http").Bool("insecure")) return Ok();
  for (const char* group : {"http", "websocket"}) {
    for (const std::string& text : config.Group(group).Texts("listen")) {
      ASSIGN_OR_RETURN(Endpoint endpoint, ParseListenAddress(text));
      if (endpoint.IsLoopback()) continue;
      return {Code::kInvalidArgument,
              std::string(group) + ".listen " + endpoint.ToString() +
                  " is open to other machines: it needs http.web_config with TLS and users, or "
                  "http.insecure: true on a closed network"};
    }
  }
  return Ok();
}

HttpServer::Options HttpOptions(const Config& http, Authenticator* authenticator) {
  HttpServer::Options options;
  options.limits.connections = static_cast<size_t>(http.Int("max_connections"));
  options.limits.header_bytes = http.Size("max_header");
  options.limits.body_bytes = http.Size("max_body");
  options.limits.idle_timeout = http.Time("idle_timeout");
  options.authenticator = authenticator;
  return options;
}

std::vector<std::string> AllowedHosts(const Config& config) {
  const Config& http = config.Group("http");
  return http.Has("allowed_hosts") ? http.Texts("allowed_hosts") : std::vector<std::string>();
}

}  // namespace gpulens
