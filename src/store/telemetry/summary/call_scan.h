// Reads rows of the table `telemetry` one by one, of any file of it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/inference.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/summary/plan.h"

namespace gpulens::telemetry {

// Of a question, but for how it is grouped. Infinite where nothing was asked.
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
