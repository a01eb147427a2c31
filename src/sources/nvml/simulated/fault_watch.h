// Faults of the simulated NVIDIA library that are put in while a program reads it: what a fault is, as one
// line of words, and the script of them that the library follows. The agent writes scripts, the library
// reads them; a person writes the same words on a command line.
//
// A line is KEY=VALUE words, of which `mode` is the fault; FaultHelp() lists the others. A script is
// the line "gpulens-faults 1" and a line for each fault, with its number and its times.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
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

// A reading of a sensor; several calls may return it.
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
  // Whether it concerns the call; `*` means all that take a GPU.
  bool Means(std::string_view a_call, int of_gpu) const noexcept {
    return call == a_call || (call == "*" && of_gpu >= 0);
  }
  friend bool operator==(const LiveFault&, const LiveFault&) = default;
};

// The words of a command line, "gpu=3 mode=xid code=79 after=2s for=10s", as a fault that begins `after` the
// time given. kInvalidArgument names the wrong word and what is allowed. `id` stays 0.
Result<LiveFault> ParseFaultOrder(std::string_view words, int64_t now_ns);

// A line of a script, and back: what FormatFault writes is read as the same fault.
std::string FormatFault(const LiveFault& fault);
std::string FormatFaultScript(const std::vector<LiveFault>& faults);
Result<std::vector<LiveFault>> ParseFaultScript(std::string_view text);

// "2", "0.5", "500ms", "2s", "1m": up to 24 h. In ns.
Result<int64_t> ParseFaultTime(std::string_view text);

std::string_view FaultModeName(FaultMode mode) noexcept;
// Whether the count stays when the fault is over, as counters do not fall.
bool FaultLeavesCount(const LiveFault& fault) noexcept;
// "GPU 3 · xid code=79 · since 4 s, for 6 s more", for people.
std::string DescribeFault(const LiveFault& fault, int64_t now_ns);
// A table of all modes with their keys.
std::string FaultHelp();

// The simulated library's side of a fault script: reads it again when it has changed, and decides how a call
// fails and what a GPU shows.

// The variable that names the script's file.
inline constexpr const char* kFaultFileVariable = "GPULENS_FAKE_NVML_FAULTS";

// What is to happen to a call.
struct FaultGate {
  enum Kind : uint8_t { kPass, kFail, kWait, kDie } kind = kPass;
  int code = 0;                      // kFail
  int64_t delay_ns = 0;              // To wait before anything else.
  FaultEnd how = FaultEnd::kSignal;  // kDie
};

struct FaultCall {
  std::string_view name;
  int gpu = -1;           // As numbered in the profile; -1: a call that takes none.
  int64_t now_ns = 0;     // CLOCK_BOOTTIME
  int64_t opened_ns = 0;  // When this process opened the library.
  uint64_t number = 0;    // How often it was called for this GPU.
};

using FaultScript = std::shared_ptr<const std::vector<LiveFault>>;

// Not thread-safe: the world's lock guards it.
class FaultWatch {
 public:
  // Follows the file that the environment names; without one, nothing ever fails.
  FaultWatch();
  // For tests, in place of the file.
  void Use(std::vector<LiveFault> faults);

  // Checks whether the file has changed, at most each 20 ms of `now_ns`. A wrong script is reported on
  // stderr, and the previous faults stay.
  void Look(int64_t now_ns);
  const FaultScript& script() const noexcept { return script_; }

 private:
  std::string path_;
  FileMark seen_;
  int64_t last_look_ns_ = 0;
  FaultScript script_ = std::make_shared<const std::vector<LiveFault>>();
};

FaultGate GateOf(const std::vector<LiveFault>& faults, const FaultCall& call);
// Whether a library that is opened at `now_ns` does not find the GPU.
bool IsVanished(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept;
// When the counters of the GPU restarted; 0: never.
int64_t LastReset(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept;
// What faults have added to a counter since the last reset.
unsigned CountOf(const std::vector<LiveFault>& faults, FakeFault::Counter counter, int gpu,
                 int64_t now_ns) noexcept;

// The event that a fault causes at its beginning, as in DeviceEvent; type 0: none.
struct FaultEvent {
  uint64_t type = 0, data = 0;
};
FaultEvent EventOf(const LiveFault& fault) noexcept;

}  // namespace gpulens::nvml
