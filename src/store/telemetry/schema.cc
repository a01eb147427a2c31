#include "store/telemetry/schema.h"

#include <cstdlib>

#include "base/result.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {
namespace {

// Readers recognize a file by its columns; the version protects it from older programs.
constexpr const char* kSteps[] = {"", ""};
constexpr sqlite::Schema kSchema{.application_id = 0, .steps = kSteps, .count = kVersion};

constexpr const char* kOtherTables =
    "CREATE TABLE IF NOT EXISTS telemetry_poison("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, unix_ns INTEGER NOT NULL, reason TEXT NOT NULL, record TEXT NOT "
    "NULL);"
    "CREATE TABLE IF NOT EXISTS telemetry_writer("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT NOT NULL, place TEXT NOT NULL, pid INTEGER NOT NULL,"
    "  start_ticks INTEGER NOT NULL, started_ns INTEGER NOT NULL, flushed_ns INTEGER NOT NULL,"
    "  stored INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL "
    "DEFAULT 0,"
    "  ended_ns INTEGER, outcome TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX IF NOT EXISTS telemetry_by_time ON telemetry(timestamp);"
    "CREATE INDEX IF NOT EXISTS telemetry_by_model ON telemetry(model_id, timestamp);"
    "CREATE INDEX IF NOT EXISTS telemetry_by_engine ON telemetry(engine, timestamp);"
    "CREATE INDEX IF NOT EXISTS telemetry_by_batch ON telemetry(batch_id, timestamp) WHERE batch_id != '';";

Status Foreign(const sqlite::Database& database) {
  return {Code::kDataLoss, database.path() + " is a database, but not one of inference records"};
}

std::string Declare(std::string_view name, std::string_view declaration) {
  return sqlite::Quoted(name) + " " + std::string(declaration);
}

std::string CreateTable() {
  std::string sql = "CREATE TABLE telemetry(\"id\" INTEGER PRIMARY KEY AUTOINCREMENT";
  for (const RecordColumn& column : RecordColumns()) sql += ", " + Declare(column.name, column.declaration);
  return sql + ", " + Declare("outcome", kOutcomeDeclaration) + ", " +
         Declare("measured", kMeasuredDeclaration) + ")";
}

// Adding a column writes the table's head, not its rows.
Status AddMissing(const sqlite::Database& database, const ColumnNames& there) {
  const auto add = [&](std::string_view name, std::string_view declaration) {
    if (there.contains(name)) return Ok();
    return database.Run("ALTER TABLE telemetry ADD COLUMN " + Declare(name, declaration));
  };
  for (const RecordColumn& column : RecordColumns()) RETURN_IF_ERROR(add(column.name, column.declaration));
  RETURN_IF_ERROR(add("outcome", kOutcomeDeclaration));
  return add("measured", kMeasuredDeclaration);
}

// Roll-ups of version 1 are rebuilt by the next write; until then the rows are read.
Status RetireRollups(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(const int64_t there,
                   database.Number("SELECT count(*) FROM sqlite_master WHERE name='telemetry_rollup_state'"));
  if (there == 0) return Ok();
  return database.Run("UPDATE telemetry_rollup_state SET stale=1 WHERE stale=0");
}

Status BringUp(const sqlite::Database& database, RollupWriter* rollup) {
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database));
  ASSIGN_OR_RETURN(const int64_t version, sqlite::CheckVersion(database, kSchema));
  ASSIGN_OR_RETURN(const auto columns, ColumnsOf(database));
  if (columns.empty()) {
    ASSIGN_OR_RETURN(const int64_t others, database.Number("SELECT count(*) FROM sqlite_master"));
    if (others > 0) return Foreign(database);
    RETURN_IF_ERROR(database.Run(CreateTable()));
  } else {
    if (!columns.contains("timestamp") || !columns.contains("model_id")) return Foreign(database);
    RETURN_IF_ERROR(AddMissing(database, columns));
  }
  RETURN_IF_ERROR(database.Run(kOtherTables));
  if (version == 1) RETURN_IF_ERROR(RetireRollups(database));
  if (rollup) RETURN_IF_ERROR(rollup->Prepare(database));
  RETURN_IF_ERROR(database.Run("PRAGMA user_version=" + std::to_string(kVersion)));
  return change.Commit();
}

}  // namespace

Result<ColumnNames> ColumnsOf(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(sqlite::Statement statement,
                   database.Prepare("SELECT name FROM pragma_table_info('telemetry')"));
  ColumnNames names;
  RETURN_IF_ERROR(statement.Each([&] { names.emplace(statement.Text(0)); }));
  return names;
}

Result<std::string> ExpandPath(std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) return std::string(path);
  const char* home = std::getenv("HOME");
  if (!home || !*home)
    return Status{Code::kInvalidArgument, "there is no home folder for " + std::string(path)};
  return home + std::string(path.substr(1));
}

Result<sqlite::Database> OpenToRead(const std::string& path, std::chrono::nanoseconds longest) {
  ASSIGN_OR_RETURN(
      sqlite::Database database,
      sqlite::Database::Open({.path = path, .read_only = true, .longest = longest, .bound_memory = false}));
  ASSIGN_OR_RETURN(const auto columns, ColumnsOf(database));
  if (!columns.contains("timestamp") || !columns.contains("model_id")) return Foreign(database);
  return database;
}

Result<sqlite::Database> OpenToWrite(const std::string& path, RollupWriter* rollup,
                                     std::chrono::nanoseconds longest) {
  // A crash of the machine may lose the last seconds, which openjarvis accepts, too; one of the program loses
  // nothing that was written.
  ASSIGN_OR_RETURN(sqlite::Database database, sqlite::Database::Open({.path = path,
                                                                      .mode = 0600,
                                                                      .cache_kib = 4096,
                                                                      .durable = false,
                                                                      .longest = longest,
                                                                      .bound_memory = false}));
  RETURN_IF_ERROR(BringUp(database, rollup));
  return database;
}

}  // namespace gpulens::telemetry
