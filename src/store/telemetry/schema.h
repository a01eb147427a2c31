// The file of inference records: creates, finds and upgrades its tables.
//
//   telemetry          a row per call (rows.h), also read and written by openjarvis
//   telemetry_poison   rejected records, with the reason
//   telemetry_writer   a row per writing process; one without an end has crashed
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "store/sqlite/sqlite.h"

namespace gpulens::telemetry {

class RollupWriter;

// user_version of an upgraded file.
inline constexpr int kVersion = 2;  // 1: roll-ups with two ratios instead of four

// Expands a leading "~/". kInvalidArgument: there is no home folder.
Result<std::string> ExpandPath(std::string_view path);

using ColumnNames = std::set<std::string, std::less<>>;
// Columns of the table `telemetry`; empty: there is no such table.
Result<ColumnNames> ColumnsOf(const sqlite::Database& database);

// Opens a file for reading, without changes. kDataLoss: it has no table of inference records. `longest`:
// sqlite::OpenOptions::longest.
Result<sqlite::Database> OpenToRead(const std::string& path,
                                    std::chrono::nanoseconds longest = std::chrono::hours(1));
// Creates a missing file (0600), and missing columns, tables and indexes in one transaction; columns keep
// their order, so that openjarvis can continue to use the file. kDataLoss: it is another kind of database.
// `rollup` may be null. `longest`: of a transaction; deleting all rows of a large file takes minutes.
inline constexpr std::chrono::nanoseconds kLongestWrite = std::chrono::minutes(30);
Result<sqlite::Database> OpenToWrite(const std::string& path, RollupWriter* rollup,
                                     std::chrono::nanoseconds longest = kLongestWrite);

}  // namespace gpulens::telemetry
