// Roll-ups of a file of inference records: sums of each minute, hour and day by model, engine and warm-up, so
// that a summary reads hundreds of rows instead of a million.
//
//   telemetry_rollup         a row per span (60, 3600, 86400 s), start, model, engine and warm-up: bytes of
//   CallSums telemetry_rollup_state   one row: which records they contain
//
// They may lag behind: rows with an id above `covered` and rows older than `floor` are read one by one. A
// trigger marks them stale when any row is changed or deleted, so other programs need not know them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/sums.h"

namespace gpulens::telemetry {

inline constexpr std::array<int64_t, 3> kSpans = {86'400, 3'600, 60};  // seconds
inline constexpr int64_t kMinute = 60;

struct RollupKey {
  int64_t start = 0;  // seconds since 1970
  std::string_view model, engine;
  bool warmup = false;
};

struct RollupState {
  bool there = false;  // whether the file has roll-ups
  bool stale = false;
  int64_t covered = 0;
  double floor = 0;
};

// Reads the state; a file without these tables has no roll-ups.
Result<RollupState> ReadState(const sqlite::Database& database);
// Within a transaction. Removes all roll-ups, which the next writes build again.
Status EmptyRollups(const sqlite::Database& database);

// Times that are valid, and the start of the span of a time. Other programs may write invalid ones.
inline constexpr double kLastTime = 253'402'300'800.0;  // the year 10000
constexpr bool IsTime(double seconds) noexcept { return seconds >= 0 && seconds < kLastTime; }
constexpr int64_t StartOf(double seconds, int64_t span) noexcept {
  return static_cast<int64_t>(seconds) / span * span;
}

// Updates the roll-ups of a file while its writer writes. Used by the writer's thread.
//
// Added rows wait until 4,096 are not covered, so that bulk inserts are as fast as without roll-ups, and a
// summary reads at most that many rows one by one. A crash loses nothing: the next writer reads the rows
// again, as it does those that other programs inserted.
class RollupWriter {
 public:
  static constexpr int64_t kWaiting = 4'096;     // rows, before they are rolled up
  static constexpr size_t kMostAtOnce = 16'384;  // of rows that are read again: some 20 ms

  // Creates the tables, within the transaction that upgrades a file.
  static Status Prepare(const sqlite::Database& database);
  // Adds an inserted row, within a transaction. Ids ascend, but not by one: other programs insert, too.
  void Add(int64_t id, const RecordRow& row) { pending_.Add(id, row); }
  // Writes added rows before that transaction commits. Ids up to `before` existed when it began.
  Status Write(const sqlite::Database& database, int64_t before);
  // Called after the transaction: whether it was committed.
  void Done(bool committed) noexcept;
  // Within a transaction that deletes the rows with timestamps below `timestamp`.
  Status Forget(const sqlite::Database& database, double timestamp);

  // Whether CatchUp has work: kWaiting rows or more are not rolled up, or the roll-ups are stale.
  static Result<bool> IsBehind(const sqlite::Database& database);
  // Rolls up at most `rows` rows of the file, within a transaction. Returns whether there are more.
  Result<bool> CatchUp(const sqlite::Database& database, size_t rows);

 private:
  using Key = std::tuple<int64_t, std::string, std::string, bool>;  // minute, model, engine, warm-up
  struct Pending {
    std::map<Key, CallSums> sums;
    int64_t first = 0, last = 0, rows = 0;  // ids; how many
    bool bad_time = false;

    void Add(int64_t id, const RecordRow& row);
  };
  static Status Store(const sqlite::Database& database, const Pending& pending, int64_t covered);

  Pending pending_;
  bool stored_ = false;  // within the transaction
};

}  // namespace gpulens::telemetry
