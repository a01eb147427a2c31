// The series of a frame, their cells and attributes: a frozen SeriesTable. Sinks cache what they derive by
// (layout id, slot). Immutable, counted, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"
#include "core/attribute_set.h"
#include "core/metric_desc.h"

namespace gpulens {

// What is measured: a GPU, a MIG slice, a link, a process, an engine, the host. Created by the collector that
// found it; analyzers declare series on it, enrichers describe it. Immutable.
struct Entity : RefCounted<Entity> {
  Entity(std::string kind, AttributeSet identity, Ref<const Entity> of = {}, AttributeSet hidden = {})
      : type(std::move(kind)),
        attributes(std::move(identity)),
        parent(std::move(of)),
        facts(std::move(hidden)) {}
  std::string type;
  AttributeSet attributes;
  Ref<const Entity> parent;
  AttributeSet facts;  // further identity for enrichers: a bus address; on no series
};
using EntityRef = Ref<const Entity>;

// The cells of a histogram or summary, in this order: one per bound (histogram: cumulative count up to it;
// summary: the quantile), then sum, then count.
struct Shape : RefCounted<Shape> {
  std::vector<double> bounds;  // ascending; with +Inf only if the source has that bucket
  // The bounds as written by the source ("1", "0.10"); empty: as OpenMetrics writes them ("1.0", "0.1").
  std::vector<std::string> bound_texts;
  bool has_sum = true;
  bool has_count = true;

  uint32_t cells() const noexcept { return static_cast<uint32_t>(bounds.size()) + has_sum + has_count; }
  uint32_t sum_cell() const noexcept { return static_cast<uint32_t>(bounds.size()); }
  uint32_t count_cell() const noexcept { return static_cast<uint32_t>(bounds.size()) + has_sum; }
};

struct SeriesInfo {
  const MetricDesc* desc = nullptr;  // null: a free slot
  EntityRef entity;
  AttributeSet attributes;    // resolved: extra over entity over its parents over enrichers
  Ref<const Shape> shape;     // null: one cell
  int64_t start_unix_ns = 0;  // of this identity; a counter reset begins a new one
  uint32_t first_cell = 0;
  bool start_known = false;  // false: the first reading is the base; no `_created`

  uint32_t cells() const noexcept { return shape ? shape->cells() : 1; }
};

// Rows of scraped families; lives as long as a layout that uses it.
struct DescStore;

class Layout : public RefCounted<Layout> {
 public:
  static constexpr size_t kBlockSlots = 256;
  struct Block : RefCounted<Block> {
    std::vector<SeriesInfo> slots;
  };

  Layout(uint64_t id, uint32_t slots, uint32_t cells, std::vector<Ref<const Block>> blocks,
         std::shared_ptr<const DescStore> descs)
      : id_(id), slots_(slots), cells_(cells), blocks_(std::move(blocks)), descs_(std::move(descs)) {}

  // Unique in the process; never 0.
  uint64_t id() const noexcept { return id_; }
  // Slots, free ones included: `desc` of a free one is null.
  uint32_t slots() const noexcept { return slots_; }
  uint32_t cells() const noexcept { return cells_; }
  const SeriesInfo& operator[](uint32_t slot) const noexcept {
    return blocks_[slot / kBlockSlots]->slots[slot % kBlockSlots];
  }

 private:
  uint64_t id_;
  uint32_t slots_, cells_;
  std::vector<Ref<const Block>> blocks_;
  std::shared_ptr<const DescStore> descs_;
};

}  // namespace gpulens
