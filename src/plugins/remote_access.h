// Access to another program: header fields, passwords, TLS. Their files are read again while in use, since
// passwords, tokens and certificates are replaced.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
#include "net/message/address.h"
#include "net/tls.h"
#include "plugins/config.h"

namespace gpulens {

// Refuses kTransportOptions that contradict each other or cannot be sent to `url`.
void CheckRemote(const Config& transport, const HttpUrl& url, ConfigFaults& faults);

// Not thread-safe. Refresh may wait for files: call it on a worker.
class RemoteAccess {
 public:
  // Whole header lines, each with its end.
  struct Fields {
    std::string_view accept = {};  // unless the configuration has an Accept of its own
    std::string_view always = {};
  };

  // Of a config with kTransportOptions. kInvalidArgument for options that contradict each other. Reads no
  // file yet.
  static Result<RemoteAccess> Make(const Config& transport, const HttpUrl& url, const Fields& fields);

  // Reads what may have changed. Not ok: nothing can be asked now; the detail tells why.
  Status Refresh();

  // Whole header lines, Authorization among them.
  const std::string& headers() const noexcept { return headers_; }
  // Null for http.
  const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }

 private:
  RemoteAccess() = default;
  void SetPlain(const Config& transport, const Fields& fields);
  Status RefreshSecret();
  Status RefreshTls();

  std::string user_, secret_, secret_file_;
  bool basic_ = false, bearer_ = false;
  std::string plain_headers_, headers_, scratch_, shown_secret_;
  bool shown_ = false;
  bool wants_tls_ = false;
  TlsClientOptions tls_options_;
  std::vector<std::string> tls_files_;
  std::vector<FileMark> tls_marks_;
  std::shared_ptr<const TlsContext> tls_;
};

inline constexpr OptionSpec kTlsOptions[] = {
    {.key = "ca_file",
     .help = "File with the CAs that may have signed the server's certificate; default: the CAs of this "
             "machine."},
    {.key = "cert_file", .help = "File with the client certificate."},
    {.key = "key_file", .help = "File with the key of the client certificate."},
    {.key = "server_name", .help = "The name in the server's certificate; default: the host of the URL."},
    {.key = "insecure_skip_verify",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Accept any certificate. Anyone between here and the server can then read and change the data."},
};

// Connection options of every HTTP client of gpulens. Static storage.
inline constexpr OptionSpec kTransportOptions[] = {
    {.key = "timeout",
     .type = OptionType::kTime,
     .help = "Timeout of one request; default: 10s, and of a scrape its interval, at most 10s."},
    {.key = "unix_socket", .help = "Connect to this socket file; the URL then names only host and path."},
    {.key = "username", .help = "For basic authentication."},
    {.key = "password", .help = "Its password."},
    {.key = "password_file", .help = "A file with the password; read again when it changes."},
    {.key = "bearer_token", .help = "Sent as Authorization: Bearer."},
    {.key = "bearer_token_file", .help = "A file with the token; read again when it changes."},
    {.key = "headers", .type = OptionType::kTextMap, .help = "More header fields of the request."},
    {.key = "tls", .type = OptionType::kGroup, .help = "For https.", .children = kTlsOptions},
};
inline constexpr std::string_view kTransportKey = "transport";
inline constexpr auto kRemoteOptions = std::to_array<OptionSpec>({
    {.key = kTransportKey,
     .type = OptionType::kGroup,
     .help = "How to connect: timeout, authentication, TLS.",
     .children = kTransportOptions},
});

// Timeout of one request by the group `transport`; `otherwise` if it is not set.
inline Duration RequestTimeout(const Config& transport, Duration otherwise) {
  const Duration set = transport.Time("timeout");
  return set.count() > 0 ? set : otherwise;
}

}  // namespace gpulens
