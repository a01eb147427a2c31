#include "store/telemetry/summary/rollup_tables.h"

#include "base/result.h"

namespace gpulens::telemetry {
namespace {

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS telemetry_rollup("
    "  span INTEGER NOT NULL, start INTEGER NOT NULL, model_id TEXT NOT NULL, engine TEXT NOT NULL,"
    "  is_warmup INTEGER NOT NULL, sums BLOB NOT NULL,"
    "  PRIMARY KEY(span, start, model_id, engine, is_warmup)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS telemetry_rollup_state("
    "  one INTEGER PRIMARY KEY CHECK(one = 1), covered INTEGER NOT NULL, floor REAL NOT NULL, stale INTEGER "
    "NOT "
    "NULL);"
    "INSERT OR IGNORE INTO telemetry_rollup_state VALUES(1, 0, 0, 0);"
    "CREATE TRIGGER IF NOT EXISTS telemetry_rollup_deleted AFTER DELETE ON telemetry"
    "  WHEN EXISTS(SELECT 1 FROM telemetry_rollup_state WHERE stale = 0 AND OLD.id <= covered"
    "  AND NOT OLD.timestamp < floor) BEGIN UPDATE telemetry_rollup_state SET stale = 1; END;"
    "CREATE TRIGGER IF NOT EXISTS telemetry_rollup_updated AFTER UPDATE ON telemetry"
    "  WHEN EXISTS(SELECT 1 FROM telemetry_rollup_state WHERE stale = 0 AND OLD.id <= covered)"
    "  BEGIN UPDATE telemetry_rollup_state SET stale = 1; END;";

}  // namespace

Result<RollupState> ReadState(const sqlite::Database& database) {
  RollupState state;
  ASSIGN_OR_RETURN(const int64_t tables,
                   database.Number("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN"
                                   " ('telemetry_rollup', 'telemetry_rollup_state')"));
  if (tables != 2) return state;
  ASSIGN_OR_RETURN(sqlite::Statement row,
                   database.Prepare("SELECT covered, floor, stale FROM telemetry_rollup_state"));
  ASSIGN_OR_RETURN(state.there, row.Step());
  if (!state.there) return state;
  state.covered = row.Int(0);
  state.floor = row.Real(1);
  state.stale = row.Int(2) != 0;
  return state;
}

Status MakeRollupTables(const sqlite::Database& database) { return database.Run(kTables); }

Status EmptyRollups(const sqlite::Database& database) {
  return database.Run(
      "DELETE FROM telemetry_rollup;"
      "INSERT OR REPLACE INTO telemetry_rollup_state VALUES(1, 0, 0, 0)");
}

}  // namespace gpulens::telemetry
