// Statistics of the records in a file, and scans of its rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/inference.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Seconds since 1970, both ends included; infinite: open.
struct TimeRange {
  double since = 0, until = 0;
};

// The roll-ups and rows that cover a time range.
struct ScanPlan {
  struct Rollups {  // of one span, with starts in [from, to)
    int64_t span = 0, from = 0, to = 0;
  };
  struct Rows {  // since <= timestamp < until, or <= where `last`; only ids above `above`
    double since = 0, until = 0;
    bool last = false;
    int64_t above = 0;
    bool any_time = false;  // no condition on the time; includes rows without one
  };
  std::vector<Rollups> rollups;
  std::vector<Rows> rows;
};

// Divides the range into parts: each row and each roll-up is in at most one. No roll-up is wider than
// `widest` seconds; 0: rows only.
ScanPlan MakePlan(const TimeRange& range, const RollupState& state, int64_t widest);

// Time range of a query.
TimeRange RangeOf(const Query& query) noexcept;

struct RowSelection {
  ScanPlan::Rows part;
  std::span<const std::string_view> columns = {};  // missing ones are skipped; empty: all of the file
  std::string order = {};                          // SQL after the conditions
};

// The rows that fit the query and the selection. `query` outlives the statement.
Result<sqlite::Statement> SelectRows(const sqlite::Database& database, const Query& query,
                                     const RowSelection& selection);
// All columns of the file for the rows that fit, in the order and up to the limit of the query.
Result<sqlite::Statement> SelectAllColumns(const sqlite::Database& database, const Query& query);
// Calls `on_row` for each row of SelectRows until it returns false. Missing columns are unknown.
Status ScanRows(const sqlite::Database& database, const Query& query, const RowSelection& selection,
                const std::function<bool(const RecordRow&)>& on_row);

// See InferenceStore::Summarize. `database` is of OpenToRead or OpenToWrite; old files have neither all
// columns nor a roll-up.
Result<std::vector<InferenceSummary>> Summarize(const sqlite::Database& database, const Query& query);
// The same for other sources of rows: `scan` calls `on_row` with each row that fits the query, with at least
// the columns kSummedColumns.
using RowScan = std::function<Status(const std::function<bool(const RecordRow&)>& on_row)>;
Result<std::vector<InferenceSummary>> SummarizeRows(const Query& query, const RowScan& scan);
// See InferenceStore::Each.
Status EachRecord(const sqlite::Database& database, const Query& query,
                  const std::function<bool(const InferenceRecord&)>& on_record);

}  // namespace gpulens::telemetry
