#include "scraping/page_series.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>

#include "scraping/sample_names.h"

namespace gpulens {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr std::string_view kExported = "exported_";
constexpr size_t kDeadCellsKept = 1024;
// So many new series leave garbage behind that is worth a walk over the heap.
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

bool IsShaped(Kind kind) noexcept {
  return kind == Kind::kHistogram || kind == Kind::kGaugeHistogram || kind == Kind::kSummary;
}

bool TargetHas(const Entity* target, std::string_view key) noexcept {
  for (; target; target = target->parent.get()) {
    if (target->attributes.Has(key)) return true;
  }
  return false;
}

}  // namespace

void PageSeries::Write(std::string_view body, ExpositionFormat format, bool complete, FrameWriter& out) {
  if (!followed_ || page_.generation() != generation_) Follow(body, format, out.table());
  if (!created_.empty()) RestartCreated(out.table());
  if (dead_cells_ > kDeadCellsKept && dead_cells_ > cell_slots_.size() / 2) CompactCells();
  const std::span<const double> values = page_.values();
  for (Entry& entry : entries_) {
    if (!entry.series) continue;
    if (entry.cells != 0) {
      WriteShaped(entry, complete, out);
    } else if (complete || page_.seen(entry.first)) {
      out.Set(entry.series, values[entry.first]);
    }
  }
  if (!page_.exemplars().empty()) Attach(out);
}

void PageSeries::WriteShaped(Entry& entry, bool complete, FrameWriter& out) {
  const std::span<const uint32_t> slots(cell_slots_.data() + entry.first, entry.cells);
  // Half a histogram would be a lie.
  if (!complete && !std::all_of(slots.begin(), slots.end(), [&](uint32_t s) { return page_.seen(s); }))
    return;
  const std::span<const double> values = page_.values();
  std::span<Cell> cells = out.Cells(entry.series);
  double before = cells.back().d, now = values[slots.back()];
  for (size_t i = 0; i < slots.size(); ++i) cells[i].d = values[slots[i]];
  bool known = out.table().InfoAt(entry.series.slot).start_known;
  bool restarts = entry.counts && (entry.written ? now < before : !known);
  entry.written = 1;
  if (restarts) out.table().Restart(entry.series.slot, out.read_at().unix_ns);
}

// What came, went or changed since the last page, in the order that frees names before they are taken.
void PageSeries::Follow(std::string_view body, ExpositionFormat format, SeriesTable& table) {
  followed_ = true;
  generation_ = page_.generation();
  owners_.clear();
  uint32_t ids = static_cast<uint32_t>(entries_.size());
  for (uint32_t id : page_.appeared()) ids = std::max(ids, id + 1);
  entries_.reserve(ids);  // exactly: they stay as many
  for (uint32_t id : page_.vanished()) Retire(id, table);
  for (uint32_t id : page_.reshaped()) Retire(id, table);
  UpdateFamilies(body, format, table);
  for (uint32_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].series && families_[page_.family_of(id)].changed) {
      Retire(id, table);
      Declare(id, table);
    }
  }
  for (uint32_t id : page_.reshaped()) Declare(id, table);
  if (!page_.vanished().empty() && !refused_.empty()) RetryRefused(table);
  for (uint32_t id : page_.appeared()) Declare(id, table);
  if (page_.appeared().size() < kManyAppeared) return;
  created_.shrink_to_fit();
  cell_slots_.shrink_to_fit();
  ::malloc_trim(0);
}

void PageSeries::UpdateFamilies(std::string_view body, ExpositionFormat format, SeriesTable& table) {
  const std::span<const ExpositionFamily> now = page_.families();
  families_.resize(now.size());
  for (size_t i = 0; i < now.size(); ++i) {
    Family& family = families_[i];
    if (!now[i].alive || family.name != now[i].name || family.type != now[i].type) family = {};
    family.name = now[i].name;
    family.type = now[i].type;
  }
  LearnSuffixes(body, format);
  std::string name;
  for (size_t i = 0; i < now.size(); ++i) {
    if (!now[i].alive) continue;
    Family& family = families_[i];
    family.left_out = passes_ && !passes_(now[i]);
    if (family.left_out) continue;
    name = family.name;
    if (family.suffixed) name += OptionalSuffix(family.type);
    MetricDesc desc{.name = name, .unit = now[i].unit, .help = now[i].help, .kind = KindOf(family.type)};
    desc.spelling = Spelling::kVerbatim;
    const MetricDesc* owned = table.Own(desc);
    // A page whose help texts never stop changing keeps those it had.
    if (!owned && family.desc && family.desc->name == name) owned = family.desc;
    family.changed = family.desc && family.desc != owned;
    family.desc = owned;
  }
}

void PageSeries::LearnSuffixes(std::string_view body, ExpositionFormat format) {
  std::unordered_set<std::string_view> asked;
  for (Family& family : families_) {
    std::string_view suffix = OptionalSuffix(family.type);
    if (!family.known && !suffix.empty() && !family.name.ends_with(suffix)) asked.insert(family.name);
  }
  if (asked.empty()) return;
  // A family without samples has no answer yet.
  const auto found = FindSuffixed(body, format, asked);
  for (Family& family : families_) {
    auto answer = found.find(family.name);
    if (answer == found.end()) continue;
    family.suffixed = answer->second;
    family.known = true;
  }
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
  Family& family = families_[page_.family_of(id)];
  if (family.left_out) return;
  page_.Cells(id, cells_);
  if (family.desc && IsShaped(family.desc->kind)) DeclareShaped(id, family, table);
  else if (family.desc) DeclareScalar(id, *family.desc, table);
  Entry& entry = entries_[id];
  if (!entry.series && !entry.refused) {
    entry.refused = 1;
    refused_.push_back(id);
  }
}

