// A socket that clients can reach, before anybody serves it.
#pragma once

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/address.h"

namespace gpulens {

// Binds and listens. Port 0 takes any free one. When the address is taken the detail names it and, when
// it can be found, the process that has it: "listen on 127.0.0.1:9091: address already in use by
// prometheus (pid 812)". A Unix socket file that nobody answers on is replaced. Any thread.
Result<UniqueFd> OpenListeningSocket(const Endpoint& at);

}  // namespace gpulens
