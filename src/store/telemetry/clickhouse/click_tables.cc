#include "store/telemetry/clickhouse/click_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/result.h"
#include "store/clickhouse/tab_rows.h"

namespace gpulens::telemetry {
namespace {

using clickhouse::NameQuoted;
using clickhouse::Quoted;

// Number of recent inserts that a table remembers, so that a repeated one is not stored. Replicated tables
// ignore it and remember by themselves.
constexpr const char* kRemember = " SETTINGS non_replicated_deduplication_window=1000";
constexpr std::string_view kEssential[] = {"timestamp", "model_id", "measured"};
// Few different texts.
constexpr std::string_view kLowCardinality[] = {"model_id", "engine", "agent", "energy_method",
                                                "energy_vendor"};

std::string_view WithoutLowCardinality(std::string_view type) noexcept {
  constexpr std::string_view kBegin = "LowCardinality(";
  if (!type.starts_with(kBegin) || !type.ends_with(')')) return type;
  return type.substr(kBegin.size(), type.size() - kBegin.size() - 1);
}

std::string Declare(const ClickColumn& column) {
  std::string sql = NameQuoted(column.name) + " " + column.type;
  // A column that a table did not have: rows that are there have no metadata.
  return column.name == "metadata" ? sql + " DEFAULT '{}'" : sql;
}

std::string CreateTable(const std::string& name) {
  std::string sql = "CREATE TABLE IF NOT EXISTS " + NameQuoted(name) + "(";
  for (const ClickColumn& column : ClickColumns()) sql += Declare(column) + ", ";
  return sql +
         "CONSTRAINT metadata_is_json CHECK isValidJSON(metadata)) ENGINE=ReplacingMergeTree "
         "ORDER BY (timestamp, writer_id, id)" +
         kRemember;
}

std::string CreatePoison(const std::string& name) {
  return "CREATE TABLE IF NOT EXISTS " + NameQuoted(name + "_poison") +
         "(writer_id UInt64, id UInt64, unix_ns Int64, reason String, record String) "
         "ENGINE=ReplacingMergeTree ORDER BY (writer_id, id)" +
         kRemember;
}

std::string CreateWriter(const std::string& name) {
  return "CREATE TABLE IF NOT EXISTS " + NameQuoted(name + "_writer") +
         "(id UInt64, host String, place String, pid Int64, start_ticks Int64, started_ns Int64, "
         "flushed_ns Int64, stored UInt64, rejected UInt64, dropped UInt64, ended_ns Nullable(Int64), "
         "outcome String) ENGINE=ReplacingMergeTree(flushed_ns) ORDER BY id" +
         kRemember;
}

// The first column of all rows, with the second.
Result<std::map<std::string, std::string>> Pairs(const clickhouse::Server& server, const std::string& sql) {
  std::map<std::string, std::string> pairs;
  clickhouse::TabRows rows;
  ASSIGN_OR_RETURN(const std::string answer, server.Query(sql + " FORMAT TabSeparatedWithNames"));
  RETURN_IF_ERROR(rows.Feed(answer, [&] {
    if (rows.columns() != 2) return Status{Code::kDataLoss, "unexpected response of the server"};
    pairs.emplace(rows.Text(0), rows.Text(1));
    return Ok();
  }));
  RETURN_IF_ERROR(rows.End());
  return pairs;
}

Status NotOurs(const clickhouse::Server& server, const std::string& why) {
  return {Code::kDataLoss, "the table `" + server.address().table + "` " + why};
}

Status CheckColumns(const clickhouse::Server& server, const ClickTable& table) {
  const bool ours = std::ranges::all_of(
      kEssential, [&](std::string_view name) { return table.types.contains(std::string(name)); });
  return ours ? Ok() : NotOurs(server, "is not a table of inference records");
}

static_assert(std::endian::native == std::endian::little, "the format is");

template <class Number>
void AppendNumber(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

// LEB128.
void AppendLength(std::string& out, size_t length) {
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7F));
  out += static_cast<char>(length);
}

void AppendText(std::string& out, std::string_view text) {
  AppendLength(out, text.size());
  out += text;
}

bool Nullable(std::string_view declaration) noexcept {
  return declaration.find("NOT NULL") == std::string_view::npos;
}

// Appends the flag of a column that may be NULL; unknown values of other columns are marked in `measured`.
bool AppendNullFlag(std::string& out, bool known, std::string_view declaration) {
  if (!Nullable(declaration)) return true;
  out += known ? '\0' : '\1';
  return known;
}

void AppendValue(std::string& out, const Column& column, const Row& row) {
  if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
    const double value = row.numbers.*(*real);
    if (AppendNullFlag(out, !std::isnan(value), column.declaration))
      AppendNumber(out, std::isnan(value) ? 0.0 : value);
  } else if (const auto* whole = std::get_if<int64_t Numbers::*>(&column.at)) {
    const int64_t value = row.numbers.*(*whole);
    if (AppendNullFlag(out, value != kNoCount, column.declaration))
      AppendNumber(out, value == kNoCount ? 0 : value);
  } else {
    const TextColumn which = std::get<TextColumn>(column.at);
    const std::string_view text = row.text(which);
    if (!AppendNullFlag(out, !text.empty(), column.declaration)) return;
    AppendText(out, text.empty() && which == TextColumn::kMetadata ? "{}" : text);
  }
}

}  // namespace

