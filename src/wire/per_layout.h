// Data that encoders derive once from each layout and keep while snapshots carry that layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/frame.h"
#include "core/layout.h"
#include "core/named_series.h"

namespace gpulens {

// Texts by layout. Not thread-safe; one per user. Does not allocate while the layouts stay.
template <class Text>
class PerLayout {
 public:
  // The derived text, which `make(const Layout&)` makes the first time. Valid until Forget drops it.
  template <class Make>
  Text& Of(const Ref<const Layout>& layout, Make&& make) {
    auto at = entries_.find(layout->id());
    if (at == entries_.end()) at = entries_.emplace(layout->id(), Entry{layout, make(*layout), 0}).first;
    at->second.used = round_;
    return at->second.text;
  }
  // Drops texts that were not requested since the last call.
  void Forget() {
    std::erase_if(entries_, [this](const auto& item) { return item.second.used != round_; });
    ++round_;
  }
  size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    Ref<const Layout> layout;  // so that its id stays taken
    Text text;
    uint64_t used = 0;
  };
  std::unordered_map<uint64_t, Entry> entries_;
  uint64_t round_ = 1;
};

// The resource and the layouts, in the order of the frames, for which an encoder made its plan.
class PlannedFrames {
 public:
  bool Fits(const Snapshot& snapshot) const noexcept {
    return HasResource(snapshot) &&
           std::equal(
               layouts_.begin(), layouts_.end(), snapshot.frames.begin(), snapshot.frames.end(),
               [](uint64_t id, const SnapshotEntry& entry) { return id == entry.frame->layout->id(); });
  }
  bool HasResource(const Snapshot& snapshot) const noexcept {
    return resource_ && *resource_ == snapshot.resource;
  }
  void Set(const Snapshot& snapshot) {
    if (!HasResource(snapshot)) resource_ = snapshot.resource;
    layouts_.clear();
    for (const SnapshotEntry& entry : snapshot.frames) layouts_.push_back(entry.frame->layout->id());
  }
  void Clear() noexcept { resource_.reset(); }

 private:
  std::optional<AttributeSet> resource_;  // none: nothing was planned yet
  std::vector<uint64_t> layouts_;
};

// Calls `use(slot, names)` for each slot that has a series, with the names that `namer` gives it.
template <class Use>
void ForEachNamed(const Layout& layout, const SeriesNamer& namer, Use&& use) {
  std::vector<NamedSeries> names;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    if (!layout[slot].desc) continue;
    names.clear();
    namer(layout[slot], names);
    use(slot, names);
  }
}

// Exemplars of `cells` cells from `cell` on; they are sorted by cell.
inline std::span<const Exemplar> ExemplarsOf(const Frame& frame, uint32_t cell, uint32_t cells) noexcept {
  const auto before = [](const Exemplar& exemplar, uint32_t at) { return exemplar.cell < at; };
  const auto first = std::lower_bound(frame.exemplars.begin(), frame.exemplars.end(), cell, before);
  return {first, std::lower_bound(first, frame.exemplars.end(), cell + cells, before)};
}

}  // namespace gpulens
