// What the agent refuses of a configuration that the loader takes: rules over other files and all plugins.
// The agent asks at its start and at each reload, `gpulens config check` before that.
#pragma once

#include <gpulens/status.h>

#include "net/auth/web_config.h"
#include "plugins/config.h"

namespace gpulens {

// Whether nobody is served without TLS and a password.
bool IsLocked(const WebConfig& web);

// kInvalidArgument with the place in the file, when one of these rules is broken:
// - Nothing reads the agent's own pages, or sends to its own receivers.
// - Other machines are served only with TLS and passwords (`locked`), or when somebody has said that they
// need
//   neither: http, the WebSocket stream, which shares its locks, and receivers.
// - What receivers take in goes to a sink that passes it on; without one all of it would be refused.
Status RefuseBeforeStart(const Config& config, bool locked);

// The same without an agent: reads the file http.web_config.
Status RefuseBeforeStart(const Config& config);

}  // namespace gpulens
