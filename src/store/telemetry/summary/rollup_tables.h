// The roll-ups of a file of inference records: what each minute, hour and day adds up to, by model, engine
// and whether the calls only warmed up, so that a summary reads hundreds of rows instead of a million.
//
//   telemetry_rollup         a row per span (60, 3600, 86400 s), start, model, engine and warm-up: Sums as
//   bytes telemetry_rollup_state   one row: which records they hold
//
// They may hold less than there is, and say so: rows with an id above `covered`, and rows older than `floor`,
// are read one by one. A row that they hold and that somebody else changes or deletes makes them stale, by a
// trigger, so that no other program has to know of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "store/sqlite/sqlite.h"
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

// Of any file. One without these tables has no roll-ups.
Result<RollupState> ReadState(const sqlite::Database& database);
// Within a transaction. All of it anew from the next write on.
Status MakeRollupTables(const sqlite::Database& database);
Status EmptyRollups(const sqlite::Database& database);

// The start of the span that a time lies in. Times that are none (of other programs) have none.
inline constexpr double kLastTime = 253'402'300'800.0;  // the year 10000
constexpr bool IsTime(double seconds) noexcept { return seconds >= 0 && seconds < kLastTime; }
constexpr int64_t StartOf(double seconds, int64_t span) noexcept {
  return static_cast<int64_t>(seconds) / span * span;
}

}  // namespace gpulens::telemetry
