// What a plugin refuses of its configuration beyond the type of each option: options that contradict each
// other, one that needs another. `gpulens config check` and the start of the agent tell of it with its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "pipeline/config.h"

namespace gpulens {

// Collects what is wrong. Used by one thread.
class ConfigFaults {
 public:
  struct Fault {
    Origin at;            // where the option stands
    std::string problem;  // "bearer_token and bearer_token_file contradict each other"
    std::string hint;
  };

  // `key` is an option of `group`, whose place is told.
  void Refuse(const Config& group, std::string_view key, std::string problem, std::string hint = {});
  // One that another check gave as a Status; ok adds nothing.
  void Refuse(const Config& group, std::string_view key, const Status& status);

  const std::vector<Fault>& faults() const noexcept { return faults_; }
  bool empty() const noexcept { return faults_.empty(); }

 private:
  std::vector<Fault> faults_;
};

// Looks at the configuration alone: no file, no network. Static storage.
using ConfigCheck = void (*)(const Config& config, ConfigFaults& faults);

// The first fault as a Status, kInvalidArgument, for whoever makes the plugin without the loader.
Status RefuseFaults(ConfigCheck check, const Config& config);

}  // namespace gpulens
