// The file of inference records: creates, finds and upgrades its tables.
//
//   telemetry          a row per call (rows.h), also read and written by openjarvis
//   telemetry_poison   rejected records, with the reason
//   telemetry_writer   a row per writing process; one without an end has crashed
#pragma once

#include <string>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

// user_version of an upgraded file.
inline constexpr int kVersion = 2;  // 1: roll-ups with two ratios instead of four

// A leading "~/" is the home folder. kInvalidArgument: there is none.
Result<std::string> ExpandPath(std::string_view path);

// For reading alone: nothing is changed. kDataLoss: there is no table of inference records in it.
Result<sqlite::Database> OpenToRead(const std::string& path);
// Makes the file where it is missing (0600), and adds the columns, tables and indexes that are, in one
// transaction; its columns keep their order and openjarvis can go on using it. kDataLoss: it is a database of
// something else. `rollup` may be null.
Result<sqlite::Database> OpenToWrite(const std::string& path, Rollup* rollup);

}  // namespace gpulens::telemetry
