#include "history/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "catalog/cost.h"
#include "catalog/cuda.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/kubernetes.h"
#include "catalog/ledger.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"
#include "catalog/self.h"
#include "catalog/slurm.h"
#include "catalog/training.h"
#include "history/sample_log.h"
#include "history/value_code.h"

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

constexpr uint32_t kNone = UINT32_MAX;
// The memory has room for one series per KiB, and a sixteenth of it for attributes of series that ended.
constexpr size_t kMemoryPerSeries = 1024, kPartForEnded = 16;
constexpr size_t kOverhead = 16 << 10;  // of the table's rows, of the groups

enum RowKind : uint8_t {
  kValues,   // a time; values of all series, of which those that come as expected are not written
  kCarried,  // the states when the segment began
  kGaps,     // a time; series that have no value any more
  kStales,   // a time; series that should have a newer value by now
};

int64_t Ms(int64_t ns) { return ns / 1'000'000; }

size_t TextBytes(const AttributeSet& attributes) {
  size_t bytes = 32;
  for (const auto& [key, value] : attributes) {
    const auto* text = std::get_if<std::string_view>(&value);
    bytes += key.size() + 8 + (text ? text->size() : 8);
  }
  return bytes;
}

void WriteTime(BitWriter& out, ValueState& time, int64_t ms) {
  const ScaledValue value{ms, 0, false};
  const bool expected = ComesAsExpected(time, value);
  out.Put(expected, 1);
  if (expected) return Advance(time);
  WriteValue(out, time, {value, false, false, false});
}
void ReadTime(BitReader& in, ValueState& time) {
  if (in.Take(1) != 0) Advance(time);
  else ReadValue(in, time);
}

}  // namespace

namespace history_internal {

// A series of the table, with the state of its code.
struct Entry {
  uint32_t id = 0, rank = 0;
  uint32_t group = kNone;  // kNone: free
  uint32_t place = 0;      // in the group's rows
  uint32_t stale_ms = 0;
  bool live = false;   // in the present layout; else it ended
  bool reset = false;  // the next value is one
  uint64_t born = 0;   // position in the log from which the place is this series'
  uint64_t ended = 0;  // position at which it ended
  int64_t start_unix_ns = 0;
  double value = kNotMeasured;
  double increase = 0;  // of a counter, the last one that was not 0, since a reset or gap
  ValueState state;
  AttributeSet attributes;
};

// A live series in the present layout of its group.
struct Column {
  uint32_t slot, cell, place, entry;
  bool whole;
};

// The series of one source.
struct Group {
  Group() { time.counter = true; }

  std::string source;  // empty: not in use
  Duration period{};
  uint64_t born = 0;  // position in the log from which the number is this group's
  uint64_t layout = 0, run = 0;
  int64_t read_ms = 0;
  int64_t last_ms = 0;  // of its last row
  bool seen = false, overdue = false, left = false;
  uint32_t refused = 0;
  ValueState time;
  std::vector<Column> columns;   // by place
  std::vector<uint32_t> places;  // entries; kNone: free
};

// What a reader wants of a group, and what it knows so far.
struct GroupReader {
  uint64_t born = 0;
  ValueState time;
  std::vector<ValueState> states;  // by place
  struct Pick {
    uint32_t window = kNone;
    uint64_t born = 0;
  };
  std::vector<Pick> picks;  // by place; empty: the group is not wanted
};

class WindowReader {
 public:
  WindowReader(std::vector<GroupReader> groups, std::vector<SeriesWindow>& windows, int64_t from, int64_t to,
               size_t limit)
      : groups_(std::move(groups)), windows_(windows), from_(from), to_(to), limit_(limit) {}

  // `follows`: the segment before was read, too.
  void BeginSegment(bool follows) {
    follows_ = follows;
    for (GroupReader& group : groups_) {
      group.time = {};
      std::ranges::fill(group.states, ValueState());
    }
  }

  void Read(const SampleLog::Row& row) {
    if (row.group >= groups_.size()) return;
    GroupReader& group = groups_[row.group];
    if (group.picks.empty() || row.at < group.born) return;
    BitReader in = row.bits;
    const auto kind = static_cast<RowKind>(in.Take(2));
    if (kind == kCarried) ReadState(in, group.time);
    else ReadTime(in, group.time);
    if (kind == kValues) ReadValues(group, row.at, in);
    else ReadSome(group, row.at, in, kind);
    CHECK(!in.passed_end());
  }

