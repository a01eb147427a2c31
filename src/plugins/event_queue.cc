#include "plugins/event_queue.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace gpulens {

// The caller holds the lock.
void EventQueue::Add(std::vector<Event>& to, Event event) {
  if (to.size() >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  std::string room;
  if (!IsUtf8(event.body)) event.body = ValidUtf8(event.body, room);
  to.push_back(std::move(event));
}

void EventQueue::Report(Event event) {
  std::lock_guard lock(mutex_);
  Add(waiting_, std::move(event));
}

void EventQueue::Watches(std::string_view source, bool works) {
  std::lock_guard lock(mutex_);
  auto at = std::ranges::find(watching_, source);
  if (works && at == watching_.end()) watching_.emplace_back(source);
  else if (!works && at != watching_.end()) watching_.erase(at);
}

void EventQueue::Suppressed(uint64_t count) {
  std::lock_guard lock(mutex_);
  suppressed_ += count;
}

std::vector<Event> EventQueue::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

bool EventQueue::Watched() const {
  std::lock_guard lock(mutex_);
  return !watching_.empty();
}

bool EventQueue::Watched(std::string_view source) const {
  std::lock_guard lock(mutex_);
  return std::ranges::find(watching_, source) != watching_.end();
}

void EventQueue::Publish(Event event) {
  std::lock_guard lock(mutex_);
  Add(ready_, std::move(event));
}

std::vector<Event> EventQueue::TakeReady() {
  std::lock_guard lock(mutex_);
  return std::exchange(ready_, {});
}

uint64_t EventQueue::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

uint64_t EventQueue::suppressed() const {
  std::lock_guard lock(mutex_);
  return suppressed_;
}

}  // namespace gpulens
