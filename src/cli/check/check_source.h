// Where the readings of a check come from: a running agent, or one look at the GPUs in this process.
#pragma once

#include <functional>
#include <string>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/check/check_data.h"
#include "plugins/config.h"

namespace gpulens {

// Asks the agent for its page once. `url`: http://HOST:PORT, with user and password where they are needed, or
// the address of the page itself. Blocks at most `patience`.
Result<CheckData> QueryAgent(const std::string& url, Duration timeout);

struct LookOptions {
  bool demo = false;                             // simulated GPUs
  Duration timeout = std::chrono::seconds(10);   // until the first reading
  Duration more = std::chrono::seconds(3);       // after it, while `enough` says no
  std::function<bool(const CheckData&)> enough;  // whether the readings suffice
};
// Runs the collectors and analyzers that the checks need, until their readings suffice or time is up, and
// ends them. The failure of a machine without GPUs is the collectors' own.
Result<CheckData> LookHere(const Config& config, const LookOptions& options);

}  // namespace gpulens