  bool exhausted() const { return count_ > limit_; }

 private:
  static uint32_t NextPlace(BitReader& in, uint32_t place) {
    return in.AtEnd() ? kNone : place + static_cast<uint32_t>(in.TakeGamma());
  }

  void ReadValues(GroupReader& group, uint64_t at, BitReader& in) {
    uint32_t written = NextPlace(in, UINT32_MAX);  // the first place is 0
    for (uint32_t place = 0; place < group.states.size(); ++place) {
      ValueState& state = group.states[place];
      bool reset = false;
      if (place == written) {
        reset = ReadValue(in, state);
        written = NextPlace(in, place);
      } else if (!state.present) {
        continue;
      } else if (state.expected_step != 0) {
        Advance(state);
      }
      Emit(group, place, at, reset);
    }
  }

  void ReadSome(GroupReader& group, uint64_t at, BitReader& in, RowKind kind) {
    for (uint32_t place = NextPlace(in, UINT32_MAX); place != kNone; place = NextPlace(in, place)) {
      ValueState& state = group.states[place];
      if (kind == kCarried) ReadState(in, state);
      else if (kind == kGaps) state.present = state.stale = false;
      else state.stale = true;
      if (kind != kCarried || !follows_) Emit(group, place, at, false);
    }
  }

  void Emit(const GroupReader& group, uint32_t place, uint64_t at, bool reset) {
    const GroupReader::Pick& pick = group.picks[place];
    if (pick.window == kNone || at < pick.born) return;
    const ValueState& state = group.states[place];
    const int64_t ms = group.time.last.number;
    if (ms > to_) return;
    std::vector<SeriesSample>& samples = windows_[pick.window].samples;
    // Of those before the window only the last one stays.
    if (ms < from_ && !samples.empty()) samples.clear(), --count_;
    ++count_;
    if (exhausted()) return;
    if (!state.present) samples.push_back({ms, kNotMeasured, SeriesSample::kGap, false});
    else
      samples.push_back(
          {ms, ValueOf(state.last), state.stale ? SeriesSample::kStale : SeriesSample::kOk, reset});
  }

  std::vector<GroupReader> groups_;
  std::vector<SeriesWindow>& windows_;
  const int64_t from_, to_;
  const size_t limit_;
  size_t count_ = 0;
  bool follows_ = false;
};

}  // namespace history_internal

std::span<const MetricDesc* const> KeptMetrics() noexcept { return kKept; }

class History::Impl {
  using Entry = history_internal::Entry;
  using Column = history_internal::Column;
  using Group = history_internal::Group;
  using GroupReader = history_internal::GroupReader;

 public:
  explicit Impl(const Options& options) : options_(options) {}

  const Options& options() const noexcept { return options_; }

  void Begin() {
    std::lock_guard lock(mutex_);
    if (log_) return;
    for (uint32_t i = 0; i < std::size(kKept); ++i) ranks_.emplace(kKept[i]->name, i);
    const size_t series = options_.memory / kMemoryPerSeries;
    entries_.resize(series);
    for (size_t i = series; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
    const size_t table = series * (sizeof(Entry) + sizeof(Column) + 3 * sizeof(uint32_t));
    log_.emplace(options_.memory - table - options_.memory / kPartForEnded - kOverhead,
                 Ms(options_.window.count()));
  }

  void Observe(const Snapshot& snapshot) {
    std::lock_guard lock(mutex_);
    if (!log_ || snapshot.tick <= tick_) return;
    closed_ms_ = Ms(snapshot.closed_at.boot_ns);
    const int64_t wall = Ms(snapshot.closed_at.unix_ns) - closed_ms_;
    if (tick_ == 0 || std::abs(wall - wall_ms_) > kClockSlackMs) wall_ms_ = wall;
    tick_ = snapshot.tick;
    node_ = snapshot.resource;
    if (log_->WantsSegment(closed_ms_)) BeginSegment();
    for (Group& group : groups_) group.seen = false;
    for (size_t i = 0; i < snapshot.frames.size(); ++i) Take(snapshot.frames[i], i);
    bool refused = false;
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      if (!groups_[number].seen && !groups_[number].source.empty()) Leave(number);
      refused = refused || groups_[number].refused > 0;
    }
    if (refused && live_ < entries_.size()) FollowAgain();
    if (listed_ != layout_) List();
  }

