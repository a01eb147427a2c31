#include "scrape/series_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "scrape/page_cells.h"

namespace gpulens {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

bool IsShaped(ExpositionType type) noexcept {
  return type == ExpositionType::kHistogram || type == ExpositionType::kGaugeHistogram ||
         type == ExpositionType::kSummary;
}

void AddText(std::string& key, std::string_view text) {
  uint32_t size = static_cast<uint32_t>(text.size());
  key.append(reinterpret_cast<const char*>(&size), sizeof size);
  key += text;
}

// Keeps those columns of a table with `width` of them.
template <class T>
void KeepColumns(std::vector<T>& table, size_t width, const std::vector<size_t>& columns) {
  std::vector<T> kept;
  kept.reserve(table.size() / width * columns.size());
  for (size_t row = 0; row < table.size(); row += width) {
    for (size_t column : columns) kept.push_back(table[row + column]);
  }
  table = std::move(kept);
}

}  // namespace

void SeriesGroups::Follow() {
  taken_.clear();
  emptied_.clear();
  fresh_.clear();
  if (waiting_ > 0) CheckWaiting();
  for (uint32_t series : page_.vanished()) Leave(series, true);
  // The same series with other cells, which have its whole count.
  for (uint32_t series : page_.reshaped()) {
    if (!Holds(series)) continue;
    Leave(series, false);
    Enter(series);
  }
  for (uint32_t series : page_.appeared()) Enter(series);
  if (!fresh_.empty()) TakeEqualSeries();
  EndEmptied();
}

bool SeriesGroups::IsOther(const Group& group) const noexcept {
  const auto& tops = labels_.rules().top;
  return group.fold == SeriesFold::kCount && std::ranges::any_of(tops, [&](const SeriesRules::Top& top) {
           return std::ranges::any_of(group.labels, [&](const PageLabel& label) {
             return label.name == top.label && label.value == kOtherValue;
           });
         });
}

// Indexes of families are reused, so the key is compared.
bool SeriesGroups::HasFamily(const Group& group) const noexcept {
  const auto families = page_.families();
  if (group.family >= families.size() || !families[group.family].alive) return false;
  std::string head(1, static_cast<char>(families[group.family].type));
  AddText(head, families[group.family].name);
  return group.key.starts_with(head);
}

void SeriesGroups::CheckWaiting() {
  for (Group& group : groups_) {
    if (group.waits && group.family != kNoFamily && !HasFamily(group)) MoveTo(group, kNoFamily);
  }
}

// After all series entered: a group whose members all changed at once keeps its count.
void SeriesGroups::EndEmptied() {
  for (uint32_t id : emptied_) {
    Group& group = groups_[id];
    if (!group.alive || !group.series.empty() || group.waits) continue;
    if (waiting_ < kMostWaiting && !group.sums.empty() && IsOther(group)) {
      group.waits = true;
      ++waiting_;
      if (!HasFamily(group)) MoveTo(group, kNoFamily);
      continue;
    }
    by_key_.erase(group.key);
    CountFamily(group.family, -1);
    uint32_t version = group.version;
    group = {};
    group.version = version + 1;
    free_.push_back(id);
    --live_;
  }
}

// Adds the series to its group, if it has one.
void SeriesGroups::Enter(uint32_t series) {
  uint32_t family = page_.family_of(series);
  bool changed = labels_.Labels(series, now_labels_);
  if (!changed && !families_.contains(family)) return;
  std::string key = KeyOf(family);
  auto found = by_key_.find(key);
  if (found == by_key_.end() && !changed) return;
  SeriesFold fold = labels_.rules().FoldOf(page_.families()[family]);
  if (fold != SeriesFold::kDrop) {
    uint32_t id = found != by_key_.end() ? found->second : Make(family, fold, std::move(key));
    if (groups_[id].family != family) MoveTo(groups_[id], family);
    if (Join(series, id)) return;
    if (groups_[id].series.empty()) emptied_.push_back(id);
  }
  PlaceOf(series).group = kLeftOut;
  ++dropped_;
}

SeriesGroups::Place& SeriesGroups::PlaceOf(uint32_t series) {
  if (places_.size() <= series) places_.resize(series + 1);
  return places_[series];
}

