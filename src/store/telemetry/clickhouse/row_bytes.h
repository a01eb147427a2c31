// Rows as bytes of ClickHouse's format RowBinaryWithNamesAndTypes: numbers stay what they are, bit by bit,
// and a table whose types have changed refuses them.
#pragma once

#include <span>
#include <string>

#include "store/telemetry/clickhouse/click_tables.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// `columns` are those of PrepareClickTables.
void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns);
void AppendRowBytes(std::string& out, const Row& row, uint64_t id, uint64_t writer_id);

}  // namespace gpulens::telemetry