  void ReadCurrent(Current& out) const {
    std::lock_guard lock(mutex_);
    out.tick = tick_;
    out.unix_ms = closed_ms_ + wall_ms_;
    out.node = node_;
    if (!out.series || out.layout != layout_) {
      // Readers share the list.
      out.series = shared_layout_ == layout_ ? shared_list_.lock() : nullptr;
      if (!out.series) {
        auto list = std::make_shared<std::vector<KeptSeries>>();
        list->reserve(list_.size());
        for (const uint32_t index : list_) list->push_back(SeriesOf(entries_[index]));
        out.series = std::move(list);
        shared_list_ = out.series;
        shared_layout_ = layout_;
      }
    }
    out.layout = layout_;
    out.values.resize(list_.size());
    out.stale_ms.resize(list_.size());
    out.sources.resize(list_.size());
    for (size_t i = 0; i < list_.size(); ++i) {
      const Entry& entry = entries_[list_[i]];
      out.values[i] = entry.value;
      out.stale_ms[i] = entry.stale_ms;
      out.sources[i] = entry.group;
    }
    out.read.resize(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      out.read[i].first = groups_[i].source;
      out.read[i].second = groups_[i].read_ms + wall_ms_;
    }
  }

  Result<std::vector<SeriesWindow>> Read(std::span<const SeriesSelector> selectors, int64_t from_ms,
                                         int64_t to_ms, size_t limit) const {
    std::vector<SeriesWindow> windows;
    std::unique_lock lock(mutex_);
    if (!log_) return windows;
    const int64_t wall = wall_ms_;
    history_internal::WindowReader reader(Pick(selectors, windows), windows, from_ms - wall, to_ms - wall,
                                          limit);
    const uint64_t until = log_->end();
    uint64_t number = FirstSegment(from_ms - wall), before = number;
    for (; number < log_->end_number(); number = std::max(number + 1, log_->first_number())) {
      const SampleLog::Segment& segment = log_->segment(number);
      const bool follows = before + 1 == number;  // not the first one, whose carried rows are needed
      if (segment.begin >= until || (follows && segment.rows > 0 && segment.first_ms > to_ms - wall)) break;
      reader.BeginSegment(follows);
      log_->ForEachRow(number, until, [&](const SampleLog::Row& row) { reader.Read(row); });
      if (reader.exhausted())
        return Status{Code::kExhausted, "more than " + std::to_string(limit) + " samples"};
      before = number;
      lock.unlock();  // a tick need not wait for a long answer
      lock.lock();
    }
    lock.unlock();
    // Before the window a gap means nothing.
    for (SeriesWindow& window : windows) {
      std::vector<SeriesSample>& samples = window.samples;
      if (!samples.empty() && samples[0].mark == SeriesSample::kGap && samples[0].unix_ms < from_ms - wall)
        samples.erase(samples.begin());
    }
    std::erase_if(windows, [](const SeriesWindow& window) { return window.samples.empty(); });
    for (SeriesWindow& window : windows) {
      for (SeriesSample& sample : window.samples) sample.unix_ms += wall;
    }
    return windows;
  }

  Stats stats() const {
    std::lock_guard lock(mutex_);
    Stats stats;
    if (!log_) return stats;
    stats.begun = true;
    stats.series = live_;
    stats.samples = log_->samples();
    stats.sample_bytes = log_->used_bytes();
    for (uint64_t number = log_->first_number(); number < log_->end_number(); ++number) {
      const SampleLog::Segment& segment = log_->segment(number);
      if (segment.rows == 0) continue;
      stats.begin_ms = segment.first_ms + wall_ms_;
      break;
    }
    stats.memory = log_->allocated() + entries_.capacity() * sizeof(Entry) + ended_bytes_ +
                   (free_.capacity() + list_.capacity()) * sizeof(uint32_t) +
                   groups_.capacity() * sizeof(Group) + ranks_.size() * 64;
    for (const Group& group : groups_) {
      stats.memory += group.columns.capacity() * sizeof(Column) + group.places.capacity() * sizeof(uint32_t);
      stats.series_refused += group.refused;
    }
    return stats;
  }

