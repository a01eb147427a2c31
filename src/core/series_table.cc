#include "core/series_table.h"

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr uint32_t kEmpty = UINT32_MAX;
constexpr uint32_t kDead = UINT32_MAX - 1;
constexpr size_t kOwnedDescsMax = 10'000;

std::atomic<uint64_t> next_layout_id{1};

size_t IdentityHash(const MetricDesc& desc, const AttributeSet& attributes) noexcept {
  size_t h = std::hash<std::string_view>{}(desc.name);
  return (h ^ (attributes.hash() + 0x9E3779B97F4A7C15ull + (h << 6) + (h >> 2)));
}

}  // namespace

struct DescStore {
  struct Row {
    std::string name, unit, help;
    MetricDesc desc;
  };

  std::deque<Row> rows;
  std::unordered_multimap<std::string_view, const Row*> by_name;
};

std::string_view SeriesRefusalName(SeriesRefusal refusal) noexcept {
  switch (refusal) {
    case SeriesRefusal::kLimit: return "limit";
    case SeriesRefusal::kDuplicate: return "duplicate";
    case SeriesRefusal::kInvalidName: return "invalid_name";
    case SeriesRefusal::kMemory: return "memory";
  }
  return "unknown";
}

bool SeriesBudget::Take() noexcept {
  if (used_.fetch_add(1, std::memory_order_relaxed) < limit_) return true;
  used_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

SeriesTable::SeriesTable() : SeriesTable(Options{}) {}
SeriesTable::SeriesTable(Options options)
    : options_(std::move(options)), descs_(std::make_shared<DescStore>()) {}
SeriesTable::~SeriesTable() {
  if (options_.budget) options_.budget->Give(live_);
}

const MetricDesc* SeriesTable::Own(const MetricDesc& outside) {
  MetricDesc scraped = outside;
  std::string name, unit, help;
  scraped.name = ValidUtf8(outside.name, name);
  scraped.unit = ValidUtf8(outside.unit, unit);
  scraped.help = ValidUtf8(outside.help, help);
  auto [first, last] = descs_->by_name.equal_range(scraped.name);
  for (auto it = first; it != last; ++it) {
    const MetricDesc& known = it->second->desc;
    if (known.kind == scraped.kind && known.unit == scraped.unit && known.help == scraped.help &&
        known.number == scraped.number) {
      return &known;
    }
  }
  if (descs_->rows.size() >= kOwnedDescsMax) return nullptr;
  DescStore::Row& row = descs_->rows.emplace_back(DescStore::Row{
      std::string(scraped.name), std::string(scraped.unit), std::string(scraped.help), scraped});
  row.desc.name = row.name;
  row.desc.unit = row.unit;
  row.desc.help = row.help;
  row.desc.keys = {};
  row.desc.level = MetricLevel::kEssential;
  descs_->by_name.emplace(row.name, &row);
  return &row.desc;
}

Series SeriesTable::Refuse(SeriesRefusal why) noexcept {
  ++refused_[static_cast<size_t>(why)];
  return {};
}

AttributeSet SeriesTable::Resolve(const EntityRef& entity, const AttributeSet& extra) const {
  AttributeSet resolved = extra;
  for (const Entity* e = entity.get(); e; e = e->parent.get()) resolved = resolved.OverlaidOn(e->attributes);
  if (options_.describe && entity) resolved = resolved.OverlaidOn(options_.describe(*entity));
  return resolved;
}

// Keeps equal sets once: families of one page mostly repeat the same few label sets.
AttributeSet SeriesTable::Shared(AttributeSet attributes) {
  if (attributes.empty()) return attributes;
  if ((run_sets_used_ + 1) * 4 > run_sets_.size() * 3) {
    std::vector<AttributeSet> old(std::max<size_t>(16, run_sets_.size() * 2));
    old.swap(run_sets_);
    for (AttributeSet& set : old) {
      if (set.empty()) continue;
      size_t i = set.hash() & (run_sets_.size() - 1);
      while (!run_sets_[i].empty()) i = (i + 1) & (run_sets_.size() - 1);
      run_sets_[i] = std::move(set);
    }
  }
  size_t mask = run_sets_.size() - 1;
  for (size_t i = attributes.hash() & mask;; i = (i + 1) & mask) {
    if (run_sets_[i] == attributes) return run_sets_[i];
    if (!run_sets_[i].empty()) continue;
    ++run_sets_used_;
    return run_sets_[i] = std::move(attributes);
  }
}

Series SeriesTable::Declare(const MetricDesc& desc, const EntityRef& entity, const AttributeSet& extra) {
  return Declare(desc, entity, extra, Form{});
}

Series SeriesTable::Declare(const MetricDesc& desc, const EntityRef& entity, const AttributeSet& extra,
                            const Form& form) {
  if (desc.name.empty()) return Refuse(SeriesRefusal::kInvalidName);
  AttributeSet attributes = Resolve(entity, extra);
  if (Known(desc, attributes)) return Refuse(SeriesRefusal::kDuplicate);
  if (live_ >= options_.limit) return Refuse(SeriesRefusal::kLimit);
  // The agent's own series are few, and report what is dropped.
  const bool own = desc.name.starts_with("gpulens.");
  if (!own && options_.has_room && !options_.has_room()) return Refuse(SeriesRefusal::kMemory);
  if (options_.budget && !options_.budget->Take()) return Refuse(SeriesRefusal::kLimit);
  uint32_t slot = TakeSlot(form.shape ? form.shape->cells() : 1);
  SeriesInfo& info = Mutable(slot);
  info.desc = &desc;
  info.entity = entity;
  info.attributes = Shared(std::move(attributes));
  info.shape = form.shape;
  info.start_unix_ns = form.start_unix_ns;
  info.start_known = form.start_unix_ns != 0;
  if (options_.describe && !extra.empty()) extras_[slot] = extra;
  ++live_;
  Index(slot);
  return {slot, generations_[slot]};
}

// Reuses a retired slot with as many cells, so that churn does not grow the table.
uint32_t SeriesTable::TakeSlot(uint32_t cells) {
  for (FreeSlots& list : free_) {
    if (list.cells != cells || list.slots.empty()) continue;
    uint32_t slot = list.slots.back();
    list.slots.pop_back();
    return slot;
  }
  uint32_t slot = slots();
  generations_.push_back(0);
  if (slot % Layout::kBlockSlots == 0) {
    blocks_.push_back(MakeRef<Layout::Block>());
    shared_.push_back(false);
  }
  if (shared_.back()) {
    blocks_.back() = MakeRef<Layout::Block>(*blocks_.back());
    shared_.back() = false;
  }
  blocks_.back()->slots.emplace_back().first_cell = cells_;
  cells_ += cells;
  changed_ = true;
  return slot;
}

SeriesInfo& SeriesTable::Mutable(uint32_t slot) {
  size_t block = slot / Layout::kBlockSlots;
  if (shared_[block]) {
    blocks_[block] = MakeRef<Layout::Block>(*blocks_[block]);
    shared_[block] = false;
  }
  changed_ = true;
  return blocks_[block]->slots[slot % Layout::kBlockSlots];
}

void SeriesTable::Retire(Series series) {
  if (!Live(series)) return;
  uint32_t slot = series.slot;
  SeriesInfo& info = Mutable(slot);
  size_t mask = by_identity_.size() - 1;
  for (size_t i = IdentityHash(*info.desc, info.attributes) & mask;; i = (i + 1) & mask) {
    CHECK(by_identity_[i] != kEmpty);
    if (by_identity_[i] != slot) continue;
    by_identity_[i] = kDead;
    break;
  }
  uint32_t first_cell = info.first_cell, cells = info.cells();
  info = SeriesInfo{};
  info.first_cell = first_cell;
  ++generations_[slot];
  extras_.erase(slot);
  --live_;
  if (options_.budget) options_.budget->Give(1);
  for (FreeSlots& list : free_) {
    if (list.cells == cells) return list.slots.push_back(slot);
  }
  free_.push_back({cells, {slot}});
}

void SeriesTable::Retire(const EntityRef& entity) {
  RetireIf([&](const SeriesInfo& info) { return info.entity == entity; });
}

void SeriesTable::RetireIf(const std::function<bool(const SeriesInfo&)>& ends) {
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    if (InfoAt(slot).desc && ends(InfoAt(slot))) Retire(Series{slot, generations_[slot]});
  }
}

