// Steps of an event through the analyzer: joins reports of several sources, derives events from XIDs, adds
// facts and severity, and folds floods of equal events.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/frame.h"

namespace gpulens {

// Joins reports of one event by several sources. NVML reports an XID at once, without the process; the kernel
// log has the process and comes up to a second later. So NVML's report waits for the kernel log, where that
// is read, at most kWindowNs; the kernel log's never waits. Not thread-safe. Allocates only for events.
class EventJoin {
 public:
  // Maximum distance of reports of the same event.
  static constexpr int64_t kWindowNs = 5'000'000'000;

  struct Key {
    std::string what;    // "gpu.xid 79"
    std::string device;  // the GPU's UUID or bus address
    friend bool operator==(const Key&, const Key&) = default;
  };

  // kJoined: the attributes were added to an event that was reported before.
  enum class Outcome : uint8_t { kNew, kJoined };

  // `wait`: another source may still report it.
  Outcome Add(Key key, Event event, bool wait, Instant now);
  // Appends events that wait no longer.
  void TakeReady(Instant now, std::vector<Event>& out);

 private:
  struct Pending {
    Key key;
    Event event;
    std::vector<std::string> sources;
    int64_t happened_ns = 0, until_ns = 0;  // boot time; until when it waits
    bool handed_over = false;
  };

  std::vector<Pending> pending_;
  std::vector<Event> evicted_;  // by newer events, not returned yet
  static constexpr size_t kMaxPending = 1024;
};

// Limits equal events: the first kEach of a minute pass, the others become one event at its end, whose
// attribute `event.repeats` is their number. Held events are lost when the agent ends, but counted. Not
// thread-safe. Allocates only for events.
class EventFold {
 public:
  // Equal events that pass within kWindowNs.
  static constexpr uint64_t kEach = 5;
  static constexpr int64_t kWindowNs = 60'000'000'000;

  // Returns whether the event is held. Events are equal when name, entity, attributes and body are.
  bool Hold(const Event& event, Instant now);
  // Appends the folded events of windows that are over: one per window while equal events go on.
  void TakeReady(Instant now, std::vector<Event>& out);

 private:
  // Different events within a window; further ones pass.
  static constexpr size_t kMaxGroups = 256;
  struct Group {
    Event last;
    uint64_t passed = 0, held = 0;  // within the window
    int64_t until_ns = 0;           // boot time
  };
  std::vector<Group> groups_;
};

// Derives events from XIDs: consumed poison, a failed link. Sources may report these, too; each is passed
// once. Not thread-safe. Allocates only for events.
class EventFollow {
 public:
  // Maximum distance of reports of the same event.
  static constexpr int64_t kWindowNs = 5'000'000'000;

  // Returns the event that follows from an XID; nothing for most codes.
  static std::optional<Event> DerivedFrom(const Event& xid);

  // Returns whether the event repeats one of the device, and remembers it. `derived`: it is from DerivedFrom.
  // A source's own report of a link never repeats, since it has the link's index.
  bool Repeats(const Event& event, std::string_view device, bool derived);

 private:
  struct Recent {
    std::string what, device;
    int64_t at_ns;
  };
  static constexpr size_t kMaxRecent = 256;
  std::vector<Recent> recent_;
};

// Adds name, class and action of its code from the tables of codes, and a severity where none is set.
void AddFacts(Event& event);

// Returns a log line: "GPU 3: XID 79, GPU no longer answers on PCIe; python3 (pid 1234). Reboot the machine."
// Empty for events that are not logged.
std::string LogText(const Event& event);

}  // namespace gpulens
