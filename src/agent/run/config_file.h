// Finds and loads the configuration as every command does, and the folder that the agent may write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/loader.h"

namespace gpulens {

// The file that counts: `named`, else $GPULENS_CONFIG, else /etc/gpulens/gpulens.yaml when it
// exists, else none (empty).
std::string FindConfigFile(const std::string& named);

// Reads it and the process's environment. A named file that cannot be read is an error of
// the outcome.
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

// `configured` when it is not empty; else what systemd gives (STATE_DIRECTORY), /var/lib/gpulens for root,
// and $XDG_STATE_HOME/gpulens or ~/.local/state/gpulens for users. Empty when there is no home either. Makes
// nothing.
std::string StateDir(const std::string& configured);

// The folder of `agent --demo` below that one: what was simulated is never found among what was real. Empty
// stays empty.
std::string DemoStateDir(const std::string& state_dir);

// Logs that nothing can be kept in `folder`: what is kept nowhere is missing when it is wanted.
void ReportOfStateFolder(const std::string& folder);

// Log options of the group `log`, for the current standard error.
LogOptions LogOptionsFor(const Config& log);

}  // namespace gpulens
