// One happening, told by several sources, as one event.
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

}  // namespace gpulens
