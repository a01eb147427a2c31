#include <gpulens/experiment_energy.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "base/threads.h"

namespace gpulens {
namespace {

// A monitor opens within 3 s; the rest is for a thread that is scheduled late.
constexpr Duration kOpeningTime = std::chrono::seconds(4);

ExperimentEnergy ToEnergy(const OwnEnergy& own) {
  const EnergyResult& result = own.energy;
  const EnergyTicks& ticks = result.ticks;
  const bool reported = own.attribution != EnergyAttribution::kNone;
  return {.energy_joules = result.energy_joules,
          .uncertainty_joules = result.uncertainty_joules,
          .attribution = reported ? std::string(EnergyAttributionName(own.attribution)) : std::string(),
          .device_energy_joules = result.device_energy_joules,
          .method = std::string(EnergyMethodName(result.method)),
          .validity = std::string(EnergyValidityName(result.validity)),
          .reason = result.reason,
          .vendor = std::string(EnergyVendorName(result.vendor)),
          .devices = result.devices,
          .mean_power_watts = ticks.mean_power_watts,
          .peak_power_watts = ticks.peak_power_watts,
          .mean_utilization_ratio = ticks.mean_utilization_ratio,
          .peak_utilization_ratio = ticks.peak_utilization_ratio,
          .mean_memory_used_bytes = ticks.mean_memory_used_bytes,
          .peak_memory_used_bytes = ticks.peak_memory_used_bytes};
}

// The energy window of a run. It may be opened later, by a thread that opens the devices, and then reaches
// back to the beginning.
class RunWindow {
 public:
  void Begin(EnergyMonitor monitor) {
    std::lock_guard lock(mutex_);
    window_.emplace(std::move(monitor), made_);
    begun_.notify_all();
  }

  ExperimentEnergy Query(bool ended) {
    std::unique_lock lock(mutex_);
    if (ended) begun_.wait_for(lock, kOpeningTime, [this] { return window_.has_value(); });
    if (!window_) {
      if (!ended) return {.method = {}, .validity = {}, .reason = {}};
      return {.method = {},
              .validity = "gap",
              .reason = "the devices were not open 4 s after the end of the run"};
    }
    return ToEnergy(ended ? window_->result() : window_->Estimate());
  }

 private:
  const TimePoint made_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable begun_;
  std::optional<OwnEnergyWindow> window_;
};

ExperimentEnergyMeter MeterOf(std::shared_ptr<RunWindow> window) {
  return [window = std::move(window)](bool ended) { return window->Query(ended); };
}

}  // namespace

ExperimentEnergyMeter EnergyOf(EnergyMonitor monitor) {
  auto window = std::make_shared<RunWindow>();
  window->Begin(std::move(monitor));
  return MeterOf(std::move(window));
}

ExperimentEnergyMeter EnergyOfThisMachine(EnergyOptions options) {
  auto window = std::make_shared<RunWindow>();
  Status started;
  {
    const SignalsBlocked quiet;
    started = StartDetachedThread([window, options = std::move(options)]() mutable {
      window->Begin(EnergyMonitor(std::move(options)));
    });
  }
  if (!started) {
    return [why = "the devices cannot be opened: " + started.detail](bool) {
      return ExperimentEnergy{.method = {}, .validity = "source_failed", .reason = why};
    };
  }
  return MeterOf(std::move(window));
}

}  // namespace gpulens
