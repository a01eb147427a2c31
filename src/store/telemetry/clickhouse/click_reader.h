// Reads inference records out of a ClickHouse database.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/clickhouse/clickhouse.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// As those of summary.h; all rows that fit are read as they come, as they are at one moment.
Result<std::vector<InferenceSummary>> SummarizeClick(const std::string& url, const Query& query);
// In the order of time, with the columns of the table. False from `on_row`: enough.
Status EachClickRow(const std::string& url, const Query& query,
                    const std::function<bool(const Row&)>& on_row);
Result<uint64_t> CountClickRecords(const std::string& url);
// Whether it can be read at all.
Status CheckClick(const std::string& url);
// Deletes all rows of a table of inference records; how many there were.
Result<uint64_t> ClearClickRows(const clickhouse::Server& server);

// SQL behind the name of the table; how many rows fit.
Result<uint64_t> CountClickRows(const clickhouse::Server& server, const std::string& where, Duration timeout);
// A number as SQL that reads back as the same one.
std::string ClickNumber(double value);

}  // namespace gpulens::telemetry
