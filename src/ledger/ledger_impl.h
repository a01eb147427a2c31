// What Ledger has inside: of ledger.cc, which closes windows, and of kept_readings.cc, which takes readings
// and the state in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ledger/engine_split.h"
#include "ledger/ledger.h"
#include "ledger/owner_table.h"
#include "ledger/timeline.h"
#include "ledger/window_split.h"

namespace gpulens::ledger {

inline constexpr int64_t kHourNs = 3'600'000'000'000;
inline constexpr int64_t kDayNs = 24 * kHourNs;
// A gap longer than this is an error of a clock: the GPU begins again.
inline constexpr int64_t kLongestGapNs = 366 * kDayNs;
// Times beyond (36 years of uptime) are no times.
inline constexpr int64_t kMostNs = int64_t{1} << 60;
inline constexpr size_t kMostEngines = 4096;

// Denominators of what rates are multiplied with; remainders below them go from window to window.
inline constexpr int64_t kMsPerHour = 3'600'000;
inline constexpr int64_t kMilliMicrojoulesPerKwh = 3'600'000'000'000'000;
inline constexpr int64_t kCarbonDenominator = 3'600'000'000;  // uJ x 1/1000 x mg/kWh per ng

struct Ledger::Impl {
  // An account of a closed window.
  struct Booked {
    AccountKey key;
    Amounts amounts;
  };

  // What the rates were applied to, for the self-check.
  struct GpuRates {
    bool known = false;  // by this window
    Rates rates;
  };

  struct Window {
    int64_t start = 0, end = 0, label_ms = 0;
    Fold before;
    std::vector<GpuRates> rates;
    std::vector<Booked> accounts;
    std::vector<ProcessShare> processes;
  };

  // Sums over GPUs, from counters and clocks alone.
  struct Expected {
    __int128 energy_uj = 0, time_ms = 0, cost_pico = 0;
  };

  Impl(Options given, RatesAt rates)
      : options(std::move(given)),
        rates_at(std::move(rates)),
        split(options, owners, signals),
        offset(std::clamp(options.boot_to_unix_ns, -4 * kMostNs, 4 * kMostNs)),
        boot_id(options.boot_id) {
    options.window = std::max<Duration>(options.window, std::chrono::milliseconds(1));
    for (Duration* duration :
         {&options.grace, &options.longest_gap, &options.engine_wait, &options.hold_time})
      *duration = std::clamp<Duration>(*duration, Duration(0), Duration(kDayNs));
    options.window = std::min<Duration>(options.window, Duration(kHourNs));
    phase = offset % options.window.count();
  }

  // Edges of windows: multiples of the window in UTC as of the start, on the clock that does not jump.
  int64_t Floor(int64_t t) const {
    const int64_t window = options.window.count();
    return FloorDiv(t + phase, window) * window - phase;
  }
  int64_t LabelMs(int64_t start) const {
    const int64_t window = options.window.count();
    return FloorDiv(start + offset + window / 2, window) * window / 1'000'000;
  }
  bool CanBe(int64_t t) const { return t > -kMostNs && t < kMostNs; }
  // UTC that makes no sense leaves the labels as they were.
  void SetOffset(Instant now) {
    if (now.unix_ns > -4 * kMostNs && now.unix_ns < 4 * kMostNs) offset = now.unix_ns - now.boot_ns;
  }
  void Touch(int64_t from, int64_t to) {
    if (!begun || from >= closed_to) return;
    dirty_from = std::min(dirty_from, from);
    dirty_to = std::max(dirty_to, to);
  }

  uint32_t SliceId(const std::string& slice);
  int GpuNumber(const std::string& gpu);
  int EngineNumber(const std::string& engine);
  KeptReading Keep(GpuReading& reading);
  void Observe(GpuReading&& reading);
  void Observe(EngineReading&& reading);
  void Observe(const ProgramSignal& signal);
  void Restore(const LedgerState& saved_state, Instant now, std::string_view id);
  void RestoreGpu(const LedgerState::Gpu& saved, Instant now, bool same_boot);

  Closed CloseWindows(Instant now, bool finish);
  void RefuseFuture(int64_t now);
  bool Begin(int64_t now);
  int64_t CloseTarget(int64_t now, bool finish) const;
  void AddSilence(Closed& out);
  void Recompute(Closed& out);
  void CloseNew(int64_t target, Closed& out);
  int64_t NextEnd(int64_t target) const;
  void DropPast(int64_t now);
  void Sweep();
  // Fills `window` from start, end, label and rates. `only`: of one GPU, without its engines.
  void Compute(Window& window, Fold& fold, int only);
  void LimitOwners(int64_t label_ms, Fold& fold);
  void Price(Window& window, Fold& fold);
  bool Earlier(const AccountKey& a, const AccountKey& b) const;
  Account AccountOf(const AccountKey& key) const;
  void Emit(int64_t label_ms, int64_t for_label_ms, std::vector<Booked>& accounts,
            std::vector<ProcessShare>& processes, Closed& out);
  Expected ExpectedOf(int64_t from, int64_t to) const;
  LedgerState StateNow() const;

  Options options;
  RatesAt rates_at;
  OwnerTable owners;
  Signals signals;
  WindowSplit split;
  int64_t offset = 0, phase = 0;  // of UTC; of the edges
  std::string boot_id;
  uint64_t refused = 0;

  std::vector<std::string> slices = {""};
  std::unordered_map<std::string, uint32_t> slice_ids = {{"", 0}};
  std::vector<GpuTimeline> gpus;
  std::map<std::string, size_t, std::less<>> gpu_places;
  std::vector<EngineTimeline> engines;
  EnginePlaces engine_places;
  size_t readings = 0, signal_count = 0;

  bool begun = false;
  int64_t clock = kNever;  // of the latest call
  // Before `base` all is final. From there to `closed_to` windows are closed, and may be adjusted.
  int64_t base = 0, closed_to = 0;
  std::deque<Window> windows;
  Fold fold;  // at closed_to
  int64_t dirty_from = std::numeric_limits<int64_t>::max(), dirty_to = kNever;
  // For the self-check: of what AddSilence booked in this call, and of base to closed_to after the last one.
  Expected silence, checked;
  size_t kept_owners = 0;  // after the last sweep
  LedgerState last_state;  // as of the last call that closed windows

  // Rooms.
  std::vector<Share> shares;
  std::vector<EngineWindow> engine_windows;
  std::vector<int64_t> weights, parts;
};

}  // namespace gpulens::ledger
