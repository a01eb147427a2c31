// The faults that a person has put into a running simulated machine, and their numbers: what
// `gpulens fake nvml fail|heal|status` changes and shows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/simulated/fault_watch.h"

namespace gpulens::nvml {

// Used by one thread. Answers are one line; further ones are set apart by ';', which no word of a fault has.
class FaultList {
 public:
  // Adds a fault, given in words, from `now_ns` on. `gpus`: how many GPUs the machine has; 0: unknown.
  // Returns the fault as it was understood. kInvalidArgument, or kExhausted at kMaxLiveFaults.
  Result<std::string> Fail(std::string_view words, int64_t now_ns, size_t gpus);
  // Ends all faults, those of one GPU ("gpu=3"; faults of all GPUs stay) or one ("id=2").
  Result<std::string> Heal(std::string_view words, int64_t now_ns);
  std::string Describe(int64_t now_ns) const;

  const std::vector<LiveFault>& faults() const noexcept { return faults_; }

 private:
  // Forgets faults that are over, a moment later, so that the library has seen their end.
  void Prune(int64_t now_ns);

  std::vector<LiveFault> faults_;
  uint32_t next_id_ = 1;
};

// The words of faults: modes with their keys, readings, counters. For the two files that read and write them.
inline constexpr std::string_view kFaultHeader = "gpulens-faults 1";

// Keys other than gpu, mode, after and for: those that must be there end with "!".
struct ModeRow {
  std::string_view name;
  std::array<std::string_view, 4> keys;
  std::string_view help;
};

inline constexpr ModeRow kModes[] = {
    {"lost", {}, "every call answers GPU_IS_LOST"},
    {"fallen_off_bus", {}, "the same, and XID 79"},
    {"hang", {"call"}, "a call does not return"},
    {"slow", {"delay!", "call"}, "a call takes longer by this time"},
    {"crash", {"call", "how"}, "the process that reads the GPUs dies in a call, once"},
    {"crash_loop", {"call", "how"}, "the same, again in each process that is started"},
    {"error", {"code!", "call"}, "a call answers this code of NVML"},
    {"flaky",
     {"code!", "percent", "call", "seed"},
     "this share of the calls answers this code, chosen by the seed"},
    {"insufficient_power", {}, "every call answers INSUFFICIENT_POWER, and XID 54"},
    {"reset_required", {}, "every call answers RESET_REQUIRED"},
    {"reset", {}, "lost for 2 s, then back with counters at zero"},
    {"vanish", {}, "lost, and not counted when the library is opened next"},
    {"renumber", {"index!"}, "has another index when the library is opened next"},
    {"xid", {"code!"}, "an XID event"},
    {"ecc_uncorrectable", {"amount"}, "the counters rise, and the event comes"},
    {"ecc_correctable", {"amount"}, "the same for corrected errors"},
    {"counter", {"counter!", "amount"}, "a counter or a state of the board rises"},
    {"throttle", {"value!"}, "reasons that are added to those of the clocks"},
    {"wrong_value", {"reading!", "value!"}, "a sensor reports this instead"},
    {"stuck", {"reading!"}, "a sensor keeps the value it had when the fault began"},
    {"energy_backward", {"amount!"}, "the energy counter falls by this many J"},
};
static_assert(std::size(kModes) == static_cast<size_t>(FaultMode::kCount));

inline constexpr std::string_view kReadings[] = {"power",       "energy", "temperature",
                                                 "utilization", "memory", "clock"};
static_assert(std::size(kReadings) == kFaultReadings);

// A signal; abort(); exit(); the library closes all files, writes on the agent's socket or stops the process;
// each call keeps 64 MiB of memory, or 100 open files, for ever.
inline constexpr std::string_view kEnds[] = {"signal",  "abort", "exit",   "close",
                                             "garbage", "stop",  "memory", "files"};
static_assert(std::size(kEnds) == static_cast<size_t>(FaultEnd::kCount));

// In the order of FakeFault::Counter, with the names that profiles have, too. `stays`: a count, which does
// not fall when the fault is healed.
struct CounterRow {
  std::string_view name;
  FakeFault::Counter counter;
  bool stays;
};
inline constexpr CounterRow kCounters[] = {
    {"ecc_corrected", FakeFault::Counter::kEccCorrected, true},
    {"ecc_uncorrected", FakeFault::Counter::kEccUncorrected, true},
    {"remapped_correctable", FakeFault::Counter::kRemappedCorrectable, true},
    {"remapped_uncorrectable", FakeFault::Counter::kRemappedUncorrectable, true},
    {"remap_pending", FakeFault::Counter::kRemapPending, false},
    {"remap_failure", FakeFault::Counter::kRemapFailure, false},
    {"retired_single_bit", FakeFault::Counter::kRetiredSingle, true},
    {"retired_double_bit", FakeFault::Counter::kRetiredDouble, true},
    {"pcie_replay", FakeFault::Counter::kPcieReplay, true},
    {"links_down", FakeFault::Counter::kLinksDown, false},
    {"link_replay", FakeFault::Counter::kLinkReplay, true},
    {"pcie_correctable", FakeFault::Counter::kPcieCorrectable, true},
    {"sram_uncorrected", FakeFault::Counter::kSramUncorrected, true},
    {"banks_used", FakeFault::Counter::kBanksUsed, false},
    {"inforom_corrupt", FakeFault::Counter::kInforomCorrupt, false},
    {"fabric_pending", FakeFault::Counter::kFabricPending, false},
    {"fabric_degraded", FakeFault::Counter::kFabricDegraded, false},
    {"confidential", FakeFault::Counter::kConfidential, false},
    {"encoder_sessions", FakeFault::Counter::kEncoderSessions, false},
};

inline const ModeRow& RowOf(FaultMode mode) noexcept { return kModes[static_cast<size_t>(mode)]; }

inline const CounterRow& RowOf(FakeFault::Counter counter) noexcept {
  return kCounters[static_cast<size_t>(counter)];
}

inline bool HasKey(const ModeRow& row, std::string_view key) noexcept {
  return std::any_of(row.keys.begin(), row.keys.end(),
                     [&](std::string_view one) { return one.substr(0, one.find('!')) == key; });
}

template <class Rows, class Name = std::identity>
std::string FaultNames(const Rows& rows, Name name = {}) {
  std::string out;
  for (const auto& row : rows) out += (out.empty() ? "" : ", ") + std::string(std::invoke(name, row));
  return out;
}

}  // namespace gpulens::nvml
