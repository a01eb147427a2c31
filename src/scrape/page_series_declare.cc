// How a series of a page becomes one of ours.
#include <algorithm>

#include "scrape/page_cells.h"
#include "scrape/page_series.h"

namespace gpulens {
namespace {

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

}  // namespace

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
  uint64_t limit = table.refused_for_room(), twice = table.refused(SeriesRefusal::kDuplicate);
  if (family.desc && IsShaped(family.desc->kind)) DeclareShaped(id, family, table);
  else if (family.desc) DeclareScalar(id, *family.desc, table);
  Entry& entry = entries_[id];
  if (!entry.series && !entry.refused) {
    entry.refused = 1 + (static_cast<uint32_t>(WhyRefused(table, limit, twice)) & 3u);
    refused_.push_back(id);
  }
}

void PageSeries::DeclareScalar(uint32_t id, const MetricDesc& desc, SeriesTable& table) {
  for (SampleRole role : {SampleRole::kValue, SampleRole::kInfo, SampleRole::kState}) {
    const PageCell* cell = FindCell(cells_, role);
    if (!cell) continue;
    entries_[id].first = cell->slot;
    const SeriesTable::Form form{.start_unix_ns = CreatedUnixNs(page_, cells_)};
    entries_[id].series = table.Declare(desc, target_, Attributes(id), form);
    if (desc.kind == Kind::kCounter) Watch(id);
    return;
  }
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
    // One program writes one bound in one way: reading the texts of every series would double the work.
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
           std::any_of(labels.begin(), labels.end(), [&](const auto& label) { return label.name == name; });
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
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

}  // namespace gpulens
