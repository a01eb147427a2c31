// What was read of GPUs, engines and programs within the grace, in order of time.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ledger/observation.h"
#include "ledger/owner_table.h"

namespace gpulens::ledger {

inline constexpr int kUnknownPpm = -1;
inline constexpr int64_t kPpm = 1'000'000;
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::min() / 4;

// Shares of 1 as integers; NaN, infinite and negative ones are unknown, those above 1 are 1.
int PpmOf(std::optional<double> share) noexcept;

constexpr int64_t FloorDiv(int64_t a, int64_t b) noexcept {
  const int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}
// Milliseconds up to a time, rounded down: differences telescope.
constexpr int64_t MsAt(int64_t ns) noexcept { return FloorDiv(ns, 1'000'000); }

struct KeptUser {
  int64_t pid = 0, start_ticks = 0;
  uint32_t slice = 0;
  OwnerId owner = kNoOwner;
  int64_t memory = -1;
  int use_ppm = kUnknownPpm;
  bool operator==(const KeptUser&) const = default;
};

struct KeptSlice {
  uint32_t slice = 0;
  int64_t compute_slices = 0;
  int use_ppm = kUnknownPpm;
  OwnerId allocated = kNoOwner;
};

// A reading, or where the closed past ends: then `at` is later than `read_at`, and the energy is
// interpolated.
struct KeptReading {
  int64_t at = 0, read_at = 0;
  int64_t energy = -1;  // microjoules; negative: unknown
  // Where the line to the next reading begins: a line cut at `at` would be rounded otherwise than before.
  int64_t line_at = 0, line_energy = -1;
  EnergySource source = EnergySource::kNone;
  int performance_state = -1;
  int use_ppm = kUnknownPpm;
  int throttled_ppm = 0;
  bool available = true, users_known = false, mig = false;
  bool from_state = false;  // of a program that ran before: what follows was not observed
  Cause unavailable_cause = Cause::kNone, throttle_cause = Cause::kNone;
  OwnerId allocated = kNoOwner;
  int64_t compute_slices = 0;
  std::vector<KeptUser> users;
  std::vector<KeptSlice> slices;
};

struct GpuTimeline {
  std::string gpu, model;
  std::deque<KeptReading> readings;
  // All before is closed for good; kNever: nothing is. Before the ledger's own end of the closed past if the
  // GPU was silent then.
  int64_t final_to = kNever;

  // Of the stretch that ends at readings[i], i > 0.
  //
  // Whether its energy is known: both counters of one source, which did not fall or leap.
  bool Metered(size_t i) const noexcept;
  // Only if it is metered: the counter at `t` inside, interpolated and rounded down.
  int64_t EnergyAt(size_t i, int64_t t) const noexcept;
  bool Unobserved(size_t i, int64_t longest_gap) const noexcept;
  // The first reading later than `t`.
  size_t After(int64_t t) const noexcept;
  int64_t begin() const noexcept { return readings.front().at; }
  int64_t end() const noexcept { return readings.back().at; }
  // Microjoules between two times, from counters alone.
  int64_t EnergyBetween(int64_t from, int64_t to) const noexcept;
  // Milliseconds of the timeline between two times.
  int64_t MsBetween(int64_t from, int64_t to) const noexcept;
  // Puts a reading before readings[place].
  void Insert(size_t place, KeptReading reading);
  // Ends the past at `t`: drops what only it needs.
  void DropBefore(int64_t t);
};

struct KeptPage {
  int64_t at = 0;
  std::vector<EngineWork> work;  // by model
};

struct EngineTimeline {
  std::string engine;  // empty: the place is free
  std::deque<KeptPage> pages;
  int64_t used_at = kNever;  // the latest reading with a process of it
};

// Signals of programs, by pid and time.
using Signals = std::map<int64_t, std::vector<std::pair<int64_t, Cause>>>;

}  // namespace gpulens::ledger
