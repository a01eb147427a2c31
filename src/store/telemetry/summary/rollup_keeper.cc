#include "store/telemetry/summary/rollup_keeper.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/result.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary/call_scan.h"
#include "store/telemetry/summary/summed_columns.h"

namespace gpulens::telemetry {
namespace {

// What cannot be rolled up never is: of a file with times that are none.
constexpr const char* kNever = "UPDATE telemetry_rollup_state SET stale = 2";

constexpr const char* kAnew = "UPDATE telemetry_rollup_state SET stale = 1";

Result<int64_t> StaleOf(const sqlite::Database& database) {
  return database.Number("SELECT stale FROM telemetry_rollup_state");
}

}  // namespace

void RollupKeeper::Pending::Add(int64_t id, const Row& row) {
  if (rows++ == 0) first = id;
  last = id;
  const double time = row.numbers.timestamp;
  bad_time = bad_time || !IsTime(time);
  if (bad_time) return;
  Key key(StartOf(time, kMinute), row.text(TextColumn::kModel), row.text(TextColumn::kEngine),
          row.numbers.is_warmup != 0);
  sums[std::move(key)].Add(row);
}

Status RollupKeeper::Prepare(const sqlite::Database& database) { return MakeRollupTables(database); }

void RollupKeeper::Add(int64_t id, const Row& row) { pending_.Add(id, row); }

Status RollupKeeper::Write(const sqlite::Database& database, int64_t before) {
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
  // What waits here is all that is not covered, or else others have been here.
  if (pending_.first == state.covered + 1 && pending_.rows == last - state.covered) {
    stored_ = true;
    return Store(database, pending_, last);
  }
  stored_ = true;
  return CatchUp(database, kMostAtOnce).status();
}

void RollupKeeper::Done(bool committed) noexcept {
  // What was rolled back is not there, and what was stored waits no more.
  if (!committed || stored_) pending_ = {};
  stored_ = false;
}

Result<bool> RollupKeeper::CatchUp(const sqlite::Database& database, size_t rows) {
  ASSIGN_OR_RETURN(RollupState state, ReadState(database));
  if (!state.there) return false;
  if (state.stale) {
    ASSIGN_OR_RETURN(const int64_t stale, StaleOf(database));
    if (stale == 2) return false;
    RETURN_IF_ERROR(EmptyRollups(database));
    state.covered = 0;
  }
  Pending read;
  Query all;
  all.warmup = true;
  const Plan::Rows part{.above = std::max<int64_t>(state.covered, 0), .any_time = true};
  std::vector<std::string_view> columns(std::begin(kSummedColumns), std::end(kSummedColumns));
  columns.insert(columns.begin(), "id");
  ASSIGN_OR_RETURN(
      sqlite::Statement next,
      SelectRows(database, all,
                 {.part = part, .columns = columns, .order = " ORDER BY id LIMIT " + std::to_string(rows)}));
  const RowReader reader(next);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, next.Step());
    if (!more) break;
    read.Add(next.Int(0), reader.Read());
  }
  if (read.rows == 0) return false;
  RETURN_IF_ERROR(Store(database, read, read.last));
  return read.rows == static_cast<int64_t>(rows);
}

Status RollupKeeper::Store(const sqlite::Database& database, const Pending& pending, int64_t covered) {
  if (pending.bad_time) return database.Run(kNever);
  // Hours and days from minutes, so that a row is added up once.
  std::map<std::pair<int64_t, Key>, Sums> wide;
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
    return statement.Bind(1, key.first)
        .Bind(2, start)
        .Bind(3, std::string_view(model))
        .Bind(4, std::string_view(engine))
        .Bind(5, int64_t{warmup});
  };
  for (auto& [key, sums] : wide) {
    ASSIGN_OR_RETURN(const bool found, bind(there, key).Step());
    // One that is broken stops nobody from writing: all are made anew, by the next write.
    if (found && !sums.MergeBytes(there.Text(0))) return database.Run(kAnew);
    there.Reset();
    std::string bytes;
    sums.AppendBytes(bytes);
    RETURN_IF_ERROR(bind(put, key).BindBlob(6, bytes).Execute());
  }
  return database.Run("UPDATE telemetry_rollup_state SET covered=" + std::to_string(covered));
}

Status RollupKeeper::Forget(const sqlite::Database& database, double timestamp) {
  ASSIGN_OR_RETURN(const RollupState state, ReadState(database));
  if (!state.there) return Ok();
  if (!std::isfinite(timestamp)) {
    pending_ = {};
    return EmptyRollups(database);  // stale by what is deleted now, of which the next write makes nothing
  }
  ASSIGN_OR_RETURN(sqlite::Statement gone, database.Prepare("DELETE FROM telemetry_rollup WHERE start<?"));
  RETURN_IF_ERROR(gone.Bind(1, timestamp).Execute());
  ASSIGN_OR_RETURN(sqlite::Statement floor,
                   database.Prepare("UPDATE telemetry_rollup_state SET floor=max(floor,?)"));
  return floor.Bind(1, timestamp).Execute();
}

std::unique_ptr<Rollup> MakeRollup() { return std::make_unique<RollupKeeper>(); }

}  // namespace gpulens::telemetry
