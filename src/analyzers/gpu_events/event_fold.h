// Keeps a flood of equal events from filling sinks and the store: the first few of a minute are told as they
// come, the others become one event at the end of it, whose attribute `event.repeats` is their number.
#pragma once

#include <cstdint>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Not thread-safe. Allocates only when something happens. What is held when the agent ends was only counted.
class EventFold {
 public:
  // Equal events that are told each by itself, within kWindowNs.
  static constexpr uint64_t kEach = 5;
  static constexpr int64_t kWindowNs = 60'000'000'000;

  // Whether the event is held, to be told with others like it. Events are equal when name, entity, attributes
  // and body are.
  bool Hold(const Event& event, Instant now);
  // Hands over what the held events of windows that are over have become. While equal events go on, there is
  // one of them at the end of each window.
  void TakeReady(Instant now, std::vector<Event>& out);

 private:
  // More that differ than so many within a window are not folded.
  static constexpr size_t kMaxKnown = 256;
  struct Known {
    Event last;
    uint64_t told = 0, held = 0;  // within the window
    int64_t until_ns = 0;         // boot time
  };
  std::vector<Known> known_;
};

}  // namespace gpulens
