// Energy of a time window of a program, or of one request's share of it, in joules.
//
//   gpulens::EnergyMonitor monitor({.share = gpulens::Share::kByTokens});
//   auto request = monitor.Request();
//   …
//   request.AddTokens(128);
//   const auto energy = request.result();   // 41.8 J ± 0.6 J, or NaN and why
//
// One thread per process reads the devices, every 50 ms and when a result needs a reading; it ends with the
// last monitor and window. Windows neither wait nor lock: begin and end are two times, and the energy between
// them is computed from the readings around them. After fork() the child starts its own thread with its first
// window; windows that were open across the fork end in it as kSourceFailed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/energy_source.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

// How energy was measured: a joule counter of the hardware, or power integrated over time.
enum class EnergyMethod : uint8_t { kNone, kCounter, kPowerIntegral };
enum class EnergyValidity : uint8_t {
  kValid,
  kRunning,  // an estimate for a window that has not ended
  kNoDevice,
  kPermissionDenied,
  kSourceFailed,  // the source stopped answering
  kCounterReset,  // the driver was reloaded, or a counter decreased
  kGap,           // there are no readings, or the window began before the first one
};
// How energy is shared among the requests that are open at an instant: equally, or by the tokens added
// between two readings (equally where there were none).
enum class Share : uint8_t { kByTime, kByTokens };

// Static storage.
std::string_view EnergyMethodName(EnergyMethod method) noexcept;        // "counter", "power_integral", "none"
std::string_view EnergyValidityName(EnergyValidity validity) noexcept;  // "valid", "no_device", …

// ---- results
// Statistics of the readings within a window. At each reading power and memory are summed over devices, and
// utilization and temperature averaged.
struct EnergyTicks {
  uint32_t count = 0;
  double mean_power_watts = kNotMeasured, peak_power_watts = kNotMeasured;
  double mean_utilization_ratio = kNotMeasured, peak_utilization_ratio = kNotMeasured;
  double mean_memory_used_bytes = kNotMeasured, peak_memory_used_bytes = kNotMeasured;
  double mean_temperature_celsius = kNotMeasured, peak_temperature_celsius = kNotMeasured;
};

// One device's part of a result's energy.
struct EnergyOfDevice {
  std::string id = {};
  EnergyPart part = EnergyPart::kGpu;
  double energy_joules = kNotMeasured;
  EnergyValidity validity = EnergyValidity::kRunning;
};

struct EnergyResult {
  // Of a window the energy of its devices; of a request its share. The shares of an instant add up to the
  // devices'.
  double energy_joules = kNotMeasured;
  // Energy of the devices for all processes. Where there is a GPU, processor and memory are not included.
  double device_energy_joules = kNotMeasured;
  // Half-width of the interval around energy_joules: 95 of 100 windows of simulated loads are within it, with
  // a counter and without one. It does not include the sensor's own accuracy.
  double uncertainty_joules = kNotMeasured, sensor_accuracy_ratio = kNotMeasured;
  // As energy_joules, by part.
  double gpu_joules = kNotMeasured, cpu_joules = kNotMeasured, dram_joules = kNotMeasured;
  double mean_power_watts = kNotMeasured;  // energy_joules over the duration
  // By device, in the order of EnergyMonitor::devices(). The parts of a valid result add up to energy_joules;
  // one device may be known where the sum is not. A request has the same share of each device; a run has the
  // devices that its processes used. Empty for a phase.
  std::vector<EnergyOfDevice> by_device;
  EnergyTicks ticks;
  Duration duration{};
  uint32_t devices = 0;
  EnergyVendor vendor = EnergyVendor::kNone;
  EnergyMethod method = EnergyMethod::kNone;
  EnergyValidity validity = EnergyValidity::kRunning;
  std::string reason;  // why it is not valid and what to do, or a note
  // Of the electricity, in grams of CO2 equivalents per kilowatt-hour, as EnergyOptions has it.
  double carbon_grams_per_kwh = kNotMeasured;

  bool valid() const noexcept { return validity == EnergyValidity::kValid; }
  // Grams of CO2 equivalents of energy_joules; NaN where the energy or the intensity is unknown.
  double carbon_grams() const noexcept { return carbon_grams(carbon_grams_per_kwh); }
  double carbon_grams(double grams_per_kwh) const noexcept { return energy_joules / 3.6e6 * grams_per_kwh; }
};
// "41.8 J ± 0.6 J (counter, 0.520 s, 1 GPU, of 166.9 J on the device)"
std::string ToString(const EnergyResult& result);

