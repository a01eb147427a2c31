#include "sdk/energy/result_text.h"

#include <cmath>
#include <cstdio>

#include <gpulens/energy.h>

namespace gpulens::sdk {

using energy::Flaw;

void ReportSilence(const Track& track, int64_t now_ns, EnergyResult& out) {
  out.validity = EnergyValidity::kSourceFailed;
  char text[64] = " has never answered";
  if (track.read_ns != 0)
    std::snprintf(text, sizeof text, " has not answered for %.1f s",
                  static_cast<double>(now_ns - track.read_ns) * 1e-9);
  out.reason = std::string(track.source->name()) + ": " + track.device.id + text;
  const std::string doing = track.source->Doing();
  if (!track.failure.ok()) out.reason += ": " + track.failure.detail;
  else if (!doing.empty()) out.reason += ", in " + doing;
}

void ReportFlaw(Flaw flaw, const std::string& more, EnergyResult& out) {
  switch (flaw) {
    case Flaw::kNone: out.validity = EnergyValidity::kValid; return;
    case Flaw::kCounterReset:
      out.validity = EnergyValidity::kCounterReset;
      out.reason = "an energy counter fell meanwhile: a driver was reloaded, or a GPU was reset" + more;
      return;
    case Flaw::kGap:
      out.validity = EnergyValidity::kGap;
      out.reason =
          "nothing was read for 2 s or longer meanwhile: the process was stopped, or a driver hung" + more;
      return;
    case Flaw::kOutside:
      out.validity = EnergyValidity::kGap;
      out.reason =
          "it begins before the stored readings: before the first one, or longer ago than the history" + more;
      return;
    case Flaw::kNoSensor:
      out.validity = EnergyValidity::kSourceFailed;
      out.reason = "the devices report neither energy nor power";
      return;
  }
}

std::string Comeback(const Track& track) {
  if (track.back_ns == 0) return {};
  return "; " + std::string(track.source->name()) + ": " + track.device.id + " was lost and is back";
}

void FillTicks(const TickSums& sums, EnergyTicks& out) {
  out.count = sums.count;
  const auto fill = [](const TickSums::Statistic& one, double& mean, double& peak) {
    if (one.count == 0) return;
    mean = one.sum / one.count;
    peak = one.peak;
  };
  fill(sums.watts, out.mean_power_watts, out.peak_power_watts);
  fill(sums.utilization, out.mean_utilization_ratio, out.peak_utilization_ratio);
  fill(sums.memory, out.mean_memory_used_bytes, out.peak_memory_used_bytes);
  fill(sums.temperature, out.mean_temperature_celsius, out.peak_temperature_celsius);
}

}  // namespace gpulens::sdk

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