void SeriesGroups::CountFamily(uint32_t family, int change) {
  if (family == kNoFamily) return;
  uint32_t& count = families_[family];
  count = static_cast<uint32_t>(static_cast<int>(count) + change);
  if (count == 0) families_.erase(family);
}

// The family came back with another index.
void SeriesGroups::MoveTo(Group& group, uint32_t family) {
  CountFamily(group.family, -1);
  CountFamily(family, 1);
  group.family = family;
  ++group.version;
}

// Series that the rules did not change may equal a new group.
void SeriesGroups::TakeEqualSeries() {
  page_.Series(all_);
  for (uint32_t series : all_) {
    uint32_t family = page_.family_of(series);
    if (Holds(series) || std::ranges::find(fresh_, family) == fresh_.end()) continue;
    labels_.Labels(series, now_labels_);
    auto found = by_key_.find(KeyOf(family));
    if (found == by_key_.end()) continue;
    if (Join(series, found->second)) taken_.push_back(series);
  }
}

// The key of now_labels_, which it sorts.
std::string SeriesGroups::KeyOf(uint32_t family) {
  std::ranges::sort(now_labels_, [](const PageLabel& a, const PageLabel& b) { return a.name < b.name; });
  const ExpositionFamily& of = page_.families()[family];
  std::string key(1, static_cast<char>(of.type));
  AddText(key, of.name);
  for (const PageLabel& label : now_labels_) {
    AddText(key, label.name);
    AddText(key, label.value);
  }
  return key;
}

