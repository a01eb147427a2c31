#include "reader/crash_history.h"

#include <algorithm>

namespace gpulens::reader {
namespace {

// Ends of the process that nothing explains, until devices are begun one at a time; ends that the thread
// which waits for events brought, until it is not started.
constexpr int kUnexplainedEnds = 2, kEventEnds = 2;
// A device that was begun so many intervals before an end that nothing else explains is to blame for it.
constexpr int kBlameIntervals = 3;

}  // namespace

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

void CrashHistory::Start(Instant now) noexcept {
  one_by_one_ = unexplained_ >= kUnexplainedEnds;
  if (event_ends_ >= kEventEnds && now.boot_ns - event_end_ns_ >= limits_.rest.count())
    event_ends_ = kEventEnds - 1;  // One more chance.
  started_ns_ = now.boot_ns;
  begun_ = kMaxDevices;
  begun_ns_ = 0;
}

bool CrashHistory::waits_for_events() const noexcept { return event_ends_ < kEventEnds; }

void CrashHistory::Begun(uint32_t device, Instant now) noexcept {
  begun_ = device;
  begun_ns_ = now.boot_ns;
}

Culprit CrashHistory::Blame(const CallPage& page, bool in_call, Instant now) noexcept {
  if (now.boot_ns - started_ns_ >= limits_.healthy.count()) unexplained_ = 0;
  Culprit culprit = CulpritOf(page, in_call);
  const int64_t recent = kBlameIntervals * std::max(limits_.interval, limits_.deadline / 2).count();
  if (culprit.who == Culprit::kUnknown && begun_ != kMaxDevices && now.boot_ns - begun_ns_ <= recent)
    culprit = {Culprit::kDevice, begun_, kNoCall};
  // No device was begun yet: it was none of them.
  if (culprit.who == Culprit::kUnknown && one_by_one_ && begun_ == kMaxDevices)
    culprit = {Culprit::kWaiting, 0, kNoCall};
  if (culprit.who == Culprit::kUnknown) ++unexplained_;
  if (culprit.who == Culprit::kWaiting) {
    const bool recently = now.boot_ns - event_end_ns_ < limits_.rest.count();
    event_ends_ = recently ? event_ends_ + 1 : 1;
    event_end_ns_ = now.boot_ns;
  }
  return culprit;
}

}  // namespace gpulens::reader