 private:
  KeptSeries SeriesOf(const Entry& entry) const {
    const MetricDesc& row = *kKept[entry.rank];
    const Group& group = groups_[entry.group];
    return {entry.id,         std::string(row.name), std::string(row.unit), row.kind,
            entry.attributes, group.source,          group.period};
  }

  // The place of a series in the table; kNone: it is not kept.
  uint32_t RankOf(const SeriesInfo& info) const {
    if (!info.desc || info.shape) return kNone;
    const auto rank = ranks_.find(info.desc->name);
    if (rank == ranks_.end()) return kNone;
    const MetricDesc& row = *kKept[rank->second];
    return row.unit == info.desc->unit && row.kind == info.desc->kind ? rank->second : kNone;
  }

  // `position` in the tick: there the source mostly was last time, too.
  uint32_t GroupOf(const std::string& source, size_t position) {
    if (position >= numbers_.size()) numbers_.resize(position + 1);
    uint32_t& number = numbers_[position];
    if (number >= groups_.size() || groups_[number].source != source) number = FindGroup(source);
    return number;
  }
  uint32_t FindGroup(const std::string& source) {
    uint32_t unused = kNone;
    for (uint32_t number = 0; number < groups_.size(); ++number) {
      if (groups_[number].source == source) return number;
      if (groups_[number].source.empty() && unused == kNone) unused = number;
    }
    if (unused == kNone) {
      unused = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back();
    }
    groups_[unused] = Group();
    groups_[unused].source = source;
    groups_[unused].born = log_->end();
    return unused;
  }

  void Take(const SnapshotEntry& from, size_t position) {
    const Frame& frame = *from.frame;
    const uint32_t number = GroupOf(frame.source, position);
    const int64_t read_ms = Ms(frame.read_at.boot_ns);
    {
      Group& group = groups_[number];
      group.seen = true;
      group.period = from.period;
      if (group.layout != frame.layout->id()) Follow(number, *frame.layout, read_ms);
    }
    Group& group = groups_[number];
    if (group.left || frame.run != group.run || read_ms != group.read_ms) {
      group.run = frame.run;
      group.read_ms = read_ms;
      group.overdue = group.left = false;
      WriteValues(number, frame);
    }
    if (from.overdue && !group.overdue) {
      group.overdue = true;
      WriteStales(number);
    }
  }

  // The row's begin. Times of a group never fall, whatever its source claims.
  BitWriter BeginRow(Group& group, RowKind kind, int64_t ms) {
    BitWriter out = log_->BeginRow(kMostCarriedBits * (group.columns.size() + 2));
    out.Put(kind, 2);
    if (kind == kCarried) WriteState(out, group.time);
    else WriteTime(out, group.time, group.last_ms = std::max(ms, group.last_ms));
    return out;
  }
  static void WritePlace(BitWriter& out, uint32_t place, uint32_t& before) {
    out.PutGamma(place - before);  // before the first one: 2^32 - 1
    before = place;
  }

  void WriteValues(uint32_t number, const Frame& frame) {
    Group& group = groups_[number];
    if (group.columns.empty()) return;
    BitWriter out = BeginRow(group, kValues, group.read_ms);
    uint32_t before = UINT32_MAX;
    uint64_t samples = 0;
    for (const Column& column : group.columns) {
      Entry& entry = entries_[column.entry];
      ValueState& state = entry.state;
      const Cell cell = frame.cells[column.cell];
      const double value = column.whole ? static_cast<double>(cell.i) : cell.d;
      const Quality quality = frame.quality[column.slot];
      if (quality == Quality::kAbsent || !std::isfinite(value)) {
        if (state.present) {
          WritePlace(out, column.place, before);
          WriteValue(out, state, {{}, true, false, false});
          entry.value = kNotMeasured;
          entry.stale_ms = 0;
        }
        continue;
      }
      ++samples;
      const bool stale = quality == Quality::kStale;
      entry.stale_ms = stale ? std::max<uint32_t>(frame.AgeMs(column.slot), 1) : 0;
      const bool reset = entry.reset || (state.counter && value < entry.value);
      entry.reset = false;
      if (state.present && value == entry.value && state.expected_step == 0 && stale == state.stale &&
          !reset) {
        continue;
      }
      if (reset || !state.present) entry.increase = 0;
      else if (value > entry.value) entry.increase = value - entry.value;
      ScaledValue scaled = column.whole ? ScaledValue{cell.i, 0, false} : Scale(value, state, entry.increase);
      if (!reset && FallsByCode(state, scaled)) scaled = state.last;
      entry.value = value;
      if (ComesAsExpected(state, scaled) && stale == state.stale && !reset) {
        Advance(state);
        continue;
      }
      WritePlace(out, column.place, before);
      WriteValue(out, state, {scaled, false, stale, reset});
    }
    log_->EndRow(out, number, group.last_ms, samples);
  }

