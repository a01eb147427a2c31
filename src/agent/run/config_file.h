// Finds and loads the configuration for all commands, and finds the state folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/loader.h"

namespace gpulens {

// Returns `named`, else $GPULENS_CONFIG, else /etc/gpulens/gpulens.yaml if it exists, else nothing.
std::string FindConfigFile(const std::string& named);

// Loads the file and the environment of the process. An unreadable file is an error of the outcome.
LoadOutcome LoadConfig(const Schema& schema, const std::string& file, const std::vector<FlagValue>& flags);

// The schema of the agent and what was loaded with it, for one command.
struct CommandConfig {
  std::unique_ptr<Schema> schema;
  LoadOutcome loaded;

  bool ok() const noexcept { return loaded.ok(); }
  const Config& config() const noexcept { return loaded.config; }
};
// Loads `file`, or the one that the agent would read, and writes `report` of the outcome to the standard
// error; null: writes nothing.
CommandConfig LoadCommandConfig(const std::string& file,
                                std::string (LoadOutcome::*report)() const = &LoadOutcome::Errors,
                                const std::vector<FlagValue>& flags = {});

// Returns `configured` if it is not empty, else $STATE_DIRECTORY of systemd, /var/lib/gpulens for root, and
// $XDG_STATE_HOME/gpulens or ~/.local/state/gpulens for users. Empty without a home folder. Creates nothing.
std::string StateDir(const std::string& configured);

// The folder of `agent --demo` below that one, which keeps simulated data apart from real data. Empty for an
// empty one.
std::string DemoStateDir(const std::string& state_dir);

// Logs a warning when `folder` cannot be used.
void ReportOfStateFolder(const std::string& folder);

// Log options of the group `log`, for the current standard error.
LogOptions LogOptionsFor(const Config& log);

}  // namespace gpulens
