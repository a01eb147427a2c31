// Statistics of the records in a file.
#pragma once

#include <memory>
#include <vector>

#include <gpulens/inference.h>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/destination.h"

namespace gpulens::telemetry {

// See InferenceStore::Summarize. `database` is of OpenToRead or OpenToWrite; old files have neither all
// columns nor a roll-up.
Result<std::vector<InferenceSummary>> Summarize(const sqlite::Database& database, const Query& query);
// The same of rows from elsewhere: `scan` calls with each that fits, of the columns kSummedColumns at least.
using RowScan = std::function<Status(const std::function<bool(const Row&)>& on_row)>;
Result<std::vector<InferenceSummary>> SummarizeRows(const Query& query, const RowScan& scan);
// See InferenceStore::Each.
Status EachRecord(const sqlite::Database& database, const Query& query,
                  const std::function<bool(const InferenceRecord&)>& on_record);
// Roll-ups for a writer.
std::unique_ptr<Rollup> MakeRollup();

}  // namespace gpulens::telemetry
