// One TLS connection's state on a socket. For stream.cc; OpenSSL's types end here.
#pragma once

#include <string_view>

#include <gpulens/status.h>

#include "net/tls.h"

struct ssl_st;

namespace gpulens {

inline constexpr unsigned char kAlpnHttp1[] = "\x08http/1.1";
inline constexpr unsigned char kAlpnHttp2[] = "\x02h2";

// A new SSL on `fd`, set to accept or to connect as the context says; the caller frees it. A client
// sends and checks the context's server name, or else `host`; kInvalidArgument when there is neither
// and the context verifies. With `http2` a client offers that alone, and a server takes nothing else.
Result<ssl_st*> MakeTlsSession(const TlsContext& context, int fd, std::string_view host, bool http2);
// Whether it was made so.
bool SpeaksHttp2(const ssl_st* ssl) noexcept;

}  // namespace gpulens
