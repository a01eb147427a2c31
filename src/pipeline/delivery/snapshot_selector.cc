#include "pipeline/delivery/snapshot_selector.h"

#include <algorithm>

namespace gpulens {
namespace {

bool IsNew(const Frame& frame, uint64_t run, int64_t read_boot_ns) noexcept {
  return frame.run != run || frame.read_at.boot_ns != read_boot_ns;
}

}  // namespace

// Ticks are not closed exactly on time: the one that is nearest to the planned time is taken.
bool SnapshotSelector::WholeIsDue(int64_t now_ns) noexcept {
  const int64_t half_tick = (now_ns - seen_ns_) / 2;
  seen_ns_ = now_ns;
  if (now_ns + half_tick < next_whole_ns_) return false;
  const bool keeps_pace = now_ns - next_whole_ns_ < interval_.count();
  next_whole_ns_ = (keeps_pace ? next_whole_ns_ : now_ns) + interval_.count();
  return true;
}

Ref<const Snapshot> SnapshotSelector::Select(const Ref<const Snapshot>& snapshot) {
  if (interval_.count() <= 0) {
    whole_tick_ = snapshot->tick;
    return snapshot;
  }
  if (WholeIsDue(snapshot->closed_at.boot_ns)) {
    whole_tick_ = snapshot->tick;
    if (sends_new_readings_) Remember(*snapshot);
    return snapshot;
  }
  if (!sends_new_readings_ || !HasNewSlowReading(*snapshot)) return {};
  return SlowReadings(*snapshot);
}

Ref<const Snapshot> SnapshotSelector::SelectLast(const Ref<const Snapshot>& snapshot) {
  if (!snapshot || snapshot->tick == whole_tick_) return {};
  whole_tick_ = snapshot->tick;
  return snapshot;
}

bool SnapshotSelector::HasNewSlowReading(const Snapshot& snapshot) const {
  return std::ranges::any_of(snapshot.frames, [this](const SnapshotEntry& entry) {
    if (!IsSlow(entry)) return false;
    auto at = sent_.find(entry.source);
    return at == sent_.end() || IsNew(*entry.frame, at->second.run, at->second.read_boot_ns);
  });
}

void SnapshotSelector::Remember(const Snapshot& snapshot) {
  for (auto& [source, sent] : sent_) sent.present = false;
  for (const SnapshotEntry& entry : snapshot.frames) {
    auto at = sent_.find(entry.source);
    if (at == sent_.end()) at = sent_.try_emplace(std::string(entry.source)).first;
    const Frame& frame = *entry.frame;
    at->second = {frame.run, frame.read_at.boot_ns, IsSlow(entry) ? Ref<const Frame>() : entry.frame, true};
  }
  std::erase_if(sent_, [](const auto& item) { return !item.second.present; });
}

Ref<const Snapshot> SnapshotSelector::SlowReadings(const Snapshot& snapshot) {
  Ref<Snapshot> made = pool_.Take();
  made->closed_at = snapshot.closed_at;
  made->tick = snapshot.tick;
  made->resource = snapshot.resource;
  made->frames.clear();
  for (const SnapshotEntry& entry : snapshot.frames) {
    if (IsSlow(entry)) {
      made->frames.push_back(entry);
      continue;
    }
    // A fast collector that the sink knows nothing of waits for the next whole snapshot.
    auto at = sent_.find(entry.source);
    if (at == sent_.end() || !at->second.frame) continue;
    SnapshotEntry& before = made->frames.emplace_back(entry);
    before.frame = at->second.frame;
    before.source = before.frame->source;
  }
  Remember(*made);
  return made;
}

}  // namespace gpulens
