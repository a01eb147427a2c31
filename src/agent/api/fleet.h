// /api/fleet: the nodes that send through this gateway, worst first, or the same by model, rack or job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/api/api.h"
#include "agent/fleet/fleet_table.h"

namespace gpulens {

// `table` outlives the API. kUnavailable for an agent without receivers, and for a node that is not known.
void AddFleetPage(Api& api, FleetTable& table);

// What is wrong with a node: the worst first. A value counts while it is no older than the node's others.
struct FleetProblem {
  enum Severity : uint8_t { kWarning = 1, kFault = 2 };
  Severity severity = kWarning;
  int64_t gpu = -1;  // index; negative: of the whole node
  std::string text;
};

enum class FleetPresence : uint8_t { kHere, kLate, kAway };
FleetPresence PresenceOf(const FleetTable::Options& options, const FleetNode& node, int64_t now_ms) noexcept;
std::vector<FleetProblem> ProblemsOf(const FleetTable::Options& options, const FleetNode& node,
                                     int64_t now_ms);

// The link to a node's own page by a template; empty without one, or when the result would be no http or
// https link to the template's scheme.
std::string FleetNodeUrl(const std::string& pattern, const FleetNode& node);

}  // namespace gpulens
