// The options of every client of another program over HTTP: how to connect. Static storage.
#pragma once

#include <array>

#include "plugins/config.h"

namespace gpulens {

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

// How to connect to a server: one block wherever gpulens is the client.
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

// The limit of one request by the group `transport`, or `otherwise` where it says nothing.
inline Duration RequestTimeout(const Config& transport, Duration otherwise) {
  const Duration set = transport.Time("timeout");
  return set.count() > 0 ? set : otherwise;
}

}  // namespace gpulens
