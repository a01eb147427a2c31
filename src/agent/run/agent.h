// `gpulens agent`: collects and serves until a signal stops it.
#pragma once

#include <string>
#include <vector>

#include "config/loader.h"

namespace gpulens {

struct AgentOptions {
  std::string config_file;       // empty: $GPULENS_CONFIG, else /etc/gpulens/gpulens.yaml if it is there
  std::vector<FlagValue> flags;  // of the command line
  bool demo = false;             // simulated GPUs, and what runs on them
  std::string scenario;          // of the demo: a file, "none", or empty for the default
  bool quiet = false;            // no banner
};

// Blocks until SIGINT or SIGTERM; returns the exit code: 0 stopped, 1 could not run, 2 bad configuration.
int RunAgent(const AgentOptions& options);

}  // namespace gpulens
