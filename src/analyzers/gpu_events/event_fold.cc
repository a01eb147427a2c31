#include "analyzers/gpu_events/event_fold.h"

#include <algorithm>
#include <string>
#include <utility>

#include "catalog/events.h"

namespace gpulens {

bool EventFold::Hold(const Event& event, Instant now) {
  auto equal = std::ranges::find_if(known_, [&](const Known& known) {
    return known.last.name == event.name && known.last.entity == event.entity &&
           known.last.body == event.body && known.last.attributes == event.attributes;
  });
  if (equal == known_.end()) {
    if (known_.size() < kMaxKnown)
      known_.push_back({.last = event, .told = 1, .held = 0, .until_ns = now.boot_ns + kWindowNs});
    return false;
  }
  equal->last.at = event.at;
  if (equal->told < kEach) {
    ++equal->told;
    return false;
  }
  ++equal->held;
  return true;
}

void EventFold::TakeReady(Instant now, std::vector<Event>& out) {
  std::erase_if(known_, [&](Known& known) {
    if (known.until_ns > now.boot_ns) return false;
    if (known.held == 0) return true;
    const auto repeats = static_cast<int64_t>(std::exchange(known.held, 0));
    Event sum = known.last;
    sum.attributes = AttributeSet({{kEventRepeats, repeats}}).OverlaidOn(sum.attributes);
    out.push_back(std::move(sum));
    known.told = kEach;
    known.until_ns = now.boot_ns + kWindowNs;
    return false;
  });
}

}  // namespace gpulens
