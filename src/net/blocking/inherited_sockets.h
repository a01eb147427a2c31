// Listening sockets that the service manager opened for this process and keeps while it restarts (socket
// activation, sd_listen_fds(3)). OpenListeningSocket returns a descriptor of an inherited socket for its
// address, so every listener of the program uses it; the file of an inherited Unix socket is not removed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "net/message/address.h"

namespace gpulens {

// Takes over what LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES announce, 64 sockets at most, and removes these
// variables from the environment, also when they are meant for another process: that is no error, and nothing
// is taken. kInvalidArgument names a descriptor that is no listening stream socket with an address; then
// nothing is taken either. Call before threads start. `first`: the lowest descriptor.
Status TakeInheritedSockets(int first = 3);

// A descriptor of the inherited socket at `at`; empty: there is none. Any thread.
std::optional<UniqueFd> InheritedSocketAt(const Endpoint& at);

// Whether the address is that of an inherited socket: ":9091" also is "[::]:9091" there. Any thread.
bool IsInherited(const Endpoint& at);

// Addresses at which the service manager accepts connections that no listener of this process serves, each
// with the name of its socket: "127.0.0.1:9099 (gpulens.socket)". Any thread.
std::vector<std::string> UnusedInheritedSockets();

// Closes them, for tests.
void ForgetInheritedSockets();

}  // namespace gpulens