// Returns the carbon intensity of a zone's electricity, in grams of CO2 equivalents per kilowatt-hour: the
// mean of a year, from a table in the library. A zone is "WORLD", a country of ISO 3166 with two or three
// letters
// ("DE", "DEU"), a bidding zone ("SE3") or a cloud's region ("aws/eu-central-1"), in any case.
// kInvalidArgument: the table has no such zone.
Result<double> CarbonIntensity(std::string_view zone);

// One reading of all devices.
struct EnergySample {
  TimePoint at{};
  double gpu_watts = kNotMeasured, cpu_watts = kNotMeasured, dram_watts = kNotMeasured;
  // Counted from an arbitrary zero.
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
struct WindowSync;
}  // namespace internal

// A time window, which the first of End, result and the destructor ends. Used by one thread at a time, except
// AddTokens, which any thread may call. Keeps the reading thread alive, also after the end of its monitor.
class [[nodiscard]] EnergyWindow {
 public:
  EnergyWindow(EnergyWindow&& other) noexcept;
  EnergyWindow& operator=(EnergyWindow&& other) noexcept;
  ~EnergyWindow();

  void End() noexcept;  // takes the time, and waits for nothing but the window's `sync`
  void AddTokens(int64_t tokens) noexcept;
  // Ends the previous phase and begins this one; phases of equal names add up. At most 8 names of 31 bytes;
  // further names count as the last one.
  void Mark(std::string_view phase) noexcept;

  // Result of a window that has ended, otherwise the energy up to now as kRunning. Never waits for a reading.
  EnergyResult Estimate() const;
  // Requests a closing reading and waits for it, at most this long. Without it the energy at the end is
  // extrapolated from the last power, with a wider uncertainty; a later call is more exact.
  EnergyResult result(Duration wait = std::chrono::milliseconds(20));
  EnergyResult phase(std::string_view name) const;  // as Estimate; kGap when there was no such mark

 private:
  friend class EnergyMonitor;
  EnergyWindow() noexcept = default;
  void LetGo() noexcept;
  void EndNow() noexcept;
  EnergyResult Inert() const;
  // Adds what the monitor and the window know of it.
  EnergyResult Complete(EnergyResult result) const;
  std::shared_ptr<internal::MonitorState> monitor_;
  internal::LiveMonitor* live_ = nullptr;
  sdk::WindowSlot* slot_ = nullptr;  // null: there is nothing to measure, or too many are open
  std::shared_ptr<internal::WindowSync> sync_;
  TimePoint begin_{}, end_{};
};

struct EnergyOptions {
  Share share = Share::kByTime;
  Duration interval = std::chrono::milliseconds(50);  // 1 ms to 1 s; the shortest of all monitors applies
  Duration history = std::chrono::minutes(1);         // how far back Between and History reach
  // Ids. Empty: the devices that this process may use (CUDA_VISIBLE_DEVICES, ROCR_ and HIP_VISIBLE_DEVICES).
  std::vector<std::string> devices = {};
  EnergyVendor prefer = EnergyVendor::kNone;   // tried first
  double carbon_grams_per_kwh = kNotMeasured;  // for EnergyResult::carbon_grams: *CarbonIntensity("DE")
  // Empty: the sources of this machine, read by one thread for all monitors. Otherwise only these, read by a
  // thread of their own.
  std::vector<std::shared_ptr<EnergySource>> sources = {};
};

// Measures one vendor's GPUs or, where there are none, the processors. Thread-safe. Copies share one monitor.
class EnergyMonitor {
 public:
  // Waits at most 3 s for the first reading.
  explicit EnergyMonitor(EnergyOptions options = {});

  Status status() const;  // an error: all results are invalid for this reason
  EnergyVendor vendor() const noexcept;
  std::vector<EnergyDevice> devices() const;  // measured devices, processor and memory included

  // `sync` waits for the work that the program has queued on its devices, such as
  // [] { cudaDeviceSynchronize(); }: it is called here before the begin is taken, and by End() or result(),
  // on their thread, before the end is. Without it a window around asynchronous calls measures their
  // submission. What it throws is caught: the window goes on, and the reason of its result has the text. The
  // destructor does not call it.
  using Sync = std::function<void()>;
  EnergyWindow Window(Sync sync = {}) noexcept;   // whole devices; windows may nest and overlap
  EnergyWindow Request(Sync sync = {}) noexcept;  // a share among the requests that are open at each instant
  EnergyResult Between(TimePoint from, TimePoint to) const;
  std::vector<EnergySample> History(TimePoint from, TimePoint to) const;
  // Energy since the monitor began while no request was open, up to the last reading that is accounted for.
  double unattributed_joules() const;

 private:
  friend class OwnEnergyWindow;  // energy_own.h
  EnergyWindow Begin(bool shares, Sync sync) noexcept;
  std::shared_ptr<internal::MonitorState> state_;
};

}  // namespace gpulens
