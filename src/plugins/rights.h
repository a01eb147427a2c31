// What a plugin needs of the machine besides reading files and the network, by its configuration. The agent
// grants it when it starts; docs/adr/0070-rights-by-configuration.md.
#pragma once

#include <string>
#include <vector>

#include "base/sandbox/launcher.h"

namespace gpulens {

struct Rights {
  // Folders in which files and sockets are made. One that does not exist is made before the agent is
  // confined.
  std::vector<std::string> folders;
  std::vector<std::string> devices;  // device files that are opened for reading: /dev/kmsg
  std::vector<ProgramRule> programs;
  std::vector<int> capabilities;  // CAP_…, kept where the agent has them
};

}  // namespace gpulens