void PageSeries::DeclareScalar(uint32_t id, const MetricDesc& desc, SeriesTable& table) {
  for (SampleRole role : {SampleRole::kValue, SampleRole::kInfo, SampleRole::kState}) {
    const PageCell* cell = CellOf(role);
    if (!cell) continue;
    entries_[id].first = cell->slot;
    entries_[id].series = table.Declare(desc, target_, Attributes(id), FormOf());
    if (desc.kind == Kind::kCounter) Watch(id);
    return;
  }
}

void PageSeries::DeclareShaped(uint32_t id, Family& family, SeriesTable& table) {
  bool summary = family.desc->kind == Kind::kSummary;
  SampleRole bounds = summary ? SampleRole::kQuantile : SampleRole::kBucket;
  SeriesTable::Form form = FormOf();
  form.shape = ShapeOf(family, bounds);
  if (form.shape->cells() == 0) return;
  Series series = table.Declare(*family.desc, target_, Attributes(id), form);
  if (!series) return;
  Entry& entry = entries_[id];
  entry.series = series;
  entry.first = static_cast<uint32_t>(cell_slots_.size());
  entry.cells = form.shape->cells() & ((1u << 29) - 1);
  entry.counts = form.shape->has_count && family.desc->kind != Kind::kGaugeHistogram;
  for (const PageCell& cell : cells_) {
    if (cell.role == bounds) cell_slots_.push_back(cell.slot);
  }
  for (SampleRole role : {SampleRole::kSum, SampleRole::kCount}) {
    if (const PageCell* cell = CellOf(role)) cell_slots_.push_back(cell->slot);
  }
  if (family.desc->kind != Kind::kGaugeHistogram) Watch(id);
}

Ref<const Shape> PageSeries::ShapeOf(Family& family, SampleRole bounds) {
  auto shape = MakeRef<Shape>();
  for (const PageCell& cell : cells_) {
    if (cell.role == bounds) shape->bounds.push_back(cell.bound);
  }
  shape->has_sum = CellOf(SampleRole::kSum) != nullptr;
  shape->has_count = CellOf(SampleRole::kCount) != nullptr;
  const Shape* last = family.last_shape.get();
  if (!last || last->bounds != shape->bounds || last->has_sum != shape->has_sum ||
      last->has_count != shape->has_count) {
    shape->bounds.shrink_to_fit();
    family.last_shape = shape;
  }
  return family.last_shape;
}

const PageCell* PageSeries::CellOf(SampleRole role) const noexcept {
  for (const PageCell& cell : cells_) {
    if (cell.role == role) return &cell;
  }
  return nullptr;
}

// A time of creation that makes no sense is as good as none.
SeriesTable::Form PageSeries::FormOf() {
  constexpr double kYear2200 = 7.3e9;
  const PageCell* cell = CellOf(SampleRole::kCreated);
  double unix_s = cell ? page_.values()[cell->slot] : 0;
  SeriesTable::Form form;
  // To the microsecond: a double of today's seconds has no more.
  if (unix_s > 0 && unix_s < kYear2200) form.start_unix_ns = std::llround(unix_s * 1e6) * 1000;
  return form;
}

void PageSeries::Watch(uint32_t id) {
  const PageCell* cell = CellOf(SampleRole::kCreated);
  if (!cell || !entries_[id].series) return;
  created_.push_back({id, cell->slot, page_.values()[cell->slot], entries_[id].series});
}

// Another time of creation is another identity, even when the number did not fall.
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
    uint64_t limited = table.refused(SeriesRefusal::kLimit);
    entries_[id].refused = 0;
    Declare(id, table);
    full = table.refused(SeriesRefusal::kLimit) != limited;
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

AttributeSet PageSeries::Attributes(uint32_t id) {
  page_.Labels(id, labels_);
  std::erase_if(labels_, [](const PageLabel& label) { return label.value.empty(); });
  auto taken = [this](std::string_view name) {
    return TargetHas(target_.get(), name) ||
           std::any_of(labels_.begin(), labels_.end(), [&](const auto& label) { return label.name == name; });
  };
  std::vector<AttributeSet::Attribute> attributes;
  attributes.reserve(labels_.size());
  for (PageLabel& label : labels_) {
    if (TargetHas(target_.get(), label.name)) {
      std::string name = std::move(label.name);
      do name.insert(0, kExported);
      while (taken(name));
      label.name = std::move(name);
    }
  }
  for (const PageLabel& label : labels_) attributes.push_back({label.name, std::string_view(label.value)});
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
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
    made.attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
    out.Attach(entry.series, std::move(made));
  }
}

size_t PageSeries::memory_bytes() const noexcept {
  return families_.capacity() * sizeof(Family) + entries_.capacity() * sizeof(Entry) +
         (cell_slots_.capacity() + refused_.capacity() + owners_.capacity()) * sizeof(uint32_t) +
         created_.capacity() * sizeof(Created);
}

}  // namespace gpulens
