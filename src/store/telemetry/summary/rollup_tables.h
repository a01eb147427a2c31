// Roll-ups of a file of inference records: sums of each minute, hour and day by model, engine and warm-up, so
// that a summary reads hundreds of rows instead of a million.
//
//   telemetry_rollup         a row per span (60, 3600, 86400 s), start, model, engine and warm-up: bytes of
// Sums
//   telemetry_rollup_state   one row: which records they contain
//
// They may lag behind: rows with an id above `covered` and rows older than `floor` are read one by one. A
// trigger marks them stale when any row is changed or deleted, so other programs need not know them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "store/sqlite/sqlite.h"
#include "store/telemetry/destination.h"
#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {

inline constexpr std::array<int64_t, 3> kSpans = {86'400, 3'600, 60};  // seconds
inline constexpr int64_t kMinute = 60;

struct RollupKey {
  int64_t start = 0;  // seconds since 1970
  std::string_view model, engine;
  bool warmup = false;
};

struct RollupState {
  bool there = false;  // else there is nothing to use: an old file, or stale
  bool stale = false;
  int64_t covered = 0;
  double floor = 0;
};

// Of a file without these tables: no roll-ups.
Result<RollupState> ReadState(const sqlite::Database& database);
// Within a transaction. Rebuilt completely by the next writes.
Status MakeRollupTables(const sqlite::Database& database);
Status EmptyRollups(const sqlite::Database& database);

// The start of the span that a time lies in. Times that are none (of other programs) have none.
inline constexpr double kLastTime = 253'402'300'800.0;  // the year 10000
constexpr bool IsTime(double seconds) noexcept { return seconds >= 0 && seconds < kLastTime; }
constexpr int64_t StartOf(double seconds, int64_t span) noexcept {
  return static_cast<int64_t>(seconds) / span * span;
}

// Keeps the roll-ups of a file (rollup_tables.h) while its writer writes.
//
// Not with every batch: what was added waits until 4,096 rows are not covered, so that bulk inserts are as
// fast as without and a summary reads that many rows one by one at most. A crash loses nothing, as the rows
// are there; the next writer reads them. So are those that other programs inserted.
// By the writer's thread alone.
class RollupWriter final : public Rollup {
 public:
  static constexpr int64_t kWaiting = 4'096;     // rows, before they are rolled up
  static constexpr size_t kMostAtOnce = 16'384;  // of rows that are read again: some 20 ms

  Status Prepare(const sqlite::Database& database) override;
  void Add(int64_t id, const Row& row) override;
  Status Write(const sqlite::Database& database, int64_t before) override;
  void Done(bool committed) noexcept override;
  Status Forget(const sqlite::Database& database, double timestamp) override;

  // Rolls up to `rows` rows of the file up, within a transaction; whether there are more.
  Result<bool> CatchUp(const sqlite::Database& database, size_t rows);

 private:
  using Key = std::tuple<int64_t, std::string, std::string, bool>;  // minute, model, engine, warm-up
  struct Pending {
    std::map<Key, Sums> sums;
    int64_t first = 0, last = 0, rows = 0;  // ids; how many
    bool bad_time = false;

    void Add(int64_t id, const Row& row);
  };
  static Status Store(const sqlite::Database& database, const Pending& pending, int64_t covered);

  Pending pending_;
  bool stored_ = false;  // within the transaction
};

}  // namespace gpulens::telemetry
