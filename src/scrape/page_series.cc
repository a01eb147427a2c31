#include "scrape/page_series.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>

#include "catalog/exported_name.h"

namespace gpulens {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kDeadCellsKept = 1024;
// After so many new series the heap is trimmed.
constexpr size_t kManyAppeared = 1000;

Kind KindOf(ExpositionType type) noexcept {
  switch (type) {
    case ExpositionType::kUnknown: return Kind::kUnknown;
    case ExpositionType::kCounter: return Kind::kCounter;
    case ExpositionType::kGauge: return Kind::kGauge;
    case ExpositionType::kHistogram: return Kind::kHistogram;
    case ExpositionType::kGaugeHistogram: return Kind::kGaugeHistogram;
    case ExpositionType::kSummary: return Kind::kSummary;
    case ExpositionType::kInfo: return Kind::kInfo;
    case ExpositionType::kStateSet: return Kind::kStateSet;
  }
  return Kind::kUnknown;
}

constexpr std::string_view kExported = "exported_";

bool IsShaped(Kind kind) noexcept {
  return kind == Kind::kHistogram || kind == Kind::kGaugeHistogram || kind == Kind::kSummary;
}

bool TargetHas(const Entity* target, std::string_view key) noexcept {
  for (; target; target = target->parent.get()) {
    if (target->attributes.Has(key)) return true;
  }
  return false;
}

constexpr std::string_view kTotal = "_total", kInfo = "_info";

}  // namespace

PageSeries::PageSeries(const ParsedPage& page, EntityRef target, Filter passes, SeriesRules rules)
    : page_(page),
      target_(std::move(target)),
      passes_(std::move(passes)),
      governor_(rules.empty() ? nullptr : std::make_unique<Governor>(page, target_, std::move(rules))) {
  drops_.folds = governor_ != nullptr;
}

void PageSeries::Write(bool complete, FrameWriter& out) {
  if (!followed_ || page_.generation() != generation_) Follow(out.table());
  if (!created_.empty()) RestartCreated(out.table());
  if (dead_cells_ > kDeadCellsKept && dead_cells_ > cell_slots_.size() / 2) CompactCells();
  const std::span<const double> values = page_.values();
  {
    SampleTimes times(page_, out);
    for (Entry& entry : entries_) {
      if (!entry.series) continue;
      if (entry.cells != 0) {
        WriteShaped(entry, complete, times, out);
      } else if (complete || page_.seen(entry.first)) {
        times.Next(entry.first);
        out.Set(entry.series, values[entry.first]);
      }
    }
  }
  if (governor_) governor_->series.Write(complete, out);
  if (!page_.exemplars().empty()) Attach(out);
}

void PageSeries::WriteShaped(Entry& entry, bool complete, SampleTimes& times, FrameWriter& out) {
  const std::span<const uint32_t> slots(cell_slots_.data() + entry.first, entry.cells);
  // Half a histogram would be wrong.
  if (!complete && !std::ranges::all_of(slots, [&](uint32_t s) { return page_.seen(s); })) return;
  const std::span<const double> values = page_.values();
  times.Next(slots);
  std::span<Cell> cells = out.Cells(entry.series);
  double before = cells.back().d, now = values[slots.back()];
  for (size_t i = 0; i < slots.size(); ++i) cells[i].d = values[slots[i]];
  bool known = out.table().InfoAt(entry.series.slot).start_known;
  bool restarts = entry.counts && (entry.written ? now < before : !known);
  entry.written = 1;
  if (restarts) out.table().Restart(entry.series.slot, out.read_at().unix_ns);
}

