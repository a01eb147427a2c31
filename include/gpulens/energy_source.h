// Where energy readings come from: for devices that this library does not know itself. A monitor that is
// given sources reads these alone, by a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

enum class EnergyVendor : uint8_t { kNone, kNvidia, kAmd, kApple, kCpuRapl };  // in order of preference
enum class EnergyPart : uint8_t { kGpu, kCpu, kDram };

// "nvidia", "amd", "apple", "cpu_rapl", "none". Static storage.
std::string_view EnergyVendorName(EnergyVendor vendor) noexcept;

struct EnergyDevice {
  std::string id = {}, name = {};  // unique among devices: a UUID, "package-0"; a product
  EnergyPart part = EnergyPart::kGpu;
  bool usable = true;                 // this process may use it
  double most_watts = kNotMeasured;   // that it can draw: bounds what lies between two readings
  double counter_step_joules = 1e-3;  // the counter's resolution
  // How old the counter's value may be when it is read: 0 is written as it is read, negative is not known.
  Duration counter_lag{0};
  double accuracy_ratio = kNotMeasured;  // of the sensor, as its vendor states
};

// Joules count up from any zero. NaN: not known.
struct EnergyReading {
  double joules = kNotMeasured, watts = kNotMeasured;
  double utilization_ratio = kNotMeasured, memory_used_bytes = kNotMeasured;
  double temperature_celsius = kNotMeasured;
  double processes = kNotMeasured;  // that use the device, this one included
  // Between which two times it was read, where that was not during the call: another process has read it.
  // Zero: during the call.
  TimePoint began{}, ended{};
};

// Somebody who uses a device. A process that is in no list of utilizations was idle: 0, not NaN.
struct EnergyProcess {
  uint32_t pid = 0;  // as the host numbers it; 0: not told
  bool own = false;  // this process, one that descends from it, or one of the same GPULENS_RUN_ID
  double utilization_ratio = kNotMeasured;  // of the device's SMs; of a processor its time
  double memory_used_bytes = kNotMeasured;
};
struct EnergyProcesses {
  std::vector<EnergyProcess> list;
  // Utilizations are of the time since the last answer, all of it, and tell of a processor's time.
  bool since_last = false;
};

// All but Doing is called by one thread, that of the sampler. What it throws counts as a failed reading.
class EnergySource {
 public:
  virtual ~EnergySource() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual EnergyVendor vendor() const noexcept = 0;  // of its GPUs; kCpuRapl where it has none
  // Before any reading; again in a child after fork(), and while readings of a device fail: after 1 s, then
  // after twice as long, at most 60 s. Devices are known by their id. kUnavailable: this machine has none of
  // it.
  virtual Result<std::vector<EnergyDevice>> Open() = 0;
  // Of the device with this number in the list of the last Open that was ok. `out` is all NaN.
  virtual Status Read(size_t device, EnergyReading& out) = 0;
  // Who uses the device. kUnavailable: it does not tell that, or not with numbers that mean something here.
  virtual Status Processes(size_t /*device*/, EnergyProcesses& /*out*/) {
    return {Code::kUnavailable, "this source does not tell who uses a device"};
  }
  // What it is in now, for people, when Read does not return. Any thread.
  virtual std::string Doing() const { return {}; }
};

// The GPUs that the agent of this machine reads for programs. Without sources NVIDIA's are read by NVML in
// this process, and by the agent where that cannot be. Empty: the agent's usual socket.
std::shared_ptr<EnergySource> EnergyOfAgent(std::string socket = {},
                                            EnergyVendor vendor = EnergyVendor::kNvidia);

}  // namespace gpulens
