#include "sdk/energy/verdict.h"

#include <cstdio>

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
  const auto fill = [](const TickSums::One& one, double& mean, double& peak) {
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
