// Frames of engines' pages for tests, as the collector makes them.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/frame_writer.h"

namespace gpulens::windows {

inline const std::vector<double> kBounds = {0.1, 0.25, 0.5, 1, 2.5, 5, 10};
#define MODEL {"model.name", "llama"}
#define RANK(number) {"inference.dp_rank", number}

using Attributes = std::initializer_list<AttributeSet::Attribute>;

// One instance of the collector: cumulative numbers of one engine, that stay until they are set again.
class EnginePage {
 public:
  explicit EnginePage(std::string_view engine, std::string_view target = "a")
      : source_("engines/" + std::string(target)),
        entity_(MakeRef<Entity>("engine", AttributeSet({{"target", target}, {"inference.engine", engine}}))) {
  }

  const std::string& source() const noexcept { return source_; }

  void Set(const MetricDesc& desc, Attributes labels, double value) { Of(desc, labels).cells = {value}; }
  void Add(const MetricDesc& desc, Attributes labels, double growth) {
    Item& item = Of(desc, labels);
    if (item.cells.empty()) item.cells = {0};
    item.cells[0] += growth;
  }
  // A histogram without buckets.
  void SetMoments(const MetricDesc& desc, Attributes labels, double sum, double count) {
    Of(desc, labels).cells = {sum, count};
  }
  // Observes `value` `count` times. `bounds`: of all finite buckets.
  void Observe(const MetricDesc& desc, Attributes labels, const std::vector<double>& bounds, double value,
               double times) {
    Item& item = Of(desc, labels);
    if (item.bounds != bounds) {
      Remove(desc, labels);
      return ObserveNew(Of(desc, labels), bounds, value, times);
    }
    Count(item, value, times);
  }
  // Restarts the engine process: all its counters and buckets are 0.
  void Restart() {
    for (auto& [key, item] : items_) {
      if (std::get<0>(key)->kind == Kind::kGauge || std::get<0>(key)->kind == Kind::kUpDownCounter) continue;
      item.cells.assign(item.cells.size(), 0);
    }
  }
  void Remove(const MetricDesc& desc, Attributes labels) {
    auto at = items_.find(KeyOf(desc, labels));
    if (at == items_.end()) return;
    table_.Retire(at->second.series);
    items_.erase(at);
  }
  // Leaves the series out of the page, so that its last value becomes stale.
  void Silence(const MetricDesc& desc, Attributes labels, bool silent = true) {
    Of(desc, labels).silent = silent;
  }
  // Sets a series' `_created`; before it is first read.
  void CreatedAt(const MetricDesc& desc, Attributes labels, int64_t unix_ns) {
    Of(desc, labels).created_unix_ns = unix_ns;
  }

  Ref<const Frame> Run(Instant now) {
    writer_.Begin(now);
    for (auto& [key, item] : items_) {
      if (!item.series) Declare(*std::get<0>(key), item);
      if (item.silent || item.cells.empty()) continue;
      if (!item.shape) writer_.Set(item.series, item.cells[0]);
      else if (auto cells = writer_.Cells(item.series); !cells.empty()) {
        for (size_t i = 0; i < cells.size(); ++i) cells[i].d = item.cells[i];
      }
    }
    return writer_.Finish();
  }

 private:
  using Key = std::tuple<const MetricDesc*, uint64_t>;
  struct Item {
    AttributeSet labels;
    Series series;
    Ref<const Shape> shape;
    std::vector<double> bounds, cells;  // cells: as in Shape
    int64_t created_unix_ns = 0;
    bool silent = false;
  };

  static Key KeyOf(const MetricDesc& desc, Attributes labels) { return {&desc, AttributeSet(labels).hash()}; }
  Item& Of(const MetricDesc& desc, Attributes labels) {
    Item& item = items_[KeyOf(desc, labels)];
    item.labels = AttributeSet(labels);
    return item;
  }
  static void ObserveNew(Item& item, const std::vector<double>& bounds, double value, double times) {
    item.bounds = bounds;
    item.cells.assign(bounds.size() + 3, 0);
    Count(item, value, times);
  }
  static void Count(Item& item, double value, double times) {
    for (size_t i = 0; i < item.bounds.size(); ++i) item.cells[i] += value <= item.bounds[i] ? times : 0;
    item.cells[item.bounds.size()] += times;  // +Inf
    item.cells[item.bounds.size() + 1] += value * times;
    item.cells[item.bounds.size() + 2] += times;
  }
  void Declare(const MetricDesc& desc, Item& item) {
    SeriesTable::Form form{.shape = {}, .start_unix_ns = item.created_unix_ns};
    if (desc.kind == Kind::kHistogram) {
      auto shape = MakeRef<Shape>();
      shape->bounds = item.bounds;
      if (item.cells.size() > 2) shape->bounds.push_back(std::numeric_limits<double>::infinity());
      item.shape = form.shape = shape;
    }
    item.series = table_.Declare(desc, entity_, item.labels, form);
  }

  const std::string source_;
  const EntityRef entity_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(30)};
  std::map<Key, Item> items_;
};

}  // namespace gpulens::windows
