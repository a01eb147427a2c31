// Interface of energy sources, for devices that this library does not support itself. A monitor with sources
// of its own reads only these, on a thread of its own.
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
  double most_watts = kNotMeasured;   // the most it can draw: bounds the energy between two readings
  double counter_step_joules = 1e-3;  // the counter's resolution
  // Age of the counter's value when it is read, at most: 0 for a value taken at the read, negative if
  // unknown.
  Duration counter_lag{0};
  double accuracy_ratio = kNotMeasured;  // of the sensor, as its vendor states
};

// One reading of a device. Joules count up from an arbitrary zero. NaN where unknown.
struct EnergyReading {
  double joules = kNotMeasured, watts = kNotMeasured;
  double utilization_ratio = kNotMeasured, memory_used_bytes = kNotMeasured;
  double temperature_celsius = kNotMeasured;
  double processes = kNotMeasured;  // number of processes that use the device, this one included
  // The times between which another process read the device. Zero: it was read during the call.
  TimePoint began{}, ended{};
};

// A process that uses a device. A process absent from the driver's list of utilizations was idle: 0, not NaN.
struct EnergyProcess {
  uint32_t pid = 0;                         // in the host's namespace; 0: unknown
  bool own = false;                         // this process, a descendant, or one with the same GPULENS_RUN_ID
  double utilization_ratio = kNotMeasured;  // of the device's SMs; for a processor, its time
  double memory_used_bytes = kNotMeasured;
};
struct EnergyProcesses {
  std::vector<EnergyProcess> list;
  // Utilizations cover all the time since the previous answer, and are shares of processor time.
  bool since_last = false;
};

// A source of readings. Only the sampler's thread calls it, except for Doing. An exception counts as a failed
// reading.
class EnergySource {
 public:
  virtual ~EnergySource() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual EnergyVendor vendor() const noexcept = 0;  // of its GPUs; kCpuRapl where it has none
  // Lists the devices. Called before any reading, again in a child after fork(), and while readings of a
  // device fail: after 1 s, then after twice as long each time, at most 60 s. The id identifies a device
  // across calls. kUnavailable: this machine has no such device.
  virtual Result<std::vector<EnergyDevice>> Open() = 0;
  // Reads the device with this index in the list of the last successful Open. `out` is all NaN at the call.
  virtual Status Read(size_t device, EnergyReading& out) = 0;
  // Lists the processes that use the device. kUnavailable: the source does not report them, or only in
  // another namespace of process ids.
  virtual Status Processes(size_t /*device*/, EnergyProcesses& /*out*/) {
    return {Code::kUnavailable, "this source does not tell who uses a device"};
  }
  // Names the call in progress, for messages about a Read that does not return. Called by any thread.
  virtual std::string Doing() const { return {}; }
};

// Source of the GPUs that the agent of this machine reads for programs. Monitors without sources of their own
// read NVIDIA's GPUs by NVML in this process, and by the agent where NVML fails. Empty: the agent's usual
// socket.
std::shared_ptr<EnergySource> EnergyOfAgent(std::string socket = {},
                                            EnergyVendor vendor = EnergyVendor::kNvidia);

}  // namespace gpulens
