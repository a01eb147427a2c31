#include "agent/run/listening.h"

namespace gpulens {

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