  void WriteStales(uint32_t number) {
    Group& group = groups_[number];
    const auto turns = [this](const Column& column) { return entries_[column.entry].state.present; };
    const auto count = std::ranges::count_if(group.columns, turns);
    if (count == 0) return;
    BitWriter out = BeginRow(group, kStales, closed_ms_);
    uint32_t before = UINT32_MAX;
    for (const Column& column : group.columns) {
      if (!turns(column)) continue;
      Entry& entry = entries_[column.entry];
      WritePlace(out, column.place, before);
      entry.state.stale = true;
      entry.stale_ms = std::max<uint32_t>(entry.stale_ms, 1);
    }
    log_->EndRow(out, number, group.last_ms, static_cast<uint64_t>(count));
  }

  // Writes that those series for which `ends` holds have no value any more.
  template <class Ends>
  void WriteGaps(uint32_t number, int64_t ms, Ends ends) {
    Group& group = groups_[number];
    const auto turns = [&](const Column& column) {
      return entries_[column.entry].state.present && ends(column);
    };
    if (std::ranges::none_of(group.columns, turns)) return;
    BitWriter out = BeginRow(group, kGaps, ms);
    uint32_t before = UINT32_MAX;
    for (const Column& column : group.columns) {
      if (!turns(column)) continue;
      Entry& entry = entries_[column.entry];
      WritePlace(out, column.place, before);
      entry.state.present = entry.state.stale = false;
      entry.value = kNotMeasured;
      entry.stale_ms = 0;
    }
    log_->EndRow(out, number, group.last_ms, 0);
  }

  // The source is not in the tick: it failed for longer than its time to live, or is configured no more.
  void Leave(uint32_t number) {
    Group& group = groups_[number];
    if (!group.left) WriteGaps(number, closed_ms_, [](const Column&) { return true; });
    group.left = true;
    if (group.read_ms >= closed_ms_ - Ms(options_.window.count())) return;
    // Nothing of it is left.
    while (!group.columns.empty()) End(group.columns.back().entry);
    for (const uint32_t index : group.places) {
      if (index != kNone) Forget(index);
    }
    group = Group();
    ++layout_;
  }

  // Takes a live series, whose gap is written, out of its group's columns.
  void End(uint32_t index) {
    Entry& entry = entries_[index];
    std::erase_if(groups_[entry.group].columns, [&](const Column& column) { return column.entry == index; });
    entry.live = false;
    entry.ended = log_->end();
    --live_;
    ended_bytes_ += TextBytes(entry.attributes);
  }

  // Frees the entry of a series that ended. Its samples can no longer be read.
  void Forget(uint32_t index) {
    Entry& entry = entries_[index];
    ended_bytes_ -= TextBytes(entry.attributes);
    groups_[entry.group].places[entry.place] = kNone;
    entry = {};
    free_.push_back(index);
  }

  uint32_t LongestEnded() const {
    uint32_t oldest = kNone;
    for (uint32_t index = 0; index < entries_.size(); ++index) {
      const Entry& entry = entries_[index];
      if (entry.group == kNone || entry.live) continue;
      if (oldest == kNone || entry.ended < entries_[oldest].ended) oldest = index;
    }
    return oldest;
  }

