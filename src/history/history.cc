#include "history/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <unordered_map>

#include "catalog/cost.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/kubernetes.h"
#include "catalog/ledger.h"
#include "catalog/self.h"
#include "catalog/slurm.h"
#include "catalog/training.h"

namespace gpulens {
namespace {

constexpr const MetricDesc* kKept[] = {
#define KEPT(id) &id,
#include "history/kept.def"
#undef KEPT
};

// Times are those of the clock that never jumps, shown on the wall clock as it is now. A wall clock that is
// adjusted by less than this shifts nothing.
constexpr int64_t kClockSlackMs = 100;

}  // namespace

std::span<const MetricDesc* const> KeptMetrics() noexcept { return kKept; }

class History::Impl {
 public:
  explicit Impl(const Options& options) : options_(options) {
    for (size_t i = 0; i < std::size(kKept); ++i) ranks_.emplace(kKept[i]->name, static_cast<uint32_t>(i));
  }

  const Options& options() const noexcept { return options_; }

  void Begin() {
    std::lock_guard lock(mutex_);
    begun_ = true;
  }

  void Observe(const Snapshot& snapshot) {
    std::lock_guard lock(mutex_);
    if (!begun_ || snapshot.tick <= tick_) return;
    tick_ = snapshot.tick;
    closed_ms_ = Ms(snapshot.closed_at.boot_ns);
    const int64_t wall = Ms(snapshot.closed_at.unix_ns) - closed_ms_;
    if (groups_.empty() || std::abs(wall - wall_ms_) > kClockSlackMs) wall_ms_ = wall;
    node_ = snapshot.resource;
    for (auto& [source, group] : groups_) group.seen = false;
    for (const SnapshotEntry& entry : snapshot.frames) Take(entry);
    for (auto& [source, group] : groups_) {
      if (!group.seen) Leave(group);
    }
    if (listed_ != layout_) List();
  }

  void ReadCurrent(Current& out) const {
    std::lock_guard lock(mutex_);
    out.tick = tick_;
    out.unix_ms = closed_ms_ + wall_ms_;
    out.layout = layout_;
    out.node = node_;
    out.series = list_;
    out.values.clear();
    out.stale_ms.clear();
    out.sources.clear();
    for (const uint32_t id : listed_ids_) {
      const Entry& entry = *entries_.at(id);
      out.values.push_back(entry.value);
      out.stale_ms.push_back(entry.stale_ms);
      out.sources.push_back(entry.group->number);
    }
    out.read.resize(groups_.size());
    for (const auto& [source, group] : groups_) {
      out.read[group.number].first = source;
      out.read[group.number].second = group.read_ms + wall_ms_;
    }
  }

  Result<std::vector<SeriesWindow>> Read(std::span<const SeriesSelector> selectors, int64_t from_ms,
                                         int64_t to_ms, size_t limit) {
    std::lock_guard lock(mutex_);
    std::vector<SeriesWindow> out;
    size_t count = 0;
    for (const auto& [id, entry] : entries_) {
      const auto matches = [&](const SeriesSelector& selector) {
        return selector.Matches(entry->series.name, entry->series.attributes);
      };
      if (!selectors.empty() && std::ranges::none_of(selectors, matches)) continue;
      SeriesWindow window{entry->series, {}};
      const auto& samples = entry->samples;
      auto first = std::ranges::partition_point(
          samples, [&](const Sample& sample) { return sample.unix_ms + wall_ms_ < from_ms; });
      if (first != samples.begin()) --first;
      for (; first != samples.end() && first->unix_ms + wall_ms_ <= to_ms; ++first) {
        window.samples.push_back(*first);
        window.samples.back().unix_ms += wall_ms_;
      }
      count += window.samples.size();
      if (count > limit) return Status{Code::kExhausted, "more than " + std::to_string(limit) + " samples"};
      if (!window.samples.empty()) out.push_back(std::move(window));
    }
    return out;
  }

