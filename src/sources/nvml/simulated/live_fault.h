// Faults of the simulated NVIDIA library that are put in while a program reads it: what a fault is, as one
// line of words, and the script of them that the library follows. The agent writes scripts, the library
// reads them; a person writes the same words on a command line.
//
// A line is KEY=VALUE words, of which `mode` says what goes wrong; FaultHelp() tells the rest. A script is
// the line "gpulens-faults 1" and a line for each fault, with its number and its times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {

inline constexpr size_t kMaxLiveFaults = 64;
inline constexpr size_t kMaxFaultLine = 512;  // bytes
inline constexpr size_t kMaxFaultScript = 40 << 10;
inline constexpr int64_t kFaultForEver = INT64_MAX;

enum class FaultMode : uint8_t {
  kLost,
  kFallenOffBus,
  kHang,
  kSlow,
  kCrash,
  kCrashLoop,
  kError,
  kFlaky,
  kInsufficientPower,
  kResetRequired,
  kReset,
  kVanish,
  kRenumber,
  kXid,
  kEccUncorrectable,
  kEccCorrectable,
  kCounter,
  kThrottle,
  kWrongValue,
  kStuck,
  kEnergyBackward,
  kCount,
};

// What a sensor tells; one reading may be asked for by several calls.
enum class FaultReading : uint8_t { kPower, kEnergy, kTemperature, kUtilization, kMemory, kClock, kCount };
inline constexpr size_t kFaultReadings = static_cast<size_t>(FaultReading::kCount);

// How a call ends the process that reads the GPUs, or its way to the agent.
enum class FaultEnd : uint8_t { kSignal, kAbort, kExit, kClose, kGarbage, kStop, kMemory, kFiles, kCount };

struct LiveFault {
  uint32_t id = 0;
  int gpu = -1;  // As numbered in the profile; -1: all.
  FaultMode mode = FaultMode::kLost;
  int64_t from_ns = 0, to_ns = kFaultForEver;  // CLOCK_BOOTTIME.
  std::string call = "*";                      // "*": every call that takes a GPU.
  int code = 0;                                // Of the library, or an XID.
  uint64_t value = 0;                          // kWrongValue: the bits; kThrottle: the reasons.
  FaultReading reading = FaultReading::kPower;
  FakeFault::Counter counter = FakeFault::Counter::kEccCorrected;
  unsigned amount = 1;    // Counted; kEnergyBackward: J.
  int64_t delay_ns = 0;   // kSlow
  unsigned percent = 50;  // kFlaky: of the calls
  uint64_t seed = 1;
  unsigned index = 0;                // kRenumber
  FaultEnd how = FaultEnd::kSignal;  // kCrash, kCrashLoop

  bool Holds(int of_gpu, int64_t now_ns) const noexcept {
    return (gpu < 0 || gpu == of_gpu) && now_ns >= from_ns && now_ns < to_ns;
  }
  // Whether a call is meant; `*` means those that take a GPU.
  bool Means(std::string_view a_call, int of_gpu) const noexcept {
    return call == a_call || (call == "*" && of_gpu >= 0);
  }
  friend bool operator==(const LiveFault&, const LiveFault&) = default;
};

// The words of a command line, "gpu=3 mode=xid code=79 after=2s for=10s", as a fault that begins `after` the
// time given. kInvalidArgument says which word is wrong and what is right. `id` stays 0.
Result<LiveFault> ParseFaultOrder(std::string_view words, int64_t now_ns);

// A line of a script, and back. Whatever FormatFault writes is read again as the same.
std::string FormatFault(const LiveFault& fault);
std::string FormatFaultScript(const std::vector<LiveFault>& faults);
Result<std::vector<LiveFault>> ParseFaultScript(std::string_view text);

// "2", "0.5", "500ms", "2s", "1m": up to 24 h. In ns.
Result<int64_t> ParseFaultTime(std::string_view text);

std::string_view FaultModeName(FaultMode mode) noexcept;
// A count that stays when the fault is over: counters do not fall.
bool FaultLeavesCount(const LiveFault& fault) noexcept;
// "GPU 3 · xid code=79 · since 4 s, for 6 s more", for people.
std::string DescribeFault(const LiveFault& fault, int64_t now_ns);
// A table of all modes with their keys.
std::string FaultHelp();

}  // namespace gpulens::nvml