// Follows the changes since the last page: names are freed before others take them.
void PageSeries::Follow(SeriesTable& table) {
  followed_ = true;
  generation_ = page_.generation();
  owners_.clear();
  uint32_t ids = static_cast<uint32_t>(entries_.size());
  for (uint32_t id : page_.appeared()) ids = std::max(ids, id + 1);
  entries_.reserve(ids);  // exactly: they stay as many
  for (uint32_t id : page_.vanished()) Retire(id, table);
  for (uint32_t id : page_.reshaped()) Retire(id, table);
  if (governor_) FollowGroups(table);
  UpdateFamilies(table);
  for (uint32_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].series && families_[page_.family_of(id)].changed) {
      Retire(id, table);
      Declare(id, table);
    }
  }
  for (uint32_t id : page_.reshaped()) Declare(id, table);
  if (!page_.vanished().empty() && !refused_.empty()) RetryRefused(table);
  for (uint32_t id : page_.appeared()) Declare(id, table);
  if (governor_) {
    governor_->series.Declare(
        [this](uint32_t family) { return families_[family].left_out ? nullptr : families_[family].desc; },
        [this](std::vector<PageLabel> labels) { return AttributesOf(labels); }, table);
  }
  CountDrops();
  if (page_.appeared().size() < kManyAppeared) return;
  created_.shrink_to_fit();
  cell_slots_.shrink_to_fit();
  ::malloc_trim(0);
}

void PageSeries::FollowGroups(SeriesTable& table) {
  governor_->labels.Follow();
  governor_->groups.Follow();
  for (uint32_t id : governor_->groups.taken()) Retire(id, table);
  governor_->series.Retire(table);
}

void PageSeries::CountDrops() {
  drops_ = {};
  for (uint32_t id : refused_) {
    uint32_t why = entries_[id].refused;
    if (why != 0) ++drops_.dropped[why - 1];
  }
  if (governor_) governor_->series.Count(drops_);
}

void PageSeries::UpdateFamilies(SeriesTable& table) {
  const std::span<const ExpositionFamily> now = page_.families();
  families_.resize(now.size());
  for (size_t i = 0; i < now.size(); ++i) {
    Family& family = families_[i];
    if (!now[i].alive || family.name != now[i].name || family.type != now[i].type) family = {};
    family.name = now[i].name;
    family.type = now[i].type;
    const std::string_view suffix = OptionalSuffix(family.type);
    if (family.known || !now[i].suffixed || suffix.empty() || family.name.ends_with(suffix)) continue;
    family.suffixed = *now[i].suffixed;
    family.known = true;
  }
  std::string name;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].alive) continue;
    Family& family = families_[i];
    family.left_out = passes_ && !passes_(now[i]);
    if (family.left_out) continue;
    name = family.name;
    if (family.suffixed) name += OptionalSuffix(family.type);
    MetricDesc desc{.name = name, .unit = now[i].unit, .help = now[i].help, .kind = KindOf(family.type)};
    desc.naming = Naming::kVerbatim;
    desc.name = name = ExportedName(desc, NameOwner::kTarget);
    const MetricDesc* owned = table.Own(desc);
    // A page whose help texts keep changing keeps the first ones.
    if (!owned && family.desc && family.desc->name == name) owned = family.desc;
    family.changed = family.desc && family.desc != owned;
    family.desc = owned;
  }
}

// Another creation time means a restart, even when the number did not fall.
void PageSeries::RestartCreated(SeriesTable& table) {
  for (size_t i = 0; i < created_.size();) {
    Created& created = created_[i];
    const Series& present = entries_[created.id].series;
    bool gone = present.slot != created.series.slot || present.generation != created.series.generation;
    bool same = gone || !page_.seen(created.slot) || page_.values()[created.slot] == created.unix_s ||
                std::isnan(page_.values()[created.slot]);
    if (!gone && same) {
      ++i;
      continue;
    }
    uint32_t id = created.id;
    created = created_.back();
    created_.pop_back();
    if (gone) continue;
    Retire(id, table);
    Declare(id, table);
  }
}

