// The simulated library's side of a script of faults: reads it again when it has changed, and says what a
// call meets and what a GPU shows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "sources/nvml/simulated/live_fault.h"

namespace gpulens::nvml {

// The variable that names the script's file.
inline constexpr const char* kFaultFileVariable = "GPULENS_FAKE_NVML_FAULTS";

// What a call meets at the gate.
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
  // For tests: this instead.
  void Use(std::vector<LiveFault> faults);

  // Looks whether the file has changed, at most each 20 ms of `now_ns`. A script that is wrong is told on
  // stderr, and the faults before it go on.
  void Look(int64_t now_ns);
  const FaultScript& script() const noexcept { return script_; }

 private:
  std::string path_;
  FileMark seen_;
  int64_t last_look_ns_ = 0;
  FaultScript script_ = std::make_shared<const std::vector<LiveFault>>();
};

FaultGate GateOf(const std::vector<LiveFault>& faults, const FaultCall& call);
// Whether the GPU is not there for a library that is opened at `now_ns`.
bool IsVanished(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept;
// When the counters of the GPU began anew; 0: never.
int64_t LastReset(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept;
// What faults have added to a counter since the last reset.
unsigned CountOf(const std::vector<LiveFault>& faults, FakeFault::Counter counter, int gpu,
                 int64_t now_ns) noexcept;

// The event that a fault brings at its beginning, as in DeviceEvent. No type: none.
struct FaultEvent {
  uint64_t type = 0, data = 0;
};
FaultEvent EventOf(const LiveFault& fault) noexcept;

}  // namespace gpulens::nvml
