// Access to another program: header fields, passwords, TLS. Files of passwords, tokens and certificates are
// read again while in use, as they are replaced.
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

inline constexpr OptionSpec kTlsOptions[] = {
    TextOption("ca_file", {},
               "File with the CAs that may have signed the server's certificate; default: the CAs of this "
               "machine."),
    TextOption("cert_file", {}, "File with the client certificate."),
    TextOption("key_file", {}, "File with the key of the client certificate."),
    TextOption("server_name", {}, "The name in the server's certificate; default: the host of the URL."),
    BoolOption(
        "insecure_skip_verify", false,
        "Accept any certificate. Anyone between here and the server can then read and change the data."),
};
using TlsOptions = OptionsOf<kTlsOptions>;

// Connection options of every HTTP client of gpulens. Static storage.
inline constexpr OptionSpec kTransportOptions[] = {
    TimeOption("timeout", {},
               "Timeout of one request; default: 10s, and of a scrape its interval, at most 10s."),
    TextOption("unix_socket", {}, "Connect to this socket file; the URL then names only host and path."),
    TextOption("username", {}, "For basic authentication."),
    TextOption("password", {}, "Its password."),
    TextOption("password_file", {}, "A file with the password; read again when it changes."),
    TextOption("bearer_token", {}, "Sent as Authorization: Bearer."),
    TextOption("bearer_token_file", {}, "A file with the token; read again when it changes."),
    {.key = "headers", .type = OptionType::kTextMap, .help = "More header fields of the request."},
    GroupOption("tls", "For https.", kTlsOptions),
};
using TransportOptions = OptionsOf<kTransportOptions>;

inline constexpr std::string_view kTransportKey = "transport";
inline constexpr auto kRemoteOptions = std::to_array<OptionSpec>({
    GroupOption(kTransportKey, "How to connect: timeout, authentication, TLS.", kTransportOptions),
});

// Refuses a certificate without its key, or the reverse.
void CheckTls(TlsOptions tls, ConfigFaults& faults);
void ReadTls(TlsOptions tls, TlsClientOptions& out);

// Refuses options that contradict each other or cannot be sent to `url`.
void CheckRemote(TransportOptions transport, const HttpUrl& url, ConfigFaults& faults);

// Not thread-safe. Refresh may wait for files: call it on a worker.
class RemoteAccess {
 public:
  // Complete header lines, with line ends.
  struct Fields {
    std::string_view accept = {};  // unless the configuration has an Accept of its own
    std::string_view always = {};
  };

  // kInvalidArgument when options contradict each other. Reads no file yet.
  static Result<RemoteAccess> Make(TransportOptions transport, const HttpUrl& url, const Fields& fields);

  // Reads files that may have changed. Not ok: no request can be sent now; the detail has the reason.
  Status Refresh();

  // Complete header lines, including Authorization.
  const std::string& headers() const noexcept { return headers_; }
  // Null for http.
  const std::shared_ptr<const TlsContext>& tls() const noexcept { return tls_; }

 private:
  RemoteAccess() = default;
  void SetPlain(TransportOptions transport, const Fields& fields);
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

// Timeout of one request by the group `transport`; `otherwise` if it is not set.
inline Duration RequestTimeout(TransportOptions transport, Duration otherwise) {
  const Duration set = transport.Time("timeout");
  return set.count() > 0 ? set : otherwise;
}

}  // namespace gpulens
