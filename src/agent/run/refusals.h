// What the agent refuses of a configuration that the loader takes: rules over other files and all plugins.
#pragma once

#include <gpulens/status.h>

#include "pipeline/config.h"

namespace gpulens {

// Other machines are served only with TLS and passwords (`locked`: the web configuration has both), or when
// somebody has said that they need neither. Of http and of the WebSocket stream, which shares its locks.
// kInvalidArgument names the address.
Status RefuseOpenListeners(const Config& config, bool locked);

// What receivers take in goes to sinks that pass it on; without one all of it would be refused.
Status RefuseReceiversWithoutSink(const Config& config);

// Everything that a start would refuse, without starting: for `gpulens config check`. Reads the web
// configuration file. kInvalidArgument with the place in the file.
Status RefuseBeforeStart(const Config& config);

}  // namespace gpulens
