#include "store/telemetry/postgres/server_reader.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/result.h"
#include "store/postgres/postgres.h"
#include "store/telemetry/postgres/server_tables.h"
#include "store/telemetry/row_reader.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary/call_scan.h"
#include "store/telemetry/summary/summed_columns.h"

namespace gpulens::telemetry {
namespace {

constexpr const char* kFetch = "FETCH 4096 FROM calls";

// A query's conditions with the values of their parameters.
struct Where {
  std::string sql = " WHERE true";
  std::vector<std::optional<std::string>> values;

  void And(const std::string& condition, std::string value) {
    values.emplace_back(std::move(value));
    sql += " AND " + condition + "$" + std::to_string(values.size());
  }
  void Time(const std::string& condition, double seconds) {
    if (!std::isfinite(seconds)) return;
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, seconds).ptr;
    And(condition, std::string(digits, end));
    sql += "::float8";
  }
  void Text(const std::string& condition, const std::string& wanted) {
    if (!wanted.empty()) And(condition, wanted);
  }
};

Where Conditions(const Query& query) {
  Where where;
  const TimeRange range = RangeOf(query);
  where.Time("timestamp>=", range.since);
  where.Time("timestamp<=", range.until);
  where.Text("model_id=", query.model);
  where.Text("engine=", query.engine);
  where.Text("agent=", query.agent);
  where.Text("batch_id=", query.batch_id);
  if (query.by == GroupBy::kBatch) where.sql += " AND batch_id<>''";
  if (!query.warmup) where.sql += " AND is_warmup=0";
  if (query.token_counting_version)
    where.sql += " AND token_counting_version=" + std::to_string(*query.token_counting_version);
  return where;
}

// Through a cursor, so that many rows need little memory.
Status Scan(const std::string& url, const std::string& select, const Where& where, const std::string& order,
            const std::function<bool(const Row&)>& on_row) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  RETURN_IF_ERROR(CheckTables(connection));
  RETURN_IF_ERROR(connection.Run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
  RETURN_IF_ERROR(connection.Run(
      "DECLARE calls NO SCROLL CURSOR FOR SELECT " + select + " FROM telemetry" + where.sql + order,
      where.values));
  for (;;) {
    ASSIGN_OR_RETURN(postgres::Rows rows, connection.Query(kFetch));
    if (rows.size() == 0) return Ok();
    const BasicRowReader<postgres::Rows> reader(rows);
    while (rows.Step()) {
      if (!on_row(reader.Read())) return Ok();
    }
  }
}

}  // namespace

Result<std::vector<InferenceSummary>> SummarizePostgres(const std::string& url, const Query& query) {
  std::string columns;
  for (std::string_view name : kSummedColumns) columns += (columns.empty() ? "" : ",") + std::string(name);
  return SummarizeRows(query, [&](const std::function<bool(const Row&)>& on_row) {
    return Scan(url, columns, Conditions(query), "", on_row);
  });
}

Status EachPostgresRow(const std::string& url, const Query& query,
                       const std::function<bool(const Row&)>& on_row) {
  std::string order = query.newest_first ? " ORDER BY timestamp DESC, id DESC" : " ORDER BY timestamp, id";
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  return Scan(url, "*", Conditions(query), order, on_row);
}

Result<uint64_t> CountPostgresRecords(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  ASSIGN_OR_RETURN(const int64_t count, connection.Number("SELECT count(*) FROM telemetry"));
  return static_cast<uint64_t>(count);
}

Result<uint64_t> ClearPostgres(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  RETURN_IF_ERROR(CheckTables(connection));
  ASSIGN_OR_RETURN(const postgres::Rows rows, connection.Query("DELETE FROM telemetry"));
  return rows.changes();
}

Status CheckPostgres(const std::string& url) {
  ASSIGN_OR_RETURN(const postgres::Connection connection, postgres::Connection::Open(url));
  return CheckTables(connection);
}

}  // namespace gpulens::telemetry
