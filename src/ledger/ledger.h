// Divides the energy, time, money and carbon of GPUs among their users, in windows, so that the parts are the
// whole. Pure: it is given readings and returns entries. Not thread-safe.
//
//   Ledger ledger(options, rates);
//   if (saved) ledger.Restore(*saved, now, boot_id);
//   ledger.Observe(gpu_reading); ledger.Observe(engine_reading);       // in any order within the grace
//   Ledger::Closed closed = ledger.Close(now);                         // entries of complete windows
//   store.Write(closed.entries, ledger.state());                       // in one transaction
//
// Formulas and rules: docs/ledger.md. For each GPU and any stretch between two closes without a counter
// reset:
//   sum of energy over its accounts = counter(end) - counter(begin)
//   sum of time over its accounts = end - begin
//   sum of money over its accounts = price x time, for both ways of dividing it
//
// A window is closed when each GPU has a reading at or after its end, and each engine that a process belonged
// to has a page (Options: how long a silent one is waited for). Closed windows never change: what a later
// reading changes is an adjustment in the open window. Readings may come in any order and more than once
// within the grace, less the distance of two readings: no sum depends on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "ledger/account.h"
#include "ledger/observation.h"

namespace gpulens::ledger {

// What is in force for one GPU at one time. Unknown: money or carbon is not booked, and counted as unknown.
struct Rates {
  std::optional<int64_t> pico_per_gpu_hour;
  std::optional<int64_t> pico_per_kwh;  // of electricity
  int64_t pue_milli = 1000;             // power usage effectiveness x 1000, not below 1000
  std::optional<int64_t> mg_per_kwh;    // carbon intensity: milligrams of CO2 equivalent
};
// By model of the GPU and wall time.
using RatesAt = std::function<Rates(std::string_view model, int64_t unix_ns)>;

// What must survive a restart. A plain value.
struct LedgerState {
  struct Gpu {
    std::string gpu, model;
    int64_t at_ns = 0;                 // booked up to here, on the clock of `boot_id`
    int64_t at_unix_ns = 0;            // the same in UTC
    std::optional<int64_t> energy_uj;  // of the counter, there
    EnergySource energy_source = EnergySource::kNone;
    std::optional<double> idle_watts;  // learnt base power: the lowest of any performance state
    std::vector<std::pair<int, double>> idle_watts_of;  // by performance state
    // Parts of a unit that rounding has left, so that windows telescope: of the price, the electricity and
    // the carbon.
    std::vector<int64_t> remainders;
    // What the rules of the compute states remember, of the GPU or of each MIG instance.
    struct Hold {
      std::string slice;
      std::optional<int64_t> idle_since_ns;  // no use by its processes since
      Owner allocated;
      int64_t allocated_since_ns = 0;
      std::vector<int64_t> ended_ns;  // when processes last ended
      bool operator==(const Hold&) const = default;
    };
    std::vector<Hold> holds;
    bool operator==(const Gpu&) const = default;
  };
  // Sums of an engine's own times and tokens, older ones with less weight: seconds per token.
  struct Engine {
    std::string engine;
    double prefill_seconds = 0, prefill_tokens = 0, decode_seconds = 0, decode_tokens = 0;
    bool operator==(const Engine&) const = default;
  };
  std::string boot_id;
  std::vector<Gpu> gpus;
  std::vector<Engine> engines;
  bool operator==(const LedgerState&) const = default;
};
// As one line of JSON. ParseState: kDataLoss for another text. Fuzzed.
std::string StateText(const LedgerState& state);
Result<LedgerState> ParseState(std::string_view text);

class Ledger {
 public:
  struct Options {
    Duration window = std::chrono::seconds(10);
    Duration grace = std::chrono::minutes(5);  // closed windows are still adjusted for so long
    Duration longest_gap =
        std::chrono::seconds(30);  // between two readings of a GPU; beyond it is unobserved
    Duration engine_wait = std::chrono::seconds(60);  // a window waits so long for the page of an engine
    // Held idle begins after so long without use; the pause before it counts as useful.
    Duration hold_time = std::chrono::seconds(60);
    double idle_below = 0.05;          // utilisation
    std::optional<double> idle_watts;  // configured base power
    // Of one hour: the first that come have accounts of their own, of one window those with most energy. The
    // energy, time and money of others is booked on the owner kOther of the same GPU and states.
    size_t most_owners = 200;
    int64_t boot_to_unix_ns = 0;  // unix_ns - boot_ns, at the start
    std::string boot_id;          // of the machine, for state()
  };
  struct Closed {
    std::vector<Entry> entries;
    std::vector<ProcessEnergy> processes;
    // Sum of entries minus counters, time and price: always 0. A self-check.
    int64_t residual_uj = 0, residual_ms = 0, residual_pico = 0;
  };

  Ledger(Options options, RatesAt rates);
  ~Ledger();

  // Before the first reading. For each GPU the stretch from the state to its first reading is unobserved:
  // with the difference of its counter in the same boot, else without joules, and its time is that of the
  // wall clock, at most a year, never negative. Any state is survived.
  void Restore(const LedgerState& state, Instant now, std::string_view boot_id);
  void Observe(GpuReading reading);
  void Observe(EngineReading reading);
  void Observe(const ProgramSignal& signal);
  // Windows that are complete at `now`.
  Closed Close(Instant now);
  // All that was read, also of windows that are not over: before the program ends.
  Closed Finish(Instant now);
  // As of the last Close or Finish that returned entries, to be written with them.
  LedgerState state() const;

  // Readings that came too late to be used, or made no sense.
  uint64_t refused() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens::ledger
