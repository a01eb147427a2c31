// The web config file: TLS, response headers and users of our HTTP and WebSocket servers.
//
// The format is that of Prometheus's exporter-toolkit, with two keys of ours: `bearer_token` and
// `bearer_token_file`. This is only the file and its meaning; authenticator.h applies it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "net/tls.h"

namespace gpulens {

struct WebConfig {
  std::optional<TlsServerOptions> tls;
  bool http2 = true;  // taken for the format's sake: these servers speak HTTP/1.1
  std::vector<std::pair<std::string, std::string>> headers;
  std::map<std::string, std::string> users;  // name to bcrypt hash
  std::string bearer_token;
  std::string bearer_token_file;

  bool requests_credentials() const noexcept {
    return !users.empty() || !bearer_token.empty() || !bearer_token_file.empty();
  }
  // True when clients have to prove who they are, by password, token or certificate.
  bool authenticates() const noexcept {
    return requests_credentials() || (tls && tls->client_auth == ClientAuth::kRequireAndVerifyClientCert);
  }
  // The files that are read besides the config itself.
  std::vector<std::string> Files() const;
};

// `path` names the file in errors, and file names in it are relative to its folder. kInvalidArgument as
// "web.yml:3: unknown key client_ca_fil; did you mean client_ca_file?". Secrets never stand in errors.
Result<WebConfig> ParseWebConfig(std::string_view text, const std::string& path);
// At most 1 MiB.
Result<WebConfig> LoadWebConfig(const std::string& path);

// "$2y$10$…": a bcrypt hash that crypt(3) takes, of a cost from 4 to 16 (4 s a try).
bool IsBcryptHash(std::string_view text) noexcept;

}  // namespace gpulens
