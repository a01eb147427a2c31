// Joules of a stretch of a program's time, or of one request's share of it.
//
//   gpulens::EnergyMonitor monitor({.share = gpulens::Share::kByTokens});
//   auto request = monitor.Request();
//   …
//   request.AddTokens(128);
//   const auto energy = request.result();   // 41.8 J ± 0.6 J, or NaN and why
//
// One thread per process reads the devices, every 50 ms and when a result asks for it; it ends with the last
// monitor and window. Windows neither wait nor lock: begin and end are two times, and what lies in between is
// computed from the readings around them. After fork() the child reads anew from its first window on; windows
// that were open across the fork end in it as kSourceFailed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/energy_source.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

// The hardware's joules; watts over time.
enum class EnergyMethod : uint8_t { kNone, kCounter, kPowerIntegral };
enum class EnergyValidity : uint8_t {
  kValid,
  kRunning,  // an estimate of a window that has not ended
  kNoDevice,
  kPermissionDenied,
  kSourceFailed,  // it stopped answering
  kCounterReset,  // the driver was loaded anew, or a counter fell
  kGap,           // no readings, or it began before the first
};
// Among the requests that are open at an instant: in equal parts, or by the tokens added between two readings
// (where nobody added any, in equal parts).
enum class Share : uint8_t { kByTime, kByTokens };

// Static storage.
std::string_view EnergyMethodName(EnergyMethod method) noexcept;        // "counter", "power_integral", "none"
std::string_view EnergyValidityName(EnergyValidity validity) noexcept;  // "valid", "no_device", …

// ---- results
// What was read meanwhile: over the readings of all devices at once, power and memory summed over devices,
// utilization and temperature their mean.
struct EnergyTicks {
  uint32_t count = 0;
  double mean_power_watts = kNotMeasured, peak_power_watts = kNotMeasured;
  double mean_utilization_ratio = kNotMeasured, peak_utilization_ratio = kNotMeasured;
  double mean_memory_used_bytes = kNotMeasured, peak_memory_used_bytes = kNotMeasured;
  double mean_temperature_celsius = kNotMeasured, peak_temperature_celsius = kNotMeasured;
};

struct EnergyResult {
  // A window: what its devices drew. A request: its share; the shares of an instant add up to the devices.
  double energy_joules = kNotMeasured;
  // What the devices drew meanwhile, whoever caused it. Processor and memory beside a GPU are never added.
  double device_energy_joules = kNotMeasured;
  // Half-width. With a counter a bound, of an integral an estimate that 95 of 100 windows keep. Apart from
  // it: the sensor's own accuracy.
  double uncertainty_joules = kNotMeasured, sensor_accuracy_ratio = kNotMeasured;
  // As energy_joules.
  double gpu_joules = kNotMeasured, cpu_joules = kNotMeasured, dram_joules = kNotMeasured;
  double mean_power_watts = kNotMeasured;  // energy_joules over the duration
  EnergyTicks ticks;
  Duration duration{};
  uint32_t devices = 0;
  EnergyVendor vendor = EnergyVendor::kNone;
  EnergyMethod method = EnergyMethod::kNone;
  EnergyValidity validity = EnergyValidity::kRunning;
  std::string reason;  // why it is not valid, and what to do; or what else to know

  bool valid() const noexcept { return validity == EnergyValidity::kValid; }
};
// "41.8 J ± 0.6 J (counter, 0.520 s, 1 GPU, of 166.9 J on the device)"
std::string ToString(const EnergyResult& result);

// All devices at one reading.
struct EnergySample {
  TimePoint at{};
  double gpu_watts = kNotMeasured, cpu_watts = kNotMeasured, dram_watts = kNotMeasured;
  // Since any zero.
  double gpu_joules = kNotMeasured, cpu_joules = kNotMeasured, dram_joules = kNotMeasured;
  double utilization_ratio = kNotMeasured, memory_used_bytes = kNotMeasured;
  double temperature_celsius = kNotMeasured;
};

namespace sdk {
class WindowSlot;
}
namespace internal {
class MonitorState;
struct LiveMonitor;
}  // namespace internal

// A stretch of time; its end is that of the first of End, result, destructor. Used by one thread at a
// time, but AddTokens by any. Keeps the reading alive, also past its monitor.
class [[nodiscard]] EnergyWindow {
 public:
  EnergyWindow(EnergyWindow&& other) noexcept;
  EnergyWindow& operator=(EnergyWindow&& other) noexcept;
  ~EnergyWindow();

  void End() noexcept;  // takes the time, never waits
  void AddTokens(int64_t tokens) noexcept;
  // Ends the phase before; equal names add up. At most 8 names of 31 bytes, further ones are the last.
  void Mark(std::string_view phase) noexcept;

  // Never waits for a reading. Of a window that has ended as result; else kRunning, up to now.
  EnergyResult Estimate() const;
  // Asks for a closing reading and waits for it at most so long. Without it the end is placed by the
  // power of before, with a wider uncertainty; a later call tells more.
  EnergyResult result(Duration wait = std::chrono::milliseconds(20));
  EnergyResult phase(std::string_view name) const;  // as Estimate; kGap when there was no such mark

 private:
  friend class EnergyMonitor;
  EnergyWindow() noexcept = default;
  void LetGo() noexcept;
  EnergyResult Inert() const;
  std::shared_ptr<internal::MonitorState> monitor_;
  internal::LiveMonitor* live_ = nullptr;
  sdk::WindowSlot* slot_ = nullptr;  // null: there is nothing to measure, or too many are open
  TimePoint begin_{}, end_{};
};

struct EnergyOptions {
  Share share = Share::kByTime;
  Duration interval = std::chrono::milliseconds(50);  // 1 ms to 1 s; of all monitors the shortest counts
  Duration history = std::chrono::minutes(1);         // that Between and History can look back
  // Ids. Empty: those that this process may use (CUDA_VISIBLE_DEVICES, ROCR_ and HIP_VISIBLE_DEVICES).
  std::vector<std::string> devices = {};
  EnergyVendor prefer = EnergyVendor::kNone;  // tried first
  // Empty: those of this machine, by one thread for all monitors. Else these alone, by a thread of their own.
  std::vector<std::shared_ptr<EnergySource>> sources = {};
};

// Of one vendor's GPUs, else of the processors. Thread-safe. Copies are the same monitor.
class EnergyMonitor {
 public:
  // Waits for the first reading, at most 3 s.
  explicit EnergyMonitor(EnergyOptions options = {});

  Status status() const;  // not ok: all results are invalid, and this is why
  EnergyVendor vendor() const noexcept;
  std::vector<EnergyDevice> devices() const;  // whose energy it tells, processor and memory included

  EnergyWindow Window() noexcept;   // nests, overlaps, takes nothing from others
  EnergyWindow Request() noexcept;  // a share among the monitor's requests that are open at each instant
  EnergyResult Between(TimePoint from, TimePoint to) const;
  std::vector<EnergySample> History(TimePoint from, TimePoint to) const;
  // Drawn since the monitor began while no request was open, as far as it is settled.
  double unattributed_joules() const;

 private:
  friend class OwnEnergyWindow;  // energy_own.h
  EnergyWindow Begin(bool shares) noexcept;
  std::shared_ptr<internal::MonitorState> state_;
};

}  // namespace gpulens
