// The tables of inference records in a ClickHouse database, for a URL that names the table NAME:
//
//   NAME          a row per call, the file's columns; writer_id and id tell a row from all others
//   NAME_poison   records that could not be kept, with the reason
//   NAME_writer   a row per process that wrote, of which the newest counts
//
// All are ReplacingMergeTree: a row that came twice is one, for who reads with FINAL at once, for others
// once it is merged.
#pragma once

#include <map>
#include <string>

#include "store/clickhouse/clickhouse.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

struct ClickTable {
  std::string engine;                        // empty: there is no such table
  std::map<std::string, std::string> types;  // by the name of the column
  // Rows are read with FINAL.
  bool replaces() const noexcept { return engine.ends_with("ReplacingMergeTree"); }
};
Result<ClickTable> FindClickTable(const clickhouse::Server& server);

// Of a column as ClickHouse declares it: "Float64".
std::string ClickType(std::string_view declaration);
// Columns() and what stands behind them, with their types, in the order in which a writer sends them.
struct ClickColumn {
  std::string name, type;
};
std::vector<ClickColumn> ClickColumns();

// Makes what is missing, also columns; several programs may do so at once. The types are those of the table,
// which differ from ours in LowCardinality alone. kDataLoss: there is another table of this name.
Result<std::vector<ClickColumn>> PrepareClickTables(const clickhouse::Server& server);
// For reading alone: kDataLoss when there is no table of inference records.
Result<ClickTable> CheckClickTables(const clickhouse::Server& server);

}  // namespace gpulens::telemetry
