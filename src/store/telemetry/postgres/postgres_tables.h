// The tables of inference records in a PostgreSQL database: those of the file (schema.h), without roll-ups.
//
//   telemetry          a row per call, the file's columns
//   telemetry_poison   records that could not be kept, with the reason
//   telemetry_writer   a row per process that wrote; `batch` counts its transactions
//   telemetry_schema   one row: the version
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/inference.h>

#include "store/postgres/postgres.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Makes what is missing, in one transaction; several programs may do so at once. kDataLoss: there is another
// table of this name. kUnavailable: the tables are of a newer program.
Status PrepareTables(const postgres::Connection& connection);
// For reading alone: kDataLoss when there is no table of inference records.
Status CheckTables(const postgres::Connection& connection);

// Reads inference records out of a PostgreSQL database. Each call makes a connection of its own.
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
