// Accounts and amounts of the ledger: whose joules, seconds, money and carbon, and how many. Plain values.
//
// All amounts are integers, so that parts add up to the whole exactly: microjoules, milliseconds of a GPU,
// picodollars (10^-12 USD) and nanograms of CO2 equivalent. An int64_t of picodollars is 9.2 million USD:
// sums over machines or years belong in a wider type (the databases', or __int128).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::ledger {

// Where the energy of a GPU went. Each microjoule has exactly one.
enum class EnergyState : uint8_t {
  kIdle,          // no process and no allocation held the GPU
  kHeld,          // something held it, and nothing ran; and the base power while something ran
  kActive,        // drawn above the base power by known processes
  kUnattributed,  // something ran, and no process is known that did
  kUnobserved,    // drawn while this program did not run or could not read the GPU
};
inline constexpr size_t kEnergyStates = 5;

// What a GPU did. Each millisecond has exactly one: the first whose rule holds.
enum class ComputeState : uint8_t {
  kUnobserved,       // this program did not run or could not read the GPU
  kUnavailable,      // the driver reports it lost, fatally failed, drained, or waiting for a reset
  kUnallocated,      // healthy, and no pod, job or process has it
  kAllocatedUnheld,  // a pod or job has it, and no process is on it
  kHeldIdle,         // a process holds it and has not used it for the hold time
  kActiveWasted,     // used, and the result was lost or slowed down
  kUseful,           // the rest
};
inline constexpr size_t kComputeStates = 7;

// Why it was in that state.
enum class Cause : uint8_t {
  kNone,
  // kUnavailable
  kHardware,
  kMaintenance,
  // kAllocatedUnheld
  kStarting,
  kCrashLoop,
  kForgotten,
  // kHeldIdle
  kNoRequests,
  kInputWait,
  kCheckpoint,
  kStartup,
  kCollectiveWait,
  kInteractive,
  kUnknown,
  // kActiveWasted
  kThrottlePower,
  kThrottleThermal,
  kPreemptRecompute,
  kSpecRejected,
  kCancelled,
  kLostWork,
};
inline constexpr size_t kCauses = 19;

// What an engine did with its share.
enum class RequestClass : uint8_t {
  kNone,     // not of an engine, or its counters are not known
  kPrefill,  // prompt tokens that were computed
  kDecode,   // tokens generated
  kHeld,     // no request was open
};

// How a share was found. Part of the account, so that a report can state how good a sum is.
enum class Method : uint8_t {
  kWhole,        // nothing was divided: idle, unobserved, or a single holder
  kUtilization,  // by the driver's samples of each process
  kMemory,       // by the device memory that each process holds
  kMigSlice,     // by the slices of MIG instances
  kEqual,        // in equal parts: nothing better was readable
};

// "idle", "allocated_unheld", "no_requests", "prefill", "mig_slice"; "" for a kNone. Static storage.
std::string_view Name(EnergyState state) noexcept;
std::string_view Name(ComputeState state) noexcept;
std::string_view Name(Cause cause) noexcept;
std::string_view Name(RequestClass request_class) noexcept;
std::string_view Name(Method method) noexcept;
// The reverse; false, and `out` unchanged, for another text.
bool Parse(std::string_view text, EnergyState& out) noexcept;
bool Parse(std::string_view text, ComputeState& out) noexcept;
bool Parse(std::string_view text, Cause& out) noexcept;
bool Parse(std::string_view text, RequestClass& out) noexcept;
bool Parse(std::string_view text, Method& out) noexcept;

// Who uses or holds something. Unknown texts are empty. `kOther` is the sum of owners beyond the limit.
struct Owner {
  std::string process;     // name of the executable
  std::string name_space;  // of Kubernetes
  std::string pod;         // its name; its uid where the name is not known
  std::string job;         // Slurm's job id, or the name of the Kubernetes job
  std::string tenant;
  std::string engine;  // name of the target that is its page
  std::string model;

  bool empty() const noexcept { return *this == Owner(); }
  auto operator<=>(const Owner&) const = default;
  bool operator==(const Owner&) const = default;
};
inline constexpr std::string_view kOther = "(other)";

struct Account {
  std::string gpu;    // its UUID; without one, "VENDOR-INDEX"
  std::string slice;  // "INSTANCE/COMPUTE INSTANCE" of a MIG device; empty: none
  EnergyState energy_state = EnergyState::kIdle;
  ComputeState compute_state = ComputeState::kUnallocated;
  Cause cause = Cause::kNone;
  RequestClass request_class = RequestClass::kNone;
  Method method = Method::kWhole;
  Owner owner;

  auto operator<=>(const Account&) const = default;
  bool operator==(const Account&) const = default;
};

struct Amounts {
  int64_t energy_uj = 0;
  int64_t time_ms = 0;
  // The price of the GPU's time, given to who had it allocated; and to who used it. Both add up to price x
  // time; what none had or used stays on the accounts without an owner.
  int64_t cost_allocation_pico = 0, cost_usage_pico = 0;
  int64_t priced_ms = 0;         // of time_ms: had a price
  int64_t electricity_pico = 0;  // price of energy_uj x PUE
  int64_t carbon_ng = 0;         // of energy_uj x PUE, by location
  int64_t carbon_known_uj = 0;   // of energy_uj: had an intensity
  int64_t unmetered_ms = 0;      // of time_ms: the energy is not known (no counter, it fell, or another boot)
  int64_t tokens = 0;            // of a request class

  // Does not check for overflow: the caller bounds what it adds.
  Amounts& operator+=(const Amounts& other) noexcept;
  Amounts& operator-=(const Amounts& other) noexcept;
  bool empty() const noexcept { return *this == Amounts(); }
  bool operator==(const Amounts&) const = default;
};

struct Entry {
  int64_t window_unix_ms = 0;  // start of the window that it is booked in
  // Not 0: an adjustment of that earlier window, which was closed. Its amounts may be negative. Those of one
  // call add up to 0 over all accounts and windows, unless energy or time became known that was not: a
  // reading between others, or of a GPU that was silent or not read by this program.
  int64_t for_window_unix_ms = 0;
  Account account;
  Amounts amounts;
};

// Energy of one process on one GPU in one closed window, or its adjustment: for series by pid.
struct ProcessEnergy {
  std::string gpu;
  int64_t pid = 0;
  int64_t start_ticks = 0;  // 0: unknown
  Method method = Method::kWhole;
  int64_t energy_uj = 0;
};

}  // namespace gpulens::ledger
