#include "store/telemetry/postgres/server_tables.h"

#include "base/result.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"

namespace gpulens::telemetry {
namespace {

// Whoever makes tables holds this lock ("gpulens" in ASCII).
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
  // Of two failures the first tells more.
  const Status ended = connection.Run(made ? "COMMIT" : "ROLLBACK");
  return made ? ended : made;
}

}  // namespace gpulens::telemetry
