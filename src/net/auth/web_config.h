// Parser of the web config file: TLS, response headers and users of the servers. Its format is that of
// Prometheus's exporter-toolkit, with two more keys: `bearer_token` and `bearer_token_file`.
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
  bool http2 = true;  // accepted and ignored: these servers speak HTTP/1.1
  std::vector<std::pair<std::string, std::string>> headers;
  std::map<std::string, std::string> users;  // name to bcrypt hash
  std::string bearer_token;
  std::string bearer_token_file;

  bool requests_credentials() const noexcept {
    return !users.empty() || !bearer_token.empty() || !bearer_token_file.empty();
  }
  // Whether clients must authenticate by password, token or certificate.
  bool authenticates() const noexcept {
    return requests_credentials() || (tls && tls->client_auth == ClientAuth::kRequireAndVerifyClientCert);
  }
  // Further files that are read.
  std::vector<std::string> Files() const;
};

// `path` is used in errors and as base of relative file names. kInvalidArgument as "web.yml:3: unknown key
// client_ca_fil; did you mean client_ca_file?"; errors never contain secrets.
Result<WebConfig> ParseWebConfig(std::string_view text, const std::string& path);
// At most 1 MiB.
Result<WebConfig> LoadWebConfig(const std::string& path);

// "$2y$10$…": a bcrypt hash for crypt(3) with a cost from 4 to 16 (4 s per check).
bool IsBcryptHash(std::string_view text) noexcept;

}  // namespace gpulens
