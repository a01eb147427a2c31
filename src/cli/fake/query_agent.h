// Sends one command to the running agent for a command of the command line, and prints its answer.
#pragma once

#include <string>

#include "config/loader.h"

namespace gpulens {

// Where the agent's control socket is by this configuration. Empty or "none": nowhere.
std::string ControlSocketOf(const Config& config);

struct AgentQuestion {
  std::string who;      // "gpulens gpu", for complaints
  std::string command;  // one line
  std::string socket;   // empty: as configured
  std::string config_file;
};

// Prints the answer on stdout, each part after a ';' on a line of its own, or what is wrong on stderr. Exit
// code: 0 done, 1 not done, 2 wrong configuration.
int QueryAndPrint(const AgentQuestion& question);

}  // namespace gpulens
