#include <cmath>
#include <cstdio>

#include <gpulens/energy.h>

namespace gpulens {

std::string_view EnergyVendorName(EnergyVendor vendor) noexcept {
  switch (vendor) {
    case EnergyVendor::kNone: return "none";
    case EnergyVendor::kNvidia: return "nvidia";
    case EnergyVendor::kAmd: return "amd";
    case EnergyVendor::kApple: return "apple";
    case EnergyVendor::kCpuRapl: return "cpu_rapl";
  }
  return "none";
}

std::string_view EnergyMethodName(EnergyMethod method) noexcept {
  switch (method) {
    case EnergyMethod::kNone: return "none";
    case EnergyMethod::kCounter: return "counter";
    case EnergyMethod::kPowerIntegral: return "power_integral";
  }
  return "none";
}

std::string_view EnergyValidityName(EnergyValidity validity) noexcept {
  switch (validity) {
    case EnergyValidity::kValid: return "valid";
    case EnergyValidity::kRunning: return "running";
    case EnergyValidity::kNoDevice: return "no_device";
    case EnergyValidity::kPermissionDenied: return "permission_denied";
    case EnergyValidity::kSourceFailed: return "source_failed";
    case EnergyValidity::kCounterReset: return "counter_reset";
    case EnergyValidity::kGap: return "gap";
  }
  return "gap";
}

std::string ToString(const EnergyResult& result) {
  if (std::isnan(result.energy_joules))
    return "no energy (" + std::string(EnergyValidityName(result.validity)) + ": " + result.reason + ")";
  const bool gpu = result.vendor != EnergyVendor::kCpuRapl;
  char text[256];
  const double seconds = std::chrono::duration<double>(result.duration).count();
  int size = std::snprintf(text, sizeof text, "%.1f J ± %.1f J (%s, %.3f s, %u %s%s", result.energy_joules,
                           result.uncertainty_joules, EnergyMethodName(result.method).data(), seconds,
                           result.devices, gpu ? "GPU" : "CPU zone", result.devices == 1 ? "" : "s");
  std::string out(text, static_cast<size_t>(size));
  if (result.device_energy_joules > result.energy_joules + 0.05) {
    size = std::snprintf(text, sizeof text, ", of %.1f J on the device%s", result.device_energy_joules,
                         result.devices == 1 ? "" : "s");
    out.append(text, static_cast<size_t>(size));
  }
  if (result.validity == EnergyValidity::kRunning) out += ", running";
  return out + ")";
}

}  // namespace gpulens
