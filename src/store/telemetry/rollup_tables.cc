#include "store/telemetry/rollup_tables.h"

#include <cmath>
#include <vector>

#include "base/result.h"
#include "store/telemetry/summary.h"

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
    "  WHEN EXISTS(SELECT 1 FROM telemetry_rollup_state WHERE stale = 0 AND NOT OLD.timestamp < floor) BEGIN "
    "UPDATE telemetry_rollup_state SET stale = 1; END;"
    "CREATE TRIGGER IF NOT EXISTS telemetry_rollup_updated AFTER UPDATE ON telemetry"
    "  WHEN EXISTS(SELECT 1 FROM telemetry_rollup_state WHERE stale = 0)"
    "  BEGIN UPDATE telemetry_rollup_state SET stale = 1; END;";

// Rows that can never be rolled up, of a file with invalid times.
constexpr const char* kNever = "UPDATE telemetry_rollup_state SET stale = 2";

constexpr const char* kMarkStale = "UPDATE telemetry_rollup_state SET stale = 1";

Result<int64_t> StaleOf(const sqlite::Database& database) {
  return database.Number("SELECT stale FROM telemetry_rollup_state");
}

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

Status EmptyRollups(const sqlite::Database& database) {
  return database.Run(
      "DELETE FROM telemetry_rollup;"
      "INSERT OR REPLACE INTO telemetry_rollup_state VALUES(1, 0, 0, 0)");
}

void RollupWriter::Pending::Add(int64_t id, const RecordRow& row) {
  if (rows++ == 0) first = id;
  last = id;
  const double time = row.numbers.timestamp;
  bad_time = bad_time || !IsTime(time);
  if (bad_time) return;
  Key key(StartOf(time, kMinute), row.text(TextColumn::kModel), row.text(TextColumn::kEngine),
          row.numbers.is_warmup != 0);
  sums[std::move(key)].Add(row);
}

Status RollupWriter::Write(const sqlite::Database& database, int64_t before) {
  stored_ = false;
  const int64_t last = std::max(before, pending_.last);
  ASSIGN_OR_RETURN(RollupState state, ReadState(database));
  if (!state.there) return Ok();
  if (state.stale) {
    ASSIGN_OR_RETURN(const int64_t stale, StaleOf(database));
    if (stale == 2) return Ok();
    RETURN_IF_ERROR(EmptyRollups(database));
    state.covered = 0;
    pending_ = {};  // of rows that may be gone
  }
  if (last - state.covered < kWaiting) return Ok();
  // Pending rows are all that is not covered, or another writer was first.
  if (pending_.first == state.covered + 1 && pending_.rows == last - state.covered) {
    stored_ = true;
    return Store(database, pending_, last);
  }
  stored_ = true;
  return CatchUp(database, kMostAtOnce).status();
}

Status RollupWriter::Prepare(const sqlite::Database& database) { return database.Run(kTables); }

void RollupWriter::Done(bool committed) noexcept {
  // Pending rows were rolled back or stored.
  if (!committed || stored_) pending_ = {};
  stored_ = false;
}

Result<bool> RollupWriter::IsBehind(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(const RollupState state, ReadState(database));
  if (!state.there) return false;
  if (state.stale) {
    ASSIGN_OR_RETURN(const int64_t stale, StaleOf(database));
    return stale != 2;
  }
  ASSIGN_OR_RETURN(const int64_t last, database.Number("SELECT coalesce(max(id),0) FROM telemetry"));
  return last - state.covered >= kWaiting;
}

Result<bool> RollupWriter::CatchUp(const sqlite::Database& database, size_t rows) {
  ASSIGN_OR_RETURN(RollupState state, ReadState(database));
  if (!state.there) return false;
  if (state.stale) {
    ASSIGN_OR_RETURN(const int64_t stale, StaleOf(database));
    if (stale == 2) return false;
    RETURN_IF_ERROR(EmptyRollups(database));
    state.covered = 0;
    pending_ = {};  // of rows that may be gone
  }
  Pending read;
  Query all;
  all.warmup = true;
  const ScanPlan::Rows part{.above = std::max<int64_t>(state.covered, 0), .any_time = true};
  std::vector<std::string_view> columns(std::begin(kSummedColumns), std::end(kSummedColumns));
  columns.insert(columns.begin(), "id");
  ASSIGN_OR_RETURN(
      sqlite::Statement next,
      SelectRows(database, all,
                 {.part = part, .columns = columns, .order = " ORDER BY id LIMIT " + std::to_string(rows)}));
  const RowReader reader(next);
  RETURN_IF_ERROR(next.Each([&] { read.Add(next.Int(0), reader.Read()); }));
  if (read.rows == 0) return false;
  RETURN_IF_ERROR(Store(database, read, read.last));
  return read.rows == static_cast<int64_t>(rows);
}

Status RollupWriter::Store(const sqlite::Database& database, const Pending& pending, int64_t covered) {
  if (pending.bad_time) return database.Run(kNever);
  // Hours and days from minutes, so that a row is added up once.
  std::map<std::pair<int64_t, Key>, CallSums> wide;
  for (const auto& [key, sums] : pending.sums) {
    for (int64_t span : kSpans) {
      Key at = key;
      std::get<0>(at) = std::get<0>(key) / span * span;
      wide[{span, std::move(at)}].Merge(sums);
    }
  }
  ASSIGN_OR_RETURN(
      sqlite::Statement there,
      database.Prepare("SELECT sums FROM telemetry_rollup WHERE span=? AND start=? AND model_id=? AND"
                       " engine=? AND is_warmup=?"));
  ASSIGN_OR_RETURN(sqlite::Statement put,
                   database.Prepare("INSERT OR REPLACE INTO telemetry_rollup VALUES(?,?,?,?,?,?)"));
  const auto bind = [](sqlite::Statement& statement,
                       const std::pair<int64_t, Key>& key) -> sqlite::Statement& {
    const auto& [start, model, engine, warmup] = key.second;
    return statement.BindAll(key.first, start, std::string_view(model), std::string_view(engine),
                             int64_t{warmup});
  };
  for (auto& [key, sums] : wide) {
    ASSIGN_OR_RETURN(const bool found, bind(there, key).Step());
    // A broken roll-up does not stop writers: the next write rebuilds all.
    if (found && !sums.MergeBytes(there.Text(0))) return database.Run(kMarkStale);
    there.Reset();
    std::string bytes;
    sums.AppendBytes(bytes);
    RETURN_IF_ERROR(bind(put, key).BindBlob(6, bytes).Execute());
  }
  return database.Run("UPDATE telemetry_rollup_state SET covered=" + std::to_string(covered));
}

Status RollupWriter::Forget(const sqlite::Database& database, double timestamp) {
  ASSIGN_OR_RETURN(const RollupState state, ReadState(database));
  if (!state.there) return Ok();
  if (!std::isfinite(timestamp)) {
    pending_ = {};
    return EmptyRollups(database);  // stale by what is deleted now, of which the next write makes nothing
  }
  RETURN_IF_ERROR(database.Execute("DELETE FROM telemetry_rollup WHERE start<?", timestamp));
  return database.Execute("UPDATE telemetry_rollup_state SET floor=max(floor,?)", timestamp);
}

}  // namespace gpulens::telemetry
