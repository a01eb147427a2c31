// What the ledger is given: readings of GPUs and engines, with the time at which they were true. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/account.h"

namespace gpulens::ledger {

// Times are `boot_ns` of base/clock.h: they never jump. Labels in UTC are made with the Instant of the latest
// call. Texts are cut to 512 bytes. What makes no sense (NaN, negative, beyond its range) counts as unknown.

enum class EnergySource : uint8_t { kNone, kCounter, kPowerIntegral };

// A process, or what else uses a GPU or one of its MIG instances.
struct GpuUser {
  int64_t pid = 0;
  int64_t start_ticks = 0;  // 0: unknown
  std::string slice;        // of a MIG instance; empty: the whole GPU
  Owner owner;
  std::optional<int64_t> memory_bytes;
  std::optional<double> utilization;  // 0 to 1, over the time since the reading before
  bool operator==(const GpuUser&) const = default;
};

struct MigSlice {
  std::string slice;
  int64_t compute_slices = 0;         // of all that the GPU has
  std::optional<double> utilization;  // activity of the instance, 0 to 1
  Owner allocated;                    // pod or job that has it; empty: none
  bool operator==(const MigSlice&) const = default;
};

// One complete reading of one GPU. It describes the time since the reading before.
struct GpuReading {
  std::string gpu;
  std::string model;  // "NVIDIA H100 80GB HBM3", for prices
  int64_t at_ns = 0;
  // Cumulative, from the counter or the integral of power. Between two readings that differ in the source, or
  // in which it fell or grew by more than 100 kW, the energy is not known.
  std::optional<int64_t> energy_uj;
  EnergySource energy_source = EnergySource::kNone;
  std::optional<double> power_watts;
  std::optional<int> performance_state;
  std::optional<double> utilization;  // 0 to 1; unknown is not 0
  bool available = true;
  Cause unavailable_cause = Cause::kNone;  // kHardware or kMaintenance
  // Share of the clock that a throttle reason takes, 0 to 1, and which.
  double throttled = 0;
  Cause throttle_cause = Cause::kNone;
  Owner allocated;             // pod or job that has the GPU; empty: none
  bool users_known = false;    // `users` is complete; else none is known
  std::vector<GpuUser> users;  // at most 1024, else none is known
  bool mig = false;
  int64_t compute_slices = 0;  // that the GPU has in all; 0: as many as `slices` have
  std::vector<MigSlice> slices;
};

// Cumulative counters of one model of an engine. Negative or NaN: unknown.
struct EngineWork {
  std::string model;
  double prompt_tokens = -1, cached_tokens = -1, generated_tokens = -1;
  double prefill_seconds = -1, decode_seconds = -1;  // sums over requests
  double recomputed_tokens = -1, rejected_tokens = -1;
  double cancelled_requests = -1, finished_requests = -1;  // finished: all that ended, also the cancelled
  double running = -1, waiting = -1;                       // now
};

// Requests that decode together count each second once each: the mean number of them between two pages, by
// which a growth of decode_seconds is divided to have the engine's own seconds. 1 where it is not known.
inline double DecodesAtOnce(double running_before, double running_now) noexcept {
  const double mean = (running_before + running_now) / 2;
  return running_before >= 0 && running_now >= 0 && mean > 1 && mean <= 1e15 ? mean : 1;
}

// One page of an engine. `engine` is Owner::engine of its processes.
struct EngineReading {
  std::string engine;
  int64_t at_ns = 0;
  std::vector<EngineWork> work;
};

// Signals of programs that measure themselves (the SDK): why the GPU waits.
struct ProgramSignal {
  int64_t pid = 0;
  int64_t at_ns = 0;
  Cause waits =
      Cause::kNone;  // kInputWait, kCheckpoint, kStartup, kCollectiveWait, kInteractive; kNone: works
};

}  // namespace gpulens::ledger
