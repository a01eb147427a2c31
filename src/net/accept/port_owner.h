// Who has a port, for the message that it is taken.
#pragma once

#include <string>

#include "net/address.h"

namespace gpulens {

// "prometheus (pid 812)" when the process that listens at `at` can be seen from here (same user or
// root); empty otherwise. Reads /proc once over; not for hot paths. Any thread.
std::string FindPortOwner(const Endpoint& at);

}  // namespace gpulens
