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

// The rows of `part` that fit the query. Only `columns`, those of them that the file has; empty: all as they
// are. `order` is SQL behind the WHERE. `query` outlives the statement.
Result<sqlite::Statement> SelectRows(const sqlite::Database& database, const Plan::Rows& part,
                                     const Query& query, std::span<const std::string_view> columns,
                                     const std::string& order);
// The same as values; columns that the file has not are not known. False from `on_row`: enough.
Status ScanRows(const sqlite::Database& database, const Plan::Rows& part, const Query& query,
                std::span<const std::string_view> columns, const std::string& order,
                const std::function<bool(const Row&)>& on_row);

}  // namespace gpulens::telemetry