void PageSeries::RetryRefused(SeriesTable& table) {
  std::vector<uint32_t> waiting;
  waiting.swap(refused_);
  bool full = false;
  for (uint32_t id : waiting) {
    if (!entries_[id].refused) continue;  // it vanished
    if (full) {
      refused_.push_back(id);
      continue;
    }
    uint64_t limited = table.refused_for_room();
    entries_[id].refused = 0;
    Declare(id, table);
    full = table.refused_for_room() != limited;
  }
}

void PageSeries::CompactCells() {
  std::vector<uint32_t> kept;
  kept.reserve(cell_slots_.size() - dead_cells_);
  for (Entry& entry : entries_) {
    if (entry.cells == 0) continue;
    auto first = cell_slots_.begin() + entry.first;
    entry.first = static_cast<uint32_t>(kept.size());
    kept.insert(kept.end(), first, first + entry.cells);
  }
  cell_slots_ = std::move(kept);
  dead_cells_ = 0;
}

void PageSeries::Attach(FrameWriter& out) {
  if (owners_.empty()) {
    owners_.assign(page_.values().size(), kNone);
    for (uint32_t id = 0; id < entries_.size(); ++id) {
      const Entry& entry = entries_[id];
      if (!entry.series) continue;
      if (entry.cells == 0) owners_[entry.first] = id;
      for (uint32_t i = 0; i < entry.cells; ++i) owners_[cell_slots_[entry.first + i]] = id;
    }
  }
  std::vector<AttributeSet::Attribute> attributes;
  for (const PageExemplar& exemplar : page_.exemplars()) {
    uint32_t id = exemplar.slot < owners_.size() ? owners_[exemplar.slot] : kNone;
    if (id == kNone) continue;
    const Entry& entry = entries_[id];
    Exemplar made;
    while (entry.cells != 0 && cell_slots_[entry.first + made.cell] != exemplar.slot) ++made.cell;
    made.value = exemplar.value;
    made.unix_ns = exemplar.timestamp_ms.value_or(0) * 1'000'000;
    page_.ExemplarLabels(exemplar, labels_);
    attributes.clear();
    for (const PageLabel& label : labels_) attributes.push_back({label.name, std::string_view(label.value)});
    made.attributes = AttributeSet(attributes);
    out.Attach(entry.series, std::move(made));
  }
}

size_t PageSeries::memory_bytes() const noexcept {
  return families_.capacity() * sizeof(Family) + entries_.capacity() * sizeof(Entry) +
         (cell_slots_.capacity() + refused_.capacity() + owners_.capacity()) * sizeof(uint32_t) +
         created_.capacity() * sizeof(Created);
}

void PageSeries::Retire(uint32_t id, SeriesTable& table) {
  if (id >= entries_.size()) return;
  Entry& entry = entries_[id];
  table.Retire(entry.series);
  dead_cells_ += entry.cells;
  entry = {};
}

void PageSeries::Declare(uint32_t id, SeriesTable& table) {
  if (id >= entries_.size()) entries_.resize(id + 1);
  if (governor_ && governor_->groups.Holds(id)) return;
  Family& family = families_[page_.family_of(id)];
  if (family.left_out) return;
  page_.Cells(id, cells_);
  const uint64_t limit = table.refused_for_room(), duplicate = table.refused(SeriesRefusal::kDuplicate);
  if (family.desc && IsShaped(family.desc->kind)) DeclareShaped(id, family, table);
  else if (family.desc) DeclareScalar(id, *family.desc, table);
  Entry& entry = entries_[id];
  if (!entry.series && !entry.refused) {
    entry.refused = 1 + (static_cast<uint32_t>(WhyRefused(table, limit, duplicate)) & 3u);
    refused_.push_back(id);
  }
}

