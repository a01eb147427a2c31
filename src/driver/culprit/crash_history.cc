#include "driver/culprit/crash_history.h"

#include <algorithm>

namespace gpulens::driver {
namespace {

// Ends of the process that nothing explains, until devices are begun one at a time; ends that the thread
// which waits for events brought, until it is not started.
constexpr int kUnexplainedEnds = 2, kEventEnds = 2;
// A device that was begun so many intervals before an end that nothing else explains is to blame for it.
constexpr int kBlameIntervals = 3;

}  // namespace

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

void CrashHistory::Forget() noexcept {
  book_.ForgetFaults();
  unexplained_ = event_ends_ = 0;
}

std::string CrashHistory::Blame(const CallPage& page, bool in_call, Instant now) {
  if (now.boot_ns - started_ns_ >= limits_.healthy.count()) unexplained_ = 0;
  Culprit culprit = CulpritOf(page, in_call);
  const int64_t recent = kBlameIntervals * std::max(limits_.interval, limits_.deadline / 2).count();
  if (culprit.who == Culprit::kUnknown && begun_ != kMaxDevices && now.boot_ns - begun_ns_ <= recent)
    culprit = {Culprit::kDevice, begun_, kNoCall};
  // No device was begun yet: it was none of them.
  if (culprit.who == Culprit::kUnknown && one_by_one_ && begun_ == kMaxDevices)
    culprit = {Culprit::kWaiting, 0, kNoCall};
  switch (culprit.who) {
    case Culprit::kMain: return " in " + std::string(vendor_.call_name(culprit.call));
    case Culprit::kDevice: return BlameDevice(culprit, now);
    case Culprit::kWaiting: return BlameEvents(culprit, now);
    case Culprit::kUnknown: break;
  }
  ++unexplained_;
  return {};
}

std::string CrashHistory::BlameDevice(const Culprit& culprit, Instant now) {
  std::string text = culprit.call == kNoCall ? ", the last begun was " : " in ";
  text += book_.CallOn(culprit.call, culprit.device);
  return book_.TakeEnd(culprit.device, now) ? text + ", which is left out for a while" : text;
}

std::string CrashHistory::BlameEvents(const Culprit& culprit, Instant now) {
  const bool recently = now.boot_ns - event_end_ns_ < limits_.rest.count();
  event_ends_ = recently ? event_ends_ + 1 : 1;
  event_end_ns_ = now.boot_ns;
  std::string text = culprit.call == kNoCall ? " outside of any GPU's calls"
                                             : " in " + std::string(vendor_.call_name(culprit.call));
  return waits_for_events() ? text : text + ": the library's events are not waited for";
}

}  // namespace gpulens::driver
