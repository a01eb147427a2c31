// Asks the agent that runs on this machine for its status. Blocks: for commands of the command line.
#pragma once

#include <optional>
#include <string>

#include <gpulens/status.h>

#include "agent/status/status_report.h"
#include "base/clock.h"
#include "net/message/address.h"
#include "plugins/config.h"

namespace gpulens {

struct QueriedStatus {
  std::optional<StatusReport> report;
  std::string at;       // where something answered: "http://127.0.0.1:9091/", a path; empty: nowhere
  std::string refusal;  // why there is no report although something answered
};

// By the control socket, which lets in root and the agent's own user, then by HTTP at the loopback addresses
// of the configuration.
QueriedStatus QueryRunningAgent(const Config& config);

// The body of one page. `accept` may be empty.
Result<std::string> ReadAgentPage(const HttpUrl& url, std::string_view accept, Duration timeout,
                                  size_t limit);

}  // namespace gpulens
