// Steps of an event through the analyzer: joins reports of several sources, derives events from XIDs, adds
// facts and severity, folds floods of equal events, and counts.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/events.h"
#include "core/frame.h"
#include "core/frame_writer.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"

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

// Counts events by GPU and by name. Counters of a GPU start at 0 when it is first seen, so that rate() sees
// the first event, and go on when a lost GPU comes back. They are absent while no source watches. Not
// thread-safe. Write does not allocate while GPUs and codes stay.
class EventCounters {
 public:
  // Codes of a GPU with a series of their own; the rest is "other".
  static constexpr size_t kMaxCodes = 64;
  // Series of a GPU that is gone end after this time.
  static constexpr int64_t kKeepGoneNs = 15LL * 60 * 1'000'000'000;

  struct LastXid {
    int64_t unix_ns = 0, code = 0;
  };

  // Sets the last XIDs before this process, from the store, by UUID.
  void Remember(std::map<std::string, LastXid, std::less<>> last) { remembered_ = std::move(last); }

  // Counts a new event. `gpu`: its index in the table, or GpuEventTable::kNone.
  void Count(const Event& event, size_t gpu);

  struct Watched {
    bool xids = false, ras = false;
  };
  void Write(const GpuEventTable& table, Watched watched, Instant now, FrameWriter& out);

 private:
  static constexpr size_t kGrades = 3;
  struct CodeCount {
    int64_t code = 0;  // -1: all others
    uint64_t count = 0;
    Series series;
  };
  struct PerGpu {
    EntityRef entity;  // on which the series are; null: none
    uint64_t xids = 0;
    LastXid last;
    std::vector<CodeCount> codes;
    std::array<uint64_t, kGrades> ras{};
    Series xid_series, last_time, last_code;
    std::array<Series, kGrades> ras_series;
  };

  void CountXid(PerGpu& gpu, const Event& event);
  void Declare(PerGpu& gpu, const TrackedGpu& tracked, Watched watched, SeriesTable& table);
  static void Undeclare(PerGpu& gpu, SeriesTable& table);
  static void WriteGpu(PerGpu& gpu, Watched watched, FrameWriter& out);

  std::vector<PerGpu> gpus_;  // by index in the table
  std::array<uint64_t, std::size(kEvents)> events_{};
  std::array<Series, std::size(kEvents)> event_series_;
  std::map<std::string, LastXid, std::less<>> remembered_;
};

// The XIDs of the last hours of each GPU that no reset, boot or operator has cleared, counted by action. Not
// thread-safe. Write does not allocate while GPUs and actions stay.
class RecentXids {
 public:
  // XIDs kept for a GPU, the newest.
  static constexpr size_t kMaxPerGpu = 256;

  explicit RecentXids(Duration window) : window_ns_(window.count()) {}

  // `gpu`: its index in the table. `action`: as in gpu.xid.action; others count as "unknown".
  void Add(size_t gpu, int64_t at_boot_ns, std::string_view action);
  // Removes XIDs up to `before_boot_ns`. `gpu` may be GpuEventTable::kNone: of every GPU.
  void Clear(size_t gpu, int64_t before_boot_ns);
  // Removes those that a reset of the GPU settles.
  void ClearByReset(size_t gpu, int64_t before_boot_ns);

  // XIDs and what cleared them, from before this process; applied to a GPU when it is first seen.
  struct Past {
    enum Kind : uint8_t { kXid, kReset, kClear } kind = kXid;
    std::string gpu_uuid;  // empty: every GPU
    int64_t boot_ns = 0;   // on the clock of this boot
    std::string action;    // of an XID
  };
  void Remember(std::vector<Past> past);

  void Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out);

 private:
  static constexpr size_t kActions = 8;
  struct Xid {
    int64_t at_ns = 0;
    uint8_t action = 0;
  };
  struct PerGpu {
    EntityRef entity;  // on which the series are; null: none
    std::vector<Xid> xids;
    std::array<Series, kActions> series;
    bool recalled = false;  // its past was applied
  };

  PerGpu& Of(size_t gpu);
  void Recall(size_t gpu, const std::string& uuid);
  void WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const;

  const int64_t window_ns_;
  std::vector<PerGpu> gpus_;  // by index in the table
  std::vector<Past> past_;    // in order of time
};

}  // namespace gpulens
