// Selects the ticks and readings for a sink with an interval.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/frame.h"

namespace gpulens {

// Reduces collectors that read faster than the sink's interval: once per interval the sink gets the whole
// snapshot. A sink that sends only new readings also gets every reading of the slower collectors, with the
// tick that brings it: between two whole snapshots it gets one in which fast collectors have the frame that
// it got last, as if they had not run since.
//
// Used by one thread at a time. Does not allocate while collectors stay and the sink lets go of snapshots.
class SnapshotSelector {
 public:
  // `interval` zero: every tick is passed on as it is. `sends_new_readings`: as SinkSpec has it.
  SnapshotSelector(Duration interval, bool sends_new_readings) noexcept
      : interval_(interval), sends_new_readings_(sends_new_readings) {}

  // Returns the snapshot that the sink gets in this tick; null: none.
  Ref<const Snapshot> Select(const Ref<const Snapshot>& snapshot);
  // The whole snapshot, unless the sink got the whole of this tick. Null for null.
  Ref<const Snapshot> SelectLast(const Ref<const Snapshot>& snapshot);

 private:
  // The last frame of one collector that the sink got.
  struct Sent {
    uint64_t run = 0;
    int64_t read_boot_ns = 0;
    Ref<const Frame> frame;  // of a fast collector; a slow one's is not needed again
    bool present = false;    // in the snapshot at hand
  };

  bool IsSlow(const SnapshotEntry& entry) const noexcept {
    return entry.period.count() > 0 && entry.period >= interval_;
  }
  bool WholeIsDue(int64_t now_ns) noexcept;
  bool HasNewSlowReading(const Snapshot& snapshot) const;
  void Remember(const Snapshot& snapshot);
  Ref<const Snapshot> SlowReadings(const Snapshot& snapshot);

  const Duration interval_;
  const bool sends_new_readings_;
  int64_t next_whole_ns_ = 0, seen_ns_ = 0;
  uint64_t whole_tick_ = 0;
  std::map<std::string, Sent, std::less<>> sent_;
  RefPool<Snapshot> pool_{4};  // two queued, one being written, one being built
};

}  // namespace gpulens
