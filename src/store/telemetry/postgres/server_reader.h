// Reads inference records out of a PostgreSQL database. Each call makes a connection of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// As those of summary.h; all rows that fit are read, some thousands at once, as they are at one moment.
Result<std::vector<InferenceSummary>> SummarizePostgres(const std::string& url, const Query& query);
// In the order of time, with the columns of the table. False from `on_row`: enough.
Status EachPostgresRow(const std::string& url, const Query& query,
                       const std::function<bool(const Row&)>& on_row);
Result<uint64_t> CountPostgresRecords(const std::string& url);
// Whether it can be read at all.
Status CheckPostgres(const std::string& url);
// Deletes all rows of a table of inference records; how many there were.
Result<uint64_t> ClearPostgres(const std::string& url);

}  // namespace gpulens::telemetry