void SeriesTable::Restart(uint32_t slot, int64_t start_unix_ns, bool known) {
  SeriesInfo& info = Mutable(slot);
  info.start_unix_ns = start_unix_ns;
  info.start_known = known;
}

void SeriesTable::Redescribe(int64_t now_unix_ns) {
  bool any = false;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    const SeriesInfo& info = InfoAt(slot);
    if (!info.desc) continue;
    auto extra = extras_.find(slot);
    AttributeSet attributes = Resolve(info.entity, extra == extras_.end() ? AttributeSet{} : extra->second);
    if (attributes == info.attributes) continue;
    SeriesInfo& changed = Mutable(slot);
    changed.attributes = Shared(std::move(attributes));
    changed.start_unix_ns = now_unix_ns;
    changed.start_known = false;
    any = true;
  }
  if (any) Rehash(by_identity_.size());
}

bool SeriesTable::Known(const MetricDesc& desc, const AttributeSet& attributes) const {
  if (by_identity_.empty()) return false;
  size_t mask = by_identity_.size() - 1;
  for (size_t i = IdentityHash(desc, attributes) & mask; by_identity_[i] != kEmpty; i = (i + 1) & mask) {
    if (by_identity_[i] == kDead) continue;
    const SeriesInfo& info = InfoAt(by_identity_[i]);
    if (info.desc->name == desc.name && info.attributes == attributes) return true;
  }
  return false;
}

