// Reads rows of the table `telemetry` one by one, of any file of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/inference.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/summary/rollup_tables.h"

namespace gpulens::telemetry {

// Chooses the roll-ups and rows that cover a time range. Pure.
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

// Time range of a query.
TimeRange RangeOf(const Query& query) noexcept;

struct Selection {
  Plan::Rows part;
  std::span<const std::string_view> columns = {};  // those of them that the file has; empty: all as they are
  std::string order = {};                          // SQL behind the WHERE
};

// The rows that fit the query and the selection. `query` outlives the statement.
Result<sqlite::Statement> SelectRows(const sqlite::Database& database, const Query& query,
                                     const Selection& selection);
// All columns of the rows that fit, as they are in the file, in the order and number that Each has them.
Result<sqlite::Statement> SelectAsTheyAre(const sqlite::Database& database, const Query& query);
// The first as values; columns that the file has not are not known. False from `on_row`: enough.
Status ScanRows(const sqlite::Database& database, const Query& query, const Selection& selection,
                const std::function<bool(const Row&)>& on_row);

}  // namespace gpulens::telemetry
