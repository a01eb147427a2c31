#include "sdk/experiment/run_energy.h"

#include <exception>

namespace gpulens::experiments {

ExperimentEnergy QueryEnergy(const ExperimentEnergyMeter& meter, bool ended) {
  ExperimentEnergy failed{.method = {}, .validity = "source_failed", .reason = {}};
  try {
    return meter(ended);
  } catch (const std::exception& error) {
    failed.reason = error.what();
  } catch (...) {
    failed.reason = "an exception";
  }
  return failed;
}

EnergyRow ToRow(const ExperimentEnergy& energy) {
  return {.joules = energy.energy_joules,
          .uncertainty_joules = energy.uncertainty_joules,
          .attribution = energy.attribution,
          .device_joules = energy.device_energy_joules,
          .method = energy.method,
          .validity = energy.validity,
          .reason = energy.reason,
          .vendor = energy.vendor,
          .devices = energy.devices,
          .mean_power_watts = energy.mean_power_watts,
          .peak_power_watts = energy.peak_power_watts,
          .mean_utilization_ratio = energy.mean_utilization_ratio,
          .peak_utilization_ratio = energy.peak_utilization_ratio,
          .mean_memory_used_bytes = energy.mean_memory_used_bytes,
          .peak_memory_used_bytes = energy.peak_memory_used_bytes};
}

}  // namespace gpulens::experiments
