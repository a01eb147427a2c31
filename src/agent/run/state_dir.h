// The folder that the agent may write.
#pragma once

#include <string>

namespace gpulens {

// `configured` when it is not empty; else what systemd gives (STATE_DIRECTORY), /var/lib/gpulens for root,
// and $XDG_STATE_HOME/gpulens or ~/.local/state/gpulens for users. Empty when there is no home either. Makes
// nothing.
std::string StateDir(const std::string& configured);

}  // namespace gpulens
