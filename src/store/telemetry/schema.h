// The file of inference records: its tables, made, found or brought up to date.
//
//   telemetry          a row per call (rows.h); openjarvis goes on reading and writing it
//   telemetry_poison   records that could not be kept, with the reason
//   telemetry_writer   a row per process that wrote: one that never closed tells of a crash
#pragma once

#include <string>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/rollup.h"

namespace gpulens::telemetry {

// What user_version is of a file that was brought up to date.
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