uint32_t SeriesGroups::Make(uint32_t family, SeriesFold fold, std::string key) {
  uint32_t id = static_cast<uint32_t>(groups_.size());
  if (free_.empty()) {
    groups_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Group& group = groups_[id];
  group.family = family;
  group.fold = fold;
  group.alive = true;
  group.labels = now_labels_;
  group.key = key;
  by_key_.emplace(std::move(key), id);
  CountFamily(family, 1);
  ++live_;
  if (std::ranges::find(fresh_, family) == fresh_.end()) fresh_.push_back(family);
  return id;
}

bool SeriesGroups::Join(uint32_t series, uint32_t id) {
  Group& group = groups_[id];
  page_.Cells(series, now_cells_);
  const bool shaped = IsShaped(page_.families()[group.family].type);
  Ref<Shape> shape = shaped ? ShapeOf() : Ref<Shape>();
  if (shaped ? shape->cells() == 0 : FindNumber(now_cells_) == nullptr) return false;
  bool first = group.sums.empty();
  if (first) {
    if (shaped) KeepBoundTexts(page_, now_cells_, SampleRole::kBucket, *shape);
    group.shape = shape;
    group.sums.assign(shaped ? shape->cells() : 1, kNoNumber);
    group.gone.assign(group.sums.size(), 0);
    ++group.version;
  } else if (shaped && !Narrow(group, *shape)) {
    return false;
  }
  AddSlots(group);
  PlaceOf(series) = {id, static_cast<uint32_t>(group.series.size())};
  group.series.push_back(series);
  ++members_;
  waiting_ -= group.waits;
  group.waits = false;
  return true;
}

// The shape of now_cells_. Quantiles cannot be combined: a summary keeps sum and count.
Ref<Shape> SeriesGroups::ShapeOf() const {
  auto shape = MakeRef<Shape>();
  for (const PageCell& cell : now_cells_) {
    if (cell.role == SampleRole::kBucket && !std::isnan(cell.bound)) shape->bounds.push_back(cell.bound);
  }
  shape->bounds.shrink_to_fit();
  shape->has_sum = FindCell(now_cells_, SampleRole::kSum) != nullptr;
  shape->has_count = FindCell(now_cells_, SampleRole::kCount) != nullptr;
  return shape;
}

// Reduces the group to the buckets that both have, which can be added as they are cumulative. False: none is
// common; the group is unchanged.
bool SeriesGroups::Narrow(Group& group, const Shape& other) {
  const Shape& old = *group.shape;
  auto narrow = MakeRef<Shape>();
  std::vector<size_t> columns;
  for (size_t i = 0; i < old.bounds.size(); ++i) {
    if (std::ranges::find(other.bounds, old.bounds[i]) == other.bounds.end()) continue;
    narrow->bounds.push_back(old.bounds[i]);
    if (!old.bound_texts.empty()) narrow->bound_texts.push_back(old.bound_texts[i]);
    columns.push_back(i);
  }
  narrow->has_sum = old.has_sum && other.has_sum;
  narrow->has_count = old.has_count && other.has_count;
  if (narrow->has_sum) columns.push_back(old.sum_cell());
  if (narrow->has_count) columns.push_back(old.count_cell());
  if (columns.size() == old.cells() || columns.empty()) return !columns.empty();
  size_t width = old.cells();
  KeepColumns(group.slots, width, columns);
  KeepColumns(group.last, width, columns);
  KeepColumns(group.gone, width, columns);
  KeepColumns(group.sums, width, columns);
  group.shape = narrow;
  ++group.version;
  return true;
}

// Appends the slots of now_cells_ that the group's shape has.
void SeriesGroups::AddSlots(Group& group) {
  group.last.insert(group.last.end(), group.sums.size(), kNoNumber);
  if (!group.shape) {
    group.slots.push_back(FindNumber(now_cells_)->slot);
    return;
  }
  for (double bound : group.shape->bounds) {
    for (const PageCell& cell : now_cells_) {
      if (cell.role == SampleRole::kBucket && cell.bound == bound) group.slots.push_back(cell.slot);
    }
  }
  if (group.shape->has_sum) group.slots.push_back(FindCell(now_cells_, SampleRole::kSum)->slot);
  if (group.shape->has_count) group.slots.push_back(FindCell(now_cells_, SampleRole::kCount)->slot);
}

void SeriesGroups::Leave(uint32_t series, bool keep_count) {
  if (!Holds(series)) return;
  auto [id, member] = std::exchange(places_[series], Place{});
  if (id == kLeftOut) {
    --dropped_;
    return;
  }
  Group& group = groups_[id];
  size_t cells = group.sums.size();
  double* last = group.last.data() + member * cells;
  if (keep_count && group.fold == SeriesFold::kCount) {
    for (size_t i = 0; i < cells; ++i) group.gone[i] += std::isnan(last[i]) ? 0 : last[i];
  }
  // The last member takes its place.
  size_t end = group.series.size() - 1;
  uint32_t mover = group.series[end];
  if (mover != series) places_[mover].member = member;
  group.series[member] = mover;
  std::copy_n(group.last.data() + end * cells, cells, last);
  std::copy_n(group.slots.data() + end * cells, cells, group.slots.data() + member * cells);
  group.series.pop_back();
  group.last.resize(end * cells);
  group.slots.resize(end * cells);
  --members_;
  if (end == 0) emptied_.push_back(id);
}

// Whether a count has fallen. A sum may fall without a restart.
bool SeriesGroups::Restarted(const Group& group, const double* last, const double* now) noexcept {
  bool only_sum = group.shape && group.sums.size() == 1;
  for (size_t i = 0; i < group.sums.size(); ++i) {
    bool sum = group.shape && group.shape->has_sum && i == group.shape->sum_cell();
    if ((!sum || only_sum) && now[i] < last[i]) return true;
  }
  return false;
}

void SeriesGroups::Update(Group& group, size_t member, bool complete) {
  size_t cells = group.sums.size();
  const uint32_t* slots = group.slots.data() + member * cells;
  double* last = group.last.data() + member * cells;
  now_.resize(std::max(now_.size(), cells));
  for (size_t i = 0; i < cells; ++i) {
    // Half a histogram would be wrong.
    if (!complete && !page_.seen(slots[i])) return;
    now_[i] = page_.values()[slots[i]];
    if (std::isnan(now_[i]) && group.fold == SeriesFold::kCount) return;
  }
  if (group.fold == SeriesFold::kCount && Restarted(group, last, now_.data())) {
    for (size_t i = 0; i < cells; ++i) group.gone[i] += last[i];
  }
  std::copy_n(now_.data(), cells, last);
}

const SeriesGroups::Group& SeriesGroups::Read(size_t id, bool complete) {
  Group& group = groups_[id];
  size_t cells = group.sums.size();
  std::fill(group.sums.begin(), group.sums.end(), group.waits ? 0 : kNoNumber);
  for (size_t member = 0; member < group.series.size(); ++member) {
    Update(group, member, complete);
    const double* last = group.last.data() + member * cells;
    for (size_t i = 0; i < cells; ++i) {
      double& sum = group.sums[i];
      if (std::isnan(last[i])) continue;
      if (std::isnan(sum)) sum = last[i];
      else sum = group.fold == SeriesFold::kMax ? std::max(sum, last[i]) : sum + last[i];
    }
  }
  if (group.fold != SeriesFold::kCount) return group;
  for (size_t i = 0; i < cells; ++i) group.sums[i] += group.gone[i];
  return group;
}

SeriesDrop WhyRefused(const SeriesTable& table, uint64_t limit, uint64_t duplicate) noexcept {
  if (table.refused_for_room() != limit) return SeriesDrop::kLimit;
  if (table.refused(SeriesRefusal::kDuplicate) != duplicate) return SeriesDrop::kDuplicate;
  return SeriesDrop::kInvalid;
}

void FoldedSeries::Retire(SeriesTable& table) {
  const auto groups = groups_.groups();
  live_.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    Live& live = live_[i];
    if (groups[i].alive && groups[i].version == live.version) continue;
    table.Retire(live.series);
    live = {};
    live.version = groups[i].version;
  }
}

