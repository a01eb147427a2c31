// What the running agent needs of the machine, by its configuration: src/plugins/rights.h of each plugin, and
// its own files.
#pragma once

#include <string>

#include "config/loader.h"
#include "plugins/plugin.h"
#include "plugins/rights.h"

namespace gpulens {

// Rights of the agent with this configuration: those of each plugin that is on, of the listeners, of the
// control socket, of the queues and of the state folder, without duplicates; paths are absolute. `env` needs
// root, state_dir and demo only. Looks for programs and folders, and makes none.
Rights RightsOf(const Config& config, const Env& env);

// What `later` needs and `granted` lacks, as a sentence for the administrator: "it needs to write /data,
// which it may not since it started: restart the agent". Empty: nothing. A program that `present`, the rights
// of the configuration in force, lacks as well was installed after the start, and is no reason to refuse
// another one.
std::string MissingRights(const Rights& granted, const Rights& present, const Rights& later);

}  // namespace gpulens