void SeriesTable::Index(uint32_t slot) {
  // At most three quarters full, dead entries included, so that every probe ends.
  if ((indexed_ + 1) * 4 > by_identity_.size() * 3) {
    size_t buckets = 16;
    while (live_ * 2 > buckets) buckets *= 2;
    return Rehash(buckets);
  }
  const SeriesInfo& info = InfoAt(slot);
  size_t mask = by_identity_.size() - 1;
  size_t i = IdentityHash(*info.desc, info.attributes) & mask;
  while (by_identity_[i] != kEmpty) i = (i + 1) & mask;
  by_identity_[i] = slot;
  ++indexed_;
}

void SeriesTable::Rehash(size_t buckets) {
  by_identity_.assign(buckets, kEmpty);
  indexed_ = 0;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    const SeriesInfo& info = InfoAt(slot);
    if (!info.desc) continue;
    size_t i = IdentityHash(*info.desc, info.attributes) & (buckets - 1);
    while (by_identity_[i] != kEmpty) i = (i + 1) & (buckets - 1);
    by_identity_[i] = slot;
    ++indexed_;
  }
}

Ref<const Layout> SeriesTable::Freeze() {
  if (!run_sets_.empty()) {
    std::vector<AttributeSet>().swap(run_sets_);
    run_sets_used_ = 0;
    generations_.shrink_to_fit();
  }
  if (frozen_ && !changed_) return frozen_;
  std::vector<Ref<const Layout::Block>> blocks(blocks_.begin(), blocks_.end());
  shared_.assign(shared_.size(), true);
  frozen_ = MakeRef<Layout>(next_layout_id.fetch_add(1, std::memory_order_relaxed), slots(), cells_,
                            std::move(blocks), descs_);
  changed_ = false;
  return frozen_;
}

}  // namespace gpulens
