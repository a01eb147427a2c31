// The tables of inference records in a PostgreSQL database: those of the file (schema.h), without roll-ups.
//
//   telemetry          a row per call, the file's columns
//   telemetry_poison   records that could not be kept, with the reason
//   telemetry_writer   a row per process that wrote; `batch` counts its transactions
//   telemetry_schema   one row: the version
#pragma once

#include "store/postgres/postgres.h"

namespace gpulens::telemetry {

// Makes what is missing, in one transaction; several programs may do so at once. kDataLoss: there is another
// table of this name. kUnavailable: the tables are of a newer program.
Status PrepareTables(const postgres::Connection& connection);
// For reading alone: kDataLoss when there is no table of inference records.
Status CheckTables(const postgres::Connection& connection);

}  // namespace gpulens::telemetry
