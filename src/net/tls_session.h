// One TLS connection's state on a socket. For stream.cc; OpenSSL's types end here.
#pragma once

#include <string_view>

#include <gpulens/status.h>

#include "net/tls.h"

struct ssl_st;

namespace gpulens {

// A new SSL on `fd`, set to accept or to connect as the context says; the caller frees it. A client
// sends and checks the context's server name, or else `host`; kInvalidArgument when there is neither
// and the context verifies.
Result<ssl_st*> MakeTlsSession(const TlsContext& context, int fd, std::string_view host);

}  // namespace gpulens