  Stats stats() const {
    std::lock_guard lock(mutex_);
    Stats stats;
    stats.begun = begun_;
    stats.series = listed_ids_.size();
    for (const auto& [id, entry] : entries_) {
      stats.samples += entry->samples.size();
      if (entry->samples.empty()) continue;
      const int64_t first = entry->samples.front().unix_ms + wall_ms_;
      if (stats.begin_ms == 0 || first < stats.begin_ms) stats.begin_ms = first;
    }
    stats.sample_bytes = stats.samples * sizeof(Sample);
    stats.memory = stats.sample_bytes;
    return stats;
  }

 private:
  struct Group;
  struct Entry {
    KeptSeries series;
    Group* group = nullptr;
    int64_t start_unix_ns = 0;
    double value = kNotMeasured;
    uint32_t stale_ms = 0;
    bool reset = false;  // the next sample has the mark
    bool listed = true;  // in the present layout
    std::vector<Sample> samples;
  };
  struct Column {
    uint32_t slot, cell;
    bool whole;
    Entry* entry;
  };
  struct Group {
    uint32_t number = 0;
    uint64_t layout = 0, run = 0;
    int64_t read_ms = 0;
    bool seen = false, overdue = false, left = false;
    std::vector<Column> columns;
  };

  static int64_t Ms(int64_t ns) { return ns / 1'000'000; }

  const MetricDesc* Kept(const SeriesInfo& info) const {
    if (!info.desc || info.shape) return nullptr;
    const auto rank = ranks_.find(info.desc->name);
    if (rank == ranks_.end()) return nullptr;
    const MetricDesc* row = kKept[rank->second];
    return row->unit == info.desc->unit && row->kind == info.desc->kind ? row : nullptr;
  }

  void Take(const SnapshotEntry& from) {
    const Frame& frame = *from.frame;
    Group& group = groups_[frame.source];
    if (group.layout == 0) group.number = static_cast<uint32_t>(groups_.size() - 1);
    group.seen = true;
    if (group.layout != frame.layout->id()) Follow(group, from);
    const int64_t read = Ms(frame.read_at.boot_ns);
    const bool newer = group.left || frame.run != group.run || read != group.read_ms;
    if (newer) {
      group.run = frame.run;
      group.read_ms = read;
      group.overdue = group.left = false;
      for (const Column& column : group.columns) Add(column, frame);
    }
    if (from.overdue && !group.overdue) {
      group.overdue = true;
      for (const Column& column : group.columns) {
        Entry& entry = *column.entry;
        if (std::isnan(entry.value)) continue;
        entry.stale_ms = std::max<uint32_t>(entry.stale_ms, 1);
        Append(entry, {closed_ms_, entry.value, Sample::kStale, false});
      }
    }
  }

  void Add(const Column& column, const Frame& frame) {
    Entry& entry = *column.entry;
    const Cell cell = frame.cells[column.cell];
    const double value = column.whole ? static_cast<double>(cell.i) : cell.d;
    const Quality quality = frame.quality[column.slot];
    if (quality == Quality::kAbsent || !std::isfinite(value)) return Gap(entry, group_time(column));
    const bool fell = IsMonotonic(entry.series.kind) && value < entry.value;
    const bool stale = quality == Quality::kStale;
    entry.stale_ms = stale ? std::max<uint32_t>(frame.AgeMs(column.slot), 1) : 0;
    Append(entry, {group_time(column), value, stale ? Sample::kStale : Sample::kOk, entry.reset || fell});
    entry.value = value;
    entry.reset = false;
  }
  static int64_t group_time(const Column& column) { return column.entry->group->read_ms; }

  void Gap(Entry& entry, int64_t at) {
    if (std::isnan(entry.value)) return;
    entry.value = kNotMeasured;
    entry.stale_ms = 0;
    Append(entry, {at, kNotMeasured, Sample::kGap, false});
  }

