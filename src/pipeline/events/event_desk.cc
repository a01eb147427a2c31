#include "pipeline/events/event_desk.h"

#include <utility>

namespace gpulens {

void EventDesk::Report(Event event) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(event));
}

std::vector<Event> EventDesk::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

uint64_t EventDesk::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace gpulens
