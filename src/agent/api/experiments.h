// /api/experiments: recorded runs of programs (docs/experiments.md).
#pragma once

#include <string>

#include "agent/api/api.h"
#include "base/clock.h"

namespace gpulens {

// Adds the page. For each request it opens the file that FindDatabase (run_rows.h) names for `database`, as
// the first run may be recorded later. A file that is not there, may not be read
// or is broken is an answer with the reason. Reading ends after `longest` with kExhausted.
void AddExperimentsPage(Api& api, std::string database, Duration longest = std::chrono::milliseconds(500));

}  // namespace gpulens
