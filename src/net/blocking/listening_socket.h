// Listening sockets, and the process that holds a port.
#pragma once

#include <string>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/message/address.h"

namespace gpulens {

// A socket of the service manager for this address (net/blocking/inherited_sockets.h), else binds and
// listens; port 0 is any free one. When the address is in use the detail names it and, if found, the process
// that holds it: "listen on 127.0.0.1:9091: address already in use by prometheus (pid 812)". Replaces a Unix
// socket file without a server. Any thread.
Result<UniqueFd> OpenListeningSocket(const Endpoint& at);

// Listens for packets (SEQPACKET) at a Unix socket to which every user may connect. Replaces a socket file
// without a server. kUnavailable: another process listens there. Any thread.
Result<UniqueFd> OpenPacketSocket(const std::string& path);

// "prometheus (pid 812)": the process that listens at `at`; empty when it is not visible (of another user).
// Reads all of /proc. Any thread.
std::string FindPortOwner(const Endpoint& at);

}  // namespace gpulens