  void Append(Entry& entry, const Sample& sample) {
    const int64_t oldest = closed_ms_ - Ms(options_.window.count());
    if (entry.samples.size() > 64 && entry.samples[32].unix_ms < oldest)
      entry.samples.erase(entry.samples.begin(), entry.samples.begin() + 32);
    entry.samples.push_back(sample);
  }

  void Leave(Group& group) {
    if (group.left) return;
    group.left = true;
    for (const Column& column : group.columns) Gap(*column.entry, closed_ms_);
  }

  // Finds the kept series of the new layout: a series with the same name and attributes goes on.
  void Follow(Group& group, const SnapshotEntry& from) {
    const Layout& layout = *from.frame->layout;
    std::unordered_multimap<uint64_t, Entry*> before;
    for (const Column& column : group.columns) {
      before.emplace(column.entry->series.attributes.hash(), column.entry);
      column.entry->listed = false;
    }
    std::vector<Column> columns;
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& info = layout[slot];
      const MetricDesc* row = Kept(info);
      if (!row) continue;
      Entry* entry = nullptr;
      const auto [begin, end] = before.equal_range(info.attributes.hash());
      for (auto at = begin; at != end && !entry; ++at) {
        const KeptSeries& series = at->second->series;
        if (series.name == row->name && series.attributes == info.attributes) entry = at->second;
      }
      if (!entry) {
        auto made = std::make_unique<Entry>();
        made->series = {next_id_,   std::string(row->name), std::string(row->unit),
                        row->kind,  info.attributes,        from.frame->source,
                        from.period};
        made->group = &group;
        made->start_unix_ns = info.start_unix_ns;
        entry = made.get();
        entries_.emplace(next_id_++, std::move(made));
      }
      entry->reset |= entry->start_unix_ns != info.start_unix_ns;
      entry->start_unix_ns = info.start_unix_ns;
      entry->listed = true;
      columns.push_back({slot, info.first_cell, row->number == Number::kInt, entry});
    }
    for (const Column& column : group.columns) {
      if (!column.entry->listed) Gap(*column.entry, closed_ms_);
    }
    group.columns = std::move(columns);
    group.layout = layout.id();
    ++layout_;
  }

  void List() {
    auto list = std::make_shared<std::vector<KeptSeries>>();
    listed_ids_.clear();
    for (const auto& [id, entry] : entries_) {
      if (!entry->listed) continue;
      listed_ids_.push_back(id);
      list->push_back(entry->series);
    }
    list_ = std::move(list);
    listed_ = layout_;
  }

  const Options options_;
  std::unordered_map<std::string_view, uint32_t> ranks_;
  mutable std::mutex mutex_;  // guards what follows
  bool begun_ = false;
  uint64_t tick_ = 0, layout_ = 0, listed_ = 0;
  int64_t closed_ms_ = 0;  // of the clock that never jumps
  int64_t wall_ms_ = 0;    // to be added to it
  uint32_t next_id_ = 0;
  AttributeSet node_;
  std::map<std::string, Group, std::less<>> groups_;
  std::map<uint32_t, std::unique_ptr<Entry>> entries_;
  std::vector<uint32_t> listed_ids_;
  std::shared_ptr<const std::vector<KeptSeries>> list_ = std::make_shared<const std::vector<KeptSeries>>();
};

History::History(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
History::~History() = default;
const History::Options& History::options() const noexcept { return impl_->options(); }
void History::Begin() { impl_->Begin(); }
void History::Observe(const Snapshot& snapshot) { impl_->Observe(snapshot); }
void History::ReadCurrent(Current& out) const { impl_->ReadCurrent(out); }
Result<std::vector<SeriesWindow>> History::Read(std::span<const SeriesSelector> selectors, int64_t from_ms,
                                                int64_t to_ms, size_t limit) {
  impl_->Begin();
  return impl_->Read(selectors, from_ms, to_ms, limit);
}
History::Stats History::stats() const { return impl_->stats(); }

}  // namespace gpulens
