// Tells a service manager what the agent does, by the protocol of sd_notify(3).
#pragma once

#include <string_view>

#include "base/clock.h"

namespace gpulens {

// Sends to $NOTIFY_SOCKET; does nothing when that is not set. Thread-safe.
void NotifyServiceManager(std::string_view state);

// How often WATCHDOG=1 must be sent: half of $WATCHDOG_USEC, when that is meant for this process;
// zero: never.
Duration WatchdogInterval();

}  // namespace gpulens
