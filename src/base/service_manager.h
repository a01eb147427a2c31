// The service manager that started this process, systemd or another with its protocol.
#pragma once

#include <string_view>

namespace gpulens {

// Sends a state such as "READY=1" to $NOTIFY_SOCKET (sd_notify(3)); does nothing when it is not set. A
// manager that does not read holds it up for a second at most, and not at all for "WATCHDOG=1". Thread-safe.
void NotifyServiceManager(std::string_view state);

}  // namespace gpulens
