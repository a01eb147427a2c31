// `gpulens sim record|replay|fail|heal|status`: GPUs that are recorded, replayed and broken on purpose.
#pragma once

#include <string>

#include "cli/capture/capture_command.h"

namespace CLI {
class App;
}

namespace gpulens {

struct SimOptions {
  CaptureOptions record;
  std::string replay_file, config_file;
  bool replays = false;  // an agent is to be run with the recording
};

// Adds the commands. `code` is set when one has run, but for replay: that only sets `replays`, and the caller
// runs the agent. `options` outlives the app.
void AddSim(CLI::App& app, SimOptions& options, int& code);

}  // namespace gpulens
