// What is known of an event beyond what its source said: the catalogue's name, class and action of a code,
// how bad it is, and a line for the log.
#pragma once

#include <string>

#include "core/frame.h"

namespace gpulens {

// Adds what the tables of codes say, and a severity where none is set.
void AddFacts(Event& event);

// "GPU 3: XID 79, GPU no longer answers on PCIe; python3 (pid 1234). Reboot the machine." Empty for events
// that are no news to whoever reads the log.
std::string LogText(const Event& event);

}  // namespace gpulens
