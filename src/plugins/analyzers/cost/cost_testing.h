// Frames of GPUs, processes and engines for tests, as collectors make them.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "core/frame_writer.h"

namespace gpulens::cost {

// One instance of a collector: every value stays until it is set again or withdrawn.
class TestSource {
 public:
  explicit TestSource(std::string name) : name_(std::move(name)) {}

  const std::string& name() const noexcept { return name_; }
  void Set(const EntityRef& entity, const MetricDesc& desc, const AttributeSet& extra, double value) {
    Item& item = items_[{entity.get(), &desc, extra.hash()}];
    if (!item.series) item.series = table_.Declare(desc, entity, extra);
    item.value = value;
  }
  void Set(const EntityRef& entity, const MetricDesc& desc, double value) { Set(entity, desc, {}, value); }
  // Sets sum and count of a histogram without buckets.
  void SetSum(const EntityRef& entity, const MetricDesc& desc, const AttributeSet& extra, double sum,
              double count) {
    Item& item = items_[{entity.get(), &desc, extra.hash()}];
    if (!item.series)
      item.series = table_.Declare(desc, entity, extra, SeriesTable::Form{.shape = MakeRef<Shape>()});
    item.value = sum;
    item.count = count;
    item.shaped = true;
  }
  // Leaves the value out of the next runs, so that it becomes stale.
  void Silence(const EntityRef& entity, const MetricDesc& desc, const AttributeSet& extra = {}) {
    items_.at({entity.get(), &desc, extra.hash()}).value = std::nan("");
  }
  void Retire(const EntityRef& entity) {
    table_.Retire(entity);
    std::erase_if(items_, [&](const auto& item) { return std::get<0>(item.first) == entity.get(); });
  }
  void DatedAt(Instant when) { dated_ = when; }

  void Run(Instant now) {
    writer_.Begin(now);
    if (dated_.boot_ns != 0) writer_.DatedAt(dated_);
    for (auto& [key, item] : items_) {
      if (std::isnan(item.value)) continue;
      if (!item.shaped) {
        writer_.Set(item.series, item.value);
      } else if (auto cells = writer_.Cells(item.series); cells.size() == 2) {
        cells[0].d = item.value;
        cells[1].d = item.count;
      }
    }
    frame_ = writer_.Finish();
  }
  SnapshotEntry entry() const { return {frame_, name_, Precedence::kNative, false, {}}; }

 private:
  using Key = std::tuple<const Entity*, const MetricDesc*, uint64_t>;
  struct Item {
    Series series;
    double value = 0, count = 0;
    bool shaped = false;
  };
  const std::string name_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  std::map<Key, Item> items_;
  Instant dated_;
  Ref<const Frame> frame_;
};

inline Snapshot SnapshotOf(Instant now, std::initializer_list<const TestSource*> sources) {
  Snapshot out;
  out.closed_at = now;
  for (const TestSource* source : sources) out.frames.push_back(source->entry());
  return out;
}

inline std::string UuidOf(int64_t index) {
  return "GPU-0000000" + std::to_string(index) + "-aaaa-bbbb-cccc-1";
}
inline EntityRef TestGpu(int64_t index, const AttributeSet& more = {}) {
  const std::string uuid = UuidOf(index);
  const AttributeSet own({{"gpu.index", index},
                          {"gpu.uuid", std::string_view(uuid)},
                          {"gpu.model", std::string_view("NVIDIA H100 80GB HBM3")}});
  return MakeRef<Entity>("gpu", own.OverlaidOn(more), EntityRef{},
                         AttributeSet({{"gpu.vendor", std::string_view("nvidia")}}));
}
inline EntityRef TestProcess(const EntityRef& of, int64_t pid, const AttributeSet& more = {},
                             std::string_view parents = {}, int64_t start_ticks = 0) {
  std::vector<AttributeSet::Attribute> facts;
  if (!parents.empty()) facts.push_back({"process.parents", parents});
  if (start_ticks != 0) facts.push_back({"process.start_ticks", start_ticks});
  return MakeRef<Entity>("process", AttributeSet({{"process.pid", pid}}).OverlaidOn(more), of,
                         AttributeSet(facts));
}
inline EntityRef TestEngine(std::string_view target, std::string_view layer = "engine",
                            const AttributeSet& more = {}, int64_t pid = 0) {
  return MakeRef<Entity>(
      "engine",
      AttributeSet(
          {{"target", target}, {"inference.engine", std::string_view("vllm")}, {"inference.layer", layer}})
          .OverlaidOn(more),
      EntityRef{}, pid == 0 ? AttributeSet() : AttributeSet({{"process.pid", pid}}));
}

}  // namespace gpulens::cost
