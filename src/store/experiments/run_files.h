// Paths and IDs of experiments.
//
//   ~/.gpulens/experiments.db                  or the file of $GPULENS_EXPERIMENTS_DB or --db
//   ~/.gpulens/runs/ID/output.log              output of a run, next to the file
//   ~/.gpulens/runs/ID/artifacts/NAME
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {

inline constexpr size_t kMostKeyBytes = 250;        // of a metric, a param, a tag: MLflow's bound
inline constexpr size_t kMostTextBytes = 64 << 10;  // of a param's or tag's text
inline constexpr size_t kMostIdBytes = 64;

// `given`, else the variable, else the file below the home folder; a leading ~/ is the home folder.
// kInvalidArgument: there is no home folder.
Result<std::string> FindDatabase(std::string_view given);

// exp-YYYYMMDD-HHMMSS-<8 hexadecimal digits>, of UTC and of chance.
std::string MakeRunId(int64_t unix_ns);
// Letters, digits, `.`, `_` and `-`, not first a dot: an id is a folder, too.
bool IsRunId(std::string_view text) noexcept;
// 1 to kMostKeyBytes of UTF-8 without control bytes.
bool IsKey(std::string_view text) noexcept;

// Folder of a run next to its file. `old`: a file of the zernel project.
std::string RunFolder(const std::string& database, std::string_view id, bool old = false);
std::string LogPath(const std::string& database, std::string_view id, bool old = false);

// Schema of the file of experiments, and the same tables made from an old file of the zernel project. Table
// names are singular; the views for SQL queries (run_query.h) have plural names.
extern const sqlite::Schema kRunSchema;

// Whether the file has the one table of the zernel project and none of ours.
Result<bool> IsOldFile(const sqlite::Database& database);
// Temporary tables with our names and the old file's content; nothing is written to the file. kDataLoss: its
// table is not what we know.
Status MakeTablesOfOldFile(const sqlite::Database& database);

// Temporary, empty ones where the file is of an earlier version, or an old file.
Status AddMissingTables(const sqlite::Database& database);

}  // namespace gpulens::experiments
