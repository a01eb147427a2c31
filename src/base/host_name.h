#pragma once

#include <string>

namespace gpulens {

// The name of this machine, as `hostname` prints it; empty if it cannot be read.
std::string HostName();

}  // namespace gpulens