std::string ClickType(std::string_view declaration) {
  const std::string type = declaration.starts_with("REAL")      ? "Float64"
                           : declaration.starts_with("INTEGER") ? "Int64"
                                                                : "String";
  return declaration.find("NOT NULL") == std::string_view::npos ? "Nullable(" + type + ")" : type;
}

std::vector<ClickColumn> ClickColumns() {
  std::vector<ClickColumn> columns = {{"id", "UInt64"}};
  for (const Column& column : Columns()) {
    std::string type = ClickType(column.declaration);
    if (std::ranges::find(kLowCardinality, column.name) != std::end(kLowCardinality))
      type = "LowCardinality(" + type + ")";
    columns.push_back({std::string(column.name), std::move(type)});
  }
  columns.push_back({"outcome", ClickType(kOutcomeDeclaration)});
  columns.push_back({"measured", ClickType(kMeasuredDeclaration)});
  columns.push_back({"writer_id", "UInt64"});
  return columns;
}

Result<ClickTable> FindClickTable(const clickhouse::Server& server) {
  const std::string name = Quoted(server.address().table);
  ClickTable table;
  ASSIGN_OR_RETURN(
      const auto engines,
      Pairs(server,
            "SELECT name, engine FROM system.tables WHERE database=currentDatabase() AND name=" + name));
  if (engines.empty()) return table;
  table.engine = engines.begin()->second;
  ASSIGN_OR_RETURN(table.types, Pairs(server,
                                      "SELECT name, type FROM system.columns WHERE "
                                      "database=currentDatabase() AND table=" +
                                          name));
  return table;
}

Result<ClickTable> CheckClickTables(const clickhouse::Server& server) {
  ASSIGN_OR_RETURN(ClickTable table, FindClickTable(server));
  if (table.engine.empty()) return NotOurs(server, "does not exist");
  RETURN_IF_ERROR(CheckColumns(server, table));
  return table;
}

Result<std::vector<ClickColumn>> PrepareClickTables(const clickhouse::Server& server) {
  const std::string& name = server.address().table;
  std::vector<ClickColumn> columns = ClickColumns();
  ASSIGN_OR_RETURN(ClickTable table, FindClickTable(server));
  if (table.engine.empty()) {
    RETURN_IF_ERROR(server.Run(CreateTable(name)));
    // Another program may have been quicker.
    ASSIGN_OR_RETURN(table, FindClickTable(server));
  }
  RETURN_IF_ERROR(CheckColumns(server, table));
  if (!table.replaces())
    return NotOurs(server, "has the engine " + table.engine + "; it needs ReplacingMergeTree");
  for (ClickColumn& column : columns) {
    const auto found = table.types.find(column.name);
    if (found == table.types.end()) {
      RETURN_IF_ERROR(
          server.Run("ALTER TABLE " + NameQuoted(name) + " ADD COLUMN IF NOT EXISTS " + Declare(column)));
    } else if (WithoutLowCardinality(found->second) != WithoutLowCardinality(column.type)) {
      return NotOurs(server, "has " + found->second + " as " + column.name + "; it needs " + column.type);
    } else {
      column.type = found->second;
    }
  }
  RETURN_IF_ERROR(server.Run(CreatePoison(name)));
  RETURN_IF_ERROR(server.Run(CreateWriter(name)));
  return columns;
}

void AppendRowHeader(std::string& out, std::span<const ClickColumn> columns) {
  AppendLength(out, columns.size());
  for (const ClickColumn& column : columns) AppendText(out, column.name);
  for (const ClickColumn& column : columns) AppendText(out, column.type);
}

void AppendRowBytes(std::string& out, const Row& row, uint64_t id, uint64_t writer_id) {
  AppendNumber(out, id);
  for (const Column& column : Columns()) AppendValue(out, column, row);
  AppendNullFlag(out, true, kOutcomeDeclaration);
  AppendText(out, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  AppendNullFlag(out, true, kMeasuredDeclaration);
  AppendNumber(out, MeasuredMask(row));
  AppendNumber(out, writer_id);
}

}  // namespace gpulens::telemetry
