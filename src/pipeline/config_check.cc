#include "pipeline/config_check.h"

#include <utility>

namespace gpulens {

void ConfigFaults::Refuse(const Config& group, std::string_view key, std::string problem, std::string hint) {
  faults_.push_back({group.origin(key), std::move(problem), std::move(hint)});
}

void ConfigFaults::Refuse(const Config& group, std::string_view key, const Status& status) {
  if (!status) Refuse(group, key, std::string(key) + ": " + status.detail);
}

Status RefuseFaults(ConfigCheck check, const Config& config) {
  ConfigFaults faults;
  check(config, faults);
  if (faults.empty()) return Ok();
  const ConfigFaults::Fault& first = faults.faults().front();
  return {Code::kInvalidArgument, first.problem + (first.hint.empty() ? "" : "; " + first.hint)};
}

}  // namespace gpulens