void FoldedSeries::Declare(const DescOf& desc_of, const AttributesOf& attributes_of, SeriesTable& table) {
  const auto groups = groups_.groups();
  bool full = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].alive) continue;
    Live& live = live_[i];
    const bool here = groups[i].family != SeriesGroups::kNoFamily;
    const MetricDesc* desc = here ? desc_of(groups[i].family) : nullptr;
    if (desc != live.desc) {
      table.Retire(live.series);
      uint32_t version = live.version;
      live = {};
      live.desc = desc;
      live.version = version;
    }
    live.exported = desc != nullptr;
    if (!desc || live.series) continue;
    if (full) live.drop = SeriesDrop::kLimit;
    else DeclareOne(i, attributes_of, table);
    full = full || (!live.series && live.drop == SeriesDrop::kLimit);
  }
}

void FoldedSeries::DeclareOne(size_t at, const AttributesOf& attributes_of, SeriesTable& table) {
  const SeriesGroups::Group& group = groups_.groups()[at];
  Live& live = live_[at];
  SeriesTable::Form form;
  form.shape = group.shape;
  const uint64_t limit = table.refused_for_room(), duplicate = table.refused(SeriesRefusal::kDuplicate);
  live.series = table.Declare(*live.desc, target_, attributes_of(group.labels), form);
  if (!live.series) live.drop = WhyRefused(table, limit, duplicate);
}

void FoldedSeries::Write(bool complete, FrameWriter& out) {
  SampleTimes times(groups_.page(), out);
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& live = live_[i];
    if (!groups_.groups()[i].alive) continue;
    // Also without a series: its sums must include the past once it gets one.
    const SeriesGroups::Group& group = groups_.Read(i, complete);
    if (!live.series) continue;
    times.Next(group.slots);
    bool read = std::ranges::none_of(group.sums, [](double sum) { return std::isnan(sum); });
    if (!group.shape) {
      if (read || complete) out.Set(live.series, group.sums[0]);
      continue;
    }
    if (!read) continue;
    std::span<Cell> cells = out.Cells(live.series);
    for (size_t c = 0; c < cells.size(); ++c) cells[c].d = group.sums[c];
    // Its start is unknown: its first numbers are the base.
    bool counts = group.fold == SeriesFold::kCount && group.shape->has_count;
    if (counts && !live.written) out.table().Restart(live.series.slot, out.read_at().unix_ns);
    live.written = true;
  }
}

void FoldedSeries::Count(SeriesDrops& drops) const {
  drops.folds = true;
  drops.folded += groups_.folded();
  drops[SeriesDrop::kNotCombined] += groups_.dropped();
  for (const Live& live : live_) {
    if (live.exported && !live.series) ++drops[live.drop];
  }
}

}  // namespace gpulens
