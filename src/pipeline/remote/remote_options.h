// The options of whatever speaks to another program over HTTP: how to get in. Static storage.
#pragma once

#include <array>

#include "pipeline/config.h"

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

// Those that RemoteAccess reads.
inline constexpr auto kRemoteOptions = std::to_array<OptionSpec>({
    {.key = "unix_socket", .help = "Connect to this socket file; the URL then names only host and path."},
    {.key = "username", .help = "For basic authentication."},
    {.key = "password", .help = "Its password."},
    {.key = "password_file", .help = "A file with the password; read again when it changes."},
    {.key = "bearer_token", .help = "Sent as Authorization: Bearer."},
    {.key = "bearer_token_file", .help = "A file with the token; read again when it changes."},
    {.key = "headers", .type = OptionType::kTextMap, .help = "More header fields of the request."},
    {.key = "tls", .type = OptionType::kGroup, .help = "For https.", .children = kTlsOptions},
});

}  // namespace gpulens
