// One happening, told by several sources, as one event; and many equal events as few.
//
// NVML tells of an XID at once but knows no process; the kernel log knows it and comes up to a second later.
// So what NVML says waits for the kernel log, where that is read, at most as long as the two may lie apart.
// What the kernel log says waits for nobody.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Not thread-safe. Allocates only when something happens.
class EventJoin {
 public:
  // Reports of the same happening lie at most so far apart.
  static constexpr int64_t kWindowNs = 5'000'000'000;

  // The same text: the same happening, as far as GPU and code tell.
  struct Key {
    std::string what;    // "gpu.xid 79"
    std::string device;  // the GPU's UUID or bus address
    friend bool operator==(const Key&, const Key&) = default;
  };

  // What becomes of a report. New: count it. Joined: its attributes were added to one that is known.
  enum class Fate : uint8_t { kNew, kJoined };

  // `wait`: another source may still tell more.
  Fate Add(Key key, Event event, bool wait, Instant now);
  // Hands over what waits no longer.
  void TakeReady(Instant now, std::vector<Event>& out);

 private:
  struct Known {
    Key key;
    Event event;
    std::vector<std::string> sources;
    int64_t happened_ns = 0, until_ns = 0;  // boot time; until when it waits
    bool handed_over = false;
  };

  std::vector<Known> known_;
  std::vector<Event> single_;  // told by nobody else, as no key says what they are
  static constexpr size_t kMaxKnown = 1024;
  void Forget(Instant now);
};

// Keeps a flood of equal events from filling sinks and the store: the first few of a minute are told as they
// come, the others become one event at the end of it, whose attribute `event.repeats` is their number.
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
