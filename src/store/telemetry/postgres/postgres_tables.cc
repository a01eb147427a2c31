#include "store/telemetry/postgres/postgres_tables.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/result.h"
#include "store/postgres/postgres.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary/call_scan.h"
#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {
namespace {

// Lock held while tables are made ("gpulens" in ASCII).
constexpr const char* kLock = "SELECT pg_advisory_xact_lock(29114480594577011)";

constexpr const char* kColumnsThere =
    "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('telemetry') AND NOT attisdropped AND "
    "attname IN ('timestamp', 'model_id', 'measured')";
constexpr const char* kTableThere = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('telemetry')";

constexpr const char* kOtherTables[] = {
    "CREATE TABLE IF NOT EXISTS telemetry_poison(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "unix_ns BIGINT NOT NULL, reason TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS telemetry_writer(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "host TEXT NOT NULL, place TEXT NOT NULL, pid BIGINT NOT NULL, start_ticks BIGINT NOT NULL, "
    "started_ns BIGINT NOT NULL, flushed_ns BIGINT NOT NULL, stored BIGINT NOT NULL DEFAULT 0, "
    "rejected BIGINT NOT NULL DEFAULT 0, dropped BIGINT NOT NULL DEFAULT 0, batch BIGINT NOT NULL DEFAULT 0, "
    "ended_ns BIGINT, outcome TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX IF NOT EXISTS telemetry_by_time ON telemetry(timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_model ON telemetry(model_id, timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_engine ON telemetry(engine, timestamp)",
    "CREATE INDEX IF NOT EXISTS telemetry_by_batch ON telemetry(batch_id, timestamp) WHERE batch_id <> ''",
    "CREATE TABLE IF NOT EXISTS telemetry_schema(version BIGINT NOT NULL)",
};

// SQLite's REAL and INTEGER have 64 bits; PostgreSQL's 32.
std::string Declare(std::string_view name, std::string_view declaration) {
  std::string sql = "\"" + std::string(name) + "\" ";
  for (auto [theirs, ours] : {std::pair<std::string_view, const char*>{"REAL", "DOUBLE PRECISION"},
                              std::pair<std::string_view, const char*>{"INTEGER", "BIGINT"}}) {
    if (declaration.starts_with(theirs)) return sql + ours + std::string(declaration.substr(theirs.size()));
  }
  return sql + std::string(declaration);
}

std::string CreateTable() {
  std::string sql = "CREATE TABLE telemetry(id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
  for (const Column& column : Columns()) sql += ", " + Declare(column.name, column.declaration);
  return sql + ", " + Declare("outcome", kOutcomeDeclaration) + ", " +
         Declare("measured", kMeasuredDeclaration) + ")";
}

// nullopt: there are no tables as yet.
Result<std::optional<int64_t>> VersionOf(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(
      const int64_t there,
      connection.Number("SELECT count(*) FROM pg_class WHERE oid = to_regclass('telemetry_schema')"));
  if (there == 0) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t version, connection.Number("SELECT max(version) FROM telemetry_schema"));
  return std::optional(version);
}

Status MakeTables(const postgres::Connection& connection) {
  RETURN_IF_ERROR(connection.Run(kLock));
  ASSIGN_OR_RETURN(const std::optional<int64_t> version, VersionOf(connection));
  if (version) return Ok();  // another program was quicker
  ASSIGN_OR_RETURN(const int64_t there, connection.Number(kTableThere));
  if (there > 0) RETURN_IF_ERROR(CheckTables(connection));
  else RETURN_IF_ERROR(connection.Run(CreateTable()));
  for (const char* statement : kOtherTables) RETURN_IF_ERROR(connection.Run(statement));
  return connection.Run("INSERT INTO telemetry_schema VALUES(" + std::to_string(kVersion) + ")");
}

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

Status CheckTables(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(const int64_t columns, connection.Number(kColumnsThere));
  if (columns == 3) return Ok();
  return {Code::kDataLoss, "the database has no table `telemetry` of inference records"};
}

Status PrepareTables(const postgres::Connection& connection) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> version, VersionOf(connection));
  if (version && *version > kVersion)
    return {Code::kUnavailable, "the tables are of a newer program: version " + std::to_string(*version)};
  if (version) return CheckTables(connection);
  RETURN_IF_ERROR(connection.Run("BEGIN"));
  const Status made = MakeTables(connection);
  // The first of two errors is more specific.
  const Status ended = connection.Run(made ? "COMMIT" : "ROLLBACK");
  return made ? ended : made;
}

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
