// Tells a service manager what the agent does, by the protocol of sd_notify(3), and asks the kernel for what
// the process needs.
#pragma once

#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens {

// Sends to $NOTIFY_SOCKET; does nothing when that is not set. Thread-safe.
void NotifyServiceManager(std::string_view state);

// How often WATCHDOG=1 must be sent: half of $WATCHDOG_USEC, when that is meant for this process;
// zero: never.
Duration WatchdogInterval();

// As many open files as the agent may need, as far as it may ask for them. kExhausted: so few that nobody
// could be served.
Status RaiseFileLimit();

// No core dump, and no look into the process by others of its user: where it holds the key of a certificate.
void LeaveNoDump() noexcept;

}  // namespace gpulens
