// Tables of inference records in a ClickHouse database, for a URL that names the table NAME:
//
//   NAME          a row per call with the file's columns; writer_id and id identify it
//   NAME_poison   rejected records, with the reason
//   NAME_writer   rows per writing process, of which the newest counts
//
// All are ReplacingMergeTree: repeated rows count once, for readers with FINAL at once, for others after a
// merge.
#pragma once

#include <map>
#include <span>
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

// Type of a column in ClickHouse: "Float64".
std::string ClickType(std::string_view declaration);
// Columns() and the additional ones, with their types, in the order in which a writer sends them.
struct ClickColumn {
  std::string name, type;
};
std::vector<ClickColumn> ClickColumns();

// Makes what is missing, also columns; several programs may do so at once. The types are those of the table,
// which differ from ours in LowCardinality alone. kDataLoss: there is another table of this name.
Result<std::vector<ClickColumn>> PrepareClickTables(const clickhouse::Server& server);
// For reading alone: kDataLoss when there is no table of inference records.
Result<ClickTable> CheckClickTables(const clickhouse::Server& server);

// Rows as bytes of ClickHouse's format RowBinaryWithNamesAndTypes: numbers stay what they are, bit by bit,
// and a table whose types have changed refuses them.
// `columns` are those of PrepareClickTables.
void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns);
void AppendRowBytes(std::string& out, const Row& row, uint64_t id, uint64_t writer_id);

}  // namespace gpulens::telemetry
