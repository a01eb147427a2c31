// The status that a running agent reports to `gpulens doctor`: which process and user it is, and its
// findings. One line of JSON, at /-/status and on the control socket.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/status/sandbox_report.h"
#include "base/clock.h"
#include "net/message/address.h"
#include "plugins/config.h"
#include "plugins/plugin.h"

namespace gpulens {

struct StatusReport {
  int64_t pid = 0;
  std::string user;  // that the agent runs as
  std::string version;
  std::string state_dir;  // empty: it keeps nothing
  bool simulated = false;
  std::vector<std::string> sinks;  // configured ones that have queues; an agent of 0.1.0 reports none
  SandboxReport sandbox;
  std::vector<Finding> findings;
};

// "found", "absent", "no_permission", "broken", "warning". Static storage.
std::string_view FindingKindName(Finding::Kind kind) noexcept;

// {"kind":"found","subject":"nvidia",…}
void AppendFindingJson(std::string& out, const Finding& finding);
std::string StatusJson(const StatusReport& report);
// kDataLoss for anything but a report. Reads at most 1,000 findings and sinks.
Result<StatusReport> ParseStatus(std::string_view json);

struct QueriedStatus {
  std::optional<StatusReport> report;
  std::string at;       // address that answered: "http://127.0.0.1:9091/", or a path; empty: none
  std::string refusal;  // why there is no report although something answered
};

// Where an agent with this configuration may answer, in the order in which it is queried: paths of control
// sockets, and "http://127.0.0.1:9091/" of the loopback addresses at which something listens.
std::vector<std::string> AgentAddresses(const Config& config);

// Queries the control socket, which accepts root and the agent's own user, then HTTP at the loopback
// addresses of the configuration.
QueriedStatus QueryRunningAgent(const Config& config);

// Reads the body of one page. `accept` may be empty.
Result<std::string> ReadAgentPage(const HttpUrl& url, std::string_view accept, Duration timeout,
                                  size_t limit);

}  // namespace gpulens
