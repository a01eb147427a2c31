// Which roll-ups and which rows answer a question about a span of time. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "store/telemetry/summary/rollup_tables.h"

namespace gpulens::telemetry {

// Seconds since 1970, both ends included; infinite: open.
struct TimeRange {
  double since = 0, until = 0;
};

struct Plan {
  struct Rollups {  // of one span; starts from `from` on, before `to`
    int64_t span = 0, from = 0, to = 0;
  };
  struct Rows {  // since <= timestamp < until, or <= where `last`; only ids above `above`
    double since = 0, until = 0;
    bool last = false;
    int64_t above = 0;
    bool any_time = false;  // no condition on the time, and so rows that have none, too
  };
  std::vector<Rollups> rollups;
  std::vector<Rows> rows;
};

// Each row and each roll-up is in one part at most, and all parts together are the range. No roll-up is wider
// than `widest` seconds; 0: rows alone.
Plan MakePlan(const TimeRange& range, const RollupState& state, int64_t widest);

}  // namespace gpulens::telemetry
