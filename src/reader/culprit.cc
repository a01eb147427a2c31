#include "reader/culprit.h"

namespace gpulens::driver {

Culprit CulpritOf(const CallPage& page, bool in_call) noexcept {
  const uint32_t ended_in = page.ended_in.load(std::memory_order_acquire);
  if (ended_in == kEndedInMain) return {Culprit::kMain, 0, page.main.Read().call};
  if (ended_in == kEndedInWaiting) return {Culprit::kWaiting, 0, page.waiting.Read().call};
  if (ended_in >= kEndedInDevice && ended_in < kEndedInWaiting) {
    const uint32_t device = ended_in - kEndedInDevice;
    return {Culprit::kDevice, device, page.devices[device].Read().call};
  }
  if (!in_call) return {};
  if (CallNumber call = page.main.Read().call; call != kNoCall) return {Culprit::kMain, 0, call};
  Culprit only;
  for (uint32_t device = 0; device < kMaxDevices; ++device) {
    const CallNumber call = page.devices[device].Read().call;
    if (call == kNoCall) continue;
    if (only.who == Culprit::kDevice) return {};
    only = {Culprit::kDevice, device, call};
  }
  return only;
}

}  // namespace gpulens::driver