void PageSeries::DeclareScalar(uint32_t id, const MetricDesc& desc, SeriesTable& table) {
  const PageCell* cell = FindNumber(cells_);
  if (!cell) return;
  entries_[id].first = cell->slot;
  const SeriesTable::Form form{.start_unix_ns = CreatedUnixNs(page_, cells_)};
  entries_[id].series = table.Declare(desc, target_, Attributes(id), form);
  if (desc.kind == Kind::kCounter) Watch(id);
}

void PageSeries::DeclareShaped(uint32_t id, Family& family, SeriesTable& table) {
  bool summary = family.desc->kind == Kind::kSummary;
  SampleRole bounds = summary ? SampleRole::kQuantile : SampleRole::kBucket;
  SeriesTable::Form form{.start_unix_ns = CreatedUnixNs(page_, cells_)};
  form.shape = ShapeOf(family, bounds);
  if (form.shape->cells() == 0) return;
  Series series = table.Declare(*family.desc, target_, Attributes(id), form);
  if (!series) return;
  Entry& entry = entries_[id];
  entry.series = series;
  entry.first = static_cast<uint32_t>(cell_slots_.size());
  entry.cells = form.shape->cells() & ((1u << 28) - 1);
  entry.counts = form.shape->has_count && family.desc->kind != Kind::kGaugeHistogram;
  for (const PageCell& cell : cells_) {
    if (cell.role == bounds) cell_slots_.push_back(cell.slot);
  }
  for (SampleRole role : {SampleRole::kSum, SampleRole::kCount}) {
    if (const PageCell* cell = FindCell(cells_, role)) cell_slots_.push_back(cell->slot);
  }
  if (family.desc->kind != Kind::kGaugeHistogram) Watch(id);
}

Ref<const Shape> PageSeries::ShapeOf(Family& family, SampleRole bounds) {
  auto shape = MakeRef<Shape>();
  for (const PageCell& cell : cells_) {
    if (cell.role == bounds) shape->bounds.push_back(cell.bound);
  }
  shape->has_sum = FindCell(cells_, SampleRole::kSum) != nullptr;
  shape->has_count = FindCell(cells_, SampleRole::kCount) != nullptr;
  const Shape* last = family.last_shape.get();
  if (!last || last->bounds != shape->bounds || last->has_sum != shape->has_sum ||
      last->has_count != shape->has_count) {
    shape->bounds.shrink_to_fit();
    // A program writes a bound in one way, so the texts of one series serve all.
    KeepBoundTexts(page_, cells_, bounds, *shape);
    family.last_shape = shape;
  }
  return family.last_shape;
}

void PageSeries::Watch(uint32_t id) {
  const PageCell* cell = FindCell(cells_, SampleRole::kCreated);
  if (!cell || !entries_[id].series) return;
  created_.push_back({id, cell->slot, page_.values()[cell->slot], entries_[id].series});
}

AttributeSet PageSeries::Attributes(uint32_t id) {
  page_.Labels(id, labels_);
  std::erase_if(labels_, [](const PageLabel& label) { return label.value.empty(); });
  return AttributesOf(labels_);
}

AttributeSet PageSeries::AttributesOf(std::vector<PageLabel>& labels) const {
  auto taken = [&](std::string_view name) {
    return TargetHas(target_.get(), name) ||
           std::ranges::any_of(labels, [&](const auto& label) { return label.name == name; });
  };
  std::vector<AttributeSet::Attribute> attributes;
  attributes.reserve(labels.size());
  for (PageLabel& label : labels) {
    if (TargetHas(target_.get(), label.name)) {
      std::string name = std::move(label.name);
      do name.insert(0, kExported);
      while (taken(name));
      label.name = std::move(name);
    }
  }
  for (const PageLabel& label : labels) attributes.push_back({label.name, std::string_view(label.value)});
  return AttributeSet(attributes);
}

std::string_view OptionalSuffix(ExpositionType type) noexcept {
  if (type == ExpositionType::kCounter) return kTotal;
  return type == ExpositionType::kInfo ? kInfo : std::string_view{};
}

}  // namespace gpulens