  // An entry for a new series: a free one, that of the series which ended first, or that of a less important
  // one.
  uint32_t TakeEntry(uint32_t rank) {
    if (free_.empty()) {
      uint32_t victim = LongestEnded();
      if (victim == kNone) {
        for (uint32_t index = 0; index < entries_.size(); ++index) {
          if (victim == kNone || entries_[index].rank > entries_[victim].rank) victim = index;
        }
        if (entries_[victim].rank <= rank) return kNone;
        const uint32_t number = entries_[victim].group;
        WriteGaps(number, closed_ms_, [&](const Column& column) { return column.entry == victim; });
        End(victim);
        ++groups_[number].refused;
      }
      Forget(victim);
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  // Finds the kept series of a new layout. A series of the same name and attributes goes on, also after a
  // while.
  void Follow(uint32_t number, const Layout& layout, int64_t read_ms) {
    std::unordered_multimap<uint64_t, uint32_t> known;
    for (const uint32_t index : groups_[number].places) {
      if (index != kNone) known.emplace(entries_[index].attributes.hash(), index);
    }
    std::vector<Column> columns, added;
    std::vector<uint32_t> ranks;
    std::vector<bool> stays(entries_.size());
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      const SeriesInfo& info = layout[slot];
      const uint32_t rank = RankOf(info);
      if (rank == kNone) continue;
      Column column{slot, info.first_cell, 0, kNone, info.desc->number == Number::kInt};
      const auto [begin, end] = known.equal_range(info.attributes.hash());
      for (auto at = begin; at != end; ++at) {
        const Entry& entry = entries_[at->second];
        if (entry.rank == rank && !stays[at->second] && entry.attributes == info.attributes)
          column.entry = at->second;
      }
      if (column.entry == kNone) {
        added.push_back(column);
        ranks.push_back(rank);
        continue;
      }
      stays[column.entry] = true;
      columns.push_back(column);
    }
    const auto ends = [&](const Column& column) { return !stays[column.entry]; };
    WriteGaps(number, read_ms, ends);
    for (const Column& column : std::vector<Column>(groups_[number].columns)) {
      if (ends(column)) End(column.entry);
    }
    Group& group = groups_[number];
    for (Column& column : columns) Continue(column, layout[column.slot]);
    group.columns = std::move(columns);
    group.refused = 0;
    for (size_t i = 0; i < added.size(); ++i) {
      const uint32_t index = TakeEntry(ranks[i]);
      if (index == kNone) ++group.refused;
      else group.columns.push_back(Add(added[i], index, ranks[i], number, layout[added[i].slot]));
    }
    std::ranges::sort(group.columns, {}, &Column::place);
    group.layout = layout.id();
    ++layout_;
    while (ended_bytes_ > options_.memory / kPartForEnded) Forget(LongestEnded());
  }

  void Continue(Column& column, const SeriesInfo& info) {
    Entry& entry = entries_[column.entry];
    column.place = entry.place;
    if (!entry.live) {
      entry.live = true;
      ++live_;
      ended_bytes_ -= TextBytes(entry.attributes);
      entry.attributes = info.attributes;
    }
    entry.reset = entry.reset || (IsMonotonic(info.desc->kind) && entry.start_unix_ns != info.start_unix_ns);
    entry.start_unix_ns = info.start_unix_ns;
  }

  Column Add(Column column, uint32_t index, uint32_t rank, uint32_t number, const SeriesInfo& info) {
    Group& group = groups_[number];
    auto place = std::ranges::find(group.places, kNone);
    if (place == group.places.end()) place = group.places.insert(place, kNone);
    *place = index;
    Entry& entry = entries_[index];
    entry.id = next_id_++;
    entry.rank = rank;
    entry.group = number;
    entry.place = static_cast<uint32_t>(place - group.places.begin());
    entry.live = true;
    entry.born = log_->end();
    entry.start_unix_ns = info.start_unix_ns;
    entry.state.counter = IsMonotonic(info.desc->kind);
    entry.attributes = info.attributes;
    ++live_;
    column.place = entry.place;
    column.entry = index;
    return column;
  }

  // There is room again: the next tick looks for what was refused.
  void FollowAgain() {
    for (Group& group : groups_) {
      if (group.refused > 0) group.layout = 0;
    }
  }

  void BeginSegment() {
    log_->BeginSegment(closed_ms_);
    for (uint32_t number = 0; number < groups_.size(); ++number) Carry(number);
  }

  void Carry(uint32_t number) {
    Group& group = groups_[number];
    const auto known = [this](const Column& column) { return entries_[column.entry].state.present; };
    if (std::ranges::none_of(group.columns, known)) {
      group.time = Group().time;
      return;
    }
    BitWriter out = BeginRow(group, kCarried, 0);
    uint32_t before = UINT32_MAX;
    for (const Column& column : group.columns) {
      if (!known(column)) continue;
      Entry& entry = entries_[column.entry];
      ValueState& state = entry.state;
      if (!column.whole) Rescale(entry);
      WritePlace(out, column.place, before);
      WriteState(out, state);
    }
    log_->EndRow(out, number);
  }

  // Fewer digits, when those of an earlier value are not needed any more.
  static void Rescale(Entry& entry) {
    ValueState& state = entry.state;
    ValueState fresh;
    fresh.counter = state.counter;
    const ScaledValue scaled = Scale(entry.value, fresh, entry.increase);
    if (FallsByCode(state, scaled)) return;
    if (!scaled.raw && !state.last.raw) {
      const double shift = std::pow(10.0, scaled.digits - state.last.digits);
      state.expected_step = static_cast<int64_t>(static_cast<double>(state.expected_step) * shift);
      state.spread = static_cast<uint64_t>(static_cast<double>(state.spread) * shift);
    }
    state.last = scaled;
  }

  void List() {
    list_.clear();
    for (const Group& group : groups_) {
      for (const Column& column : group.columns) list_.push_back(column.entry);
    }
    std::ranges::sort(list_, {}, [this](uint32_t index) { return entries_[index].id; });
    listed_ = layout_;
  }

  // Makes a window for each series that is wanted.
  std::vector<GroupReader> Pick(std::span<const SeriesSelector> selectors,
                                std::vector<SeriesWindow>& windows) const {
    std::vector<GroupReader> readers(groups_.size());
    std::vector<uint32_t> wanted;
    for (uint32_t index = 0; index < entries_.size(); ++index) {
      const Entry& entry = entries_[index];
      if (entry.group == kNone) continue;
      const std::string_view name = kKept[entry.rank]->name;
      if (selectors.empty() || std::ranges::any_of(selectors, [&](const SeriesSelector& selector) {
            return selector.Matches(name, entry.attributes);
          }))
        wanted.push_back(index);
    }
    std::ranges::sort(wanted, {}, [this](uint32_t index) { return entries_[index].id; });
    for (const uint32_t index : wanted) {
      const Entry& entry = entries_[index];
      GroupReader& reader = readers[entry.group];
      const Group& group = groups_[entry.group];
      if (reader.picks.empty()) {
        reader.born = group.born;
        reader.states.resize(group.places.size());
        reader.picks.resize(group.places.size());
      }
      reader.picks[entry.place] = {static_cast<uint32_t>(windows.size()), entry.born};
      windows.push_back({SeriesOf(entry), {}});
    }
    return readers;
  }

  // The segment from which on there are samples at or after a time, or the last one.
  uint64_t FirstSegment(int64_t ms) const {
    uint64_t number = log_->first_number();
    while (number + 1 < log_->end_number() &&
           (log_->segment(number).rows == 0 || log_->segment(number).last_ms < ms))
      ++number;
    return number;
  }

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string_view, uint32_t> ranks_;
  std::optional<SampleLog> log_;  // none before Begin
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  std::vector<Group> groups_;
  std::vector<uint32_t> numbers_;  // of groups, by their position in the last tick
  std::vector<uint32_t> list_;     // live entries, by id
  size_t live_ = 0, ended_bytes_ = 0;
  uint64_t tick_ = 0, layout_ = 0, listed_ = 0;
  int64_t closed_ms_ = 0;  // of the clock that never jumps
  int64_t wall_ms_ = 0;    // to be added to it
  uint32_t next_id_ = 0;
  AttributeSet node_;
  mutable std::weak_ptr<const std::vector<KeptSeries>> shared_list_;
  mutable uint64_t shared_layout_ = 0;
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
