// `gpulens fake nvml fail|heal|status`: what goes wrong with the simulated GPUs of a running agent.
#pragma once

namespace CLI {
class App;
}

namespace gpulens {

// Adds the command. `code` is set when it has run: 0 done, 1 not done, 2 wrong use.
void AddFake(CLI::App& app, int& code);

}  // namespace gpulens
