#include "agent/control/driver_finding.h"

#include <string>

namespace gpulens {

std::optional<Finding> DriverFinding(std::string_view status) {
  constexpr std::string_view kBut = "running, but ";
  Finding finding;
  finding.subject = "nvidia";
  // "releasing: …" stands for a process that does not end: nothing is read in that time, either.
  if (status.starts_with("released") || status.starts_with("releasing")) {
    finding.kind = Finding::kNoPermission;
    finding.what = "the running agent reads no GPU";
    finding.why = "its reader process is " + std::string(status);
    finding.remedy = "gpulens gpu resume";
    return finding;
  }
  if (!status.starts_with(kBut)) return std::nullopt;
  finding.kind = Finding::kBroken;
  finding.what = "the running agent receives no XIDs or other GPU events";
  finding.why = status.substr(kBut.size());
  finding.remedy = "gpulens gpu release, then gpulens gpu resume: starts another process";
  return finding;
}

}  // namespace gpulens
