// Energy functions of gpulens/c.h: a file of their own, since they link the libraries that read devices.
#include <gpulens/c.h>
#include <gpulens/energy.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>

#include "sdk/c/c_state.h"

struct gpulens_window {
  gpulens::EnergyWindow window;
};

namespace gpulens::sdk {
namespace {

static_assert(GPULENS_METHOD_POWER_INTEGRAL == static_cast<int>(EnergyMethod::kPowerIntegral));
static_assert(GPULENS_GAP == static_cast<int>(EnergyValidity::kGap));

// Returns the monitor for this way to share, which lives as long as the process.
EnergyMonitor& MonitorOf(Share share) {
  const auto make = [](Share of) {
    EnergyOptions options;
    options.share = of;
    return new EnergyMonitor(options);
  };
  if (share == Share::kByTokens) {
    static EnergyMonitor* const by_tokens = make(Share::kByTokens);
    return *by_tokens;
  }
  static EnergyMonitor* const by_time = make(Share::kByTime);
  return *by_time;
}

EnergyWindow Begin(int share) {
  if (share == GPULENS_SHARE_BY_TOKENS) return MonitorOf(Share::kByTokens).Request();
  if (share == GPULENS_SHARE_BY_TIME) return MonitorOf(Share::kByTime).Request();
  return MonitorOf(Share::kByTime).Window();
}

Status StatusOf(const EnergyResult& result) {
  Code code = Code::kDataLoss;
  switch (result.validity) {
    case EnergyValidity::kValid: return {};
    case EnergyValidity::kNoDevice: code = Code::kUnavailable; break;
    case EnergyValidity::kPermissionDenied: code = Code::kPermissionDenied; break;
    case EnergyValidity::kSourceFailed: code = Code::kIo; break;
    case EnergyValidity::kRunning:
    case EnergyValidity::kCounterReset:
    case EnergyValidity::kGap: break;
  }
  const std::string name(EnergyValidityName(result.validity));
  return {code, result.reason.empty() ? name : name + ": " + result.reason};
}

}  // namespace
}  // namespace gpulens::sdk

gpulens_window* gpulens_window_begin(int share) { return new gpulens_window{gpulens::sdk::Begin(share)}; }

void gpulens_window_tokens(gpulens_window* window, int64_t tokens) {
  if (window) window->window.AddTokens(tokens);
}

int gpulens_window_end(gpulens_window* window, gpulens_energy* energy) {
  using namespace gpulens;
  if (!window) return sdk::Reported({Code::kInvalidArgument, "there is no window"});
  const std::unique_ptr<gpulens_window> owned(window);
  const EnergyResult result = owned->window.result();
  if (energy) {
    gpulens_energy reported{.size = energy->size,
                            .energy_joules = result.energy_joules,
                            .device_energy_joules = result.device_energy_joules,
                            .uncertainty_joules = result.uncertainty_joules,
                            .duration_seconds = std::chrono::duration<double>(result.duration).count(),
                            .method = static_cast<int32_t>(result.method),
                            .validity = static_cast<int32_t>(result.validity),
                            .device_joules = nullptr,
                            .device_capacity = 0,
                            .device_count = result.by_device.size()};
    if (energy->size >= offsetof(gpulens_energy, device_count)) {
      reported.device_joules = energy->device_joules;
      reported.device_capacity = energy->device_capacity;
      const size_t room = energy->device_joules ? energy->device_capacity : 0;
      for (size_t i = 0; i < std::min(room, result.by_device.size()); ++i)
        energy->device_joules[i] = result.by_device[i].energy_joules;
    }
    std::memcpy(energy, &reported, std::min(energy->size, sizeof reported));
  }
  return sdk::Reported(sdk::StatusOf(result));
}
