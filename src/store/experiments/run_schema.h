// The tables of experiments, and the same tables made of an old file of the zernel project.
//
// The tables are singular (run, param, metric, point, tag, artifact, process); what people ask by SQL are
// views over them with plural names (run_views.h).
#pragma once

#include <string>

#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {

extern const sqlite::Schema kRunSchema;

// Whether the file has the one table of the zernel project and none of ours.
Result<bool> IsOldFile(const sqlite::Database& database);
// Temporary tables with our names and the old file's content; nothing is written to the file. kDataLoss: its
// table is not what we know.
Status MakeTablesOfOldFile(const sqlite::Database& database);

// Temporary, empty ones where the file is of an earlier version, or an old file.
Status AddMissingTables(const sqlite::Database& database);

}  // namespace gpulens::experiments
