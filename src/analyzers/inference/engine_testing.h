// Engines' pages as the collector turns them into frames, and the analyzer that reads them: for tests.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "catalog/inference/roles.h"
#include "pipeline/plugin.h"

namespace gpulens {

extern const AnalyzerSpec inference_analyzer;

namespace windows {

using Attributes = std::initializer_list<AttributeSet::Attribute>;

// One instance of the collector: cumulative numbers of one engine, that stay until they are set anew.
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
  // Observes `value` so many times. `bounds`: of all finite buckets.
  void Observe(const MetricDesc& desc, Attributes labels, const std::vector<double>& bounds, double value,
               double times) {
    Item& item = Of(desc, labels);
    if (item.bounds != bounds) {
      Remove(desc, labels);
      return ObserveNew(Of(desc, labels), bounds, value, times);
    }
    Count(item, value, times);
  }
  // The engine process began anew: all its counters and buckets are 0.
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
  // It is not on the page this time: its last value grows stale.
  void Silence(const MetricDesc& desc, Attributes labels, bool silent = true) {
    Of(desc, labels).silent = silent;
  }
  // The time at which the page says that a series was created; before it is first read.
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
    std::vector<double> bounds, cells;  // cells: as Shape says
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

// The analyzer with a clock that stands still.
class AnalyzerRun {
 public:
  explicit AnalyzerRun(Duration window = std::chrono::seconds(60)) {
    Config config;
    config.Set("window", window, {});
    analyzer_ = *inference_analyzer.create(config, env_);
  }

  Instant now() const noexcept { return clock_.Now(); }
  void Wait(Duration time) noexcept { clock_.Advance(time); }
  // The pages are read now, and a tick closes.
  void Scrape(std::initializer_list<EnginePage*> pages) {
    snapshot_.frames.clear();
    frames_.clear();
    for (EnginePage* page : pages) frames_.push_back(page->Run(now()));
    size_t i = 0;
    for (EnginePage* page : pages) {
      snapshot_.frames.push_back({frames_[i++], page->source(), Standing::kNative, false});
    }
    Tick();
  }
  void Scrape(EnginePage& page) { Scrape({&page}); }
  // A tick with the frames of the last one.
  void Tick() {
    snapshot_.closed_at = now();
    out_.Begin(now());
    status_ = analyzer_->Analyze(snapshot_, out_);
    frame_ = out_.Finish();
  }
  Snapshot& snapshot() noexcept { return snapshot_; }
  const Status& status() const noexcept { return status_; }
  const Frame& frame() const noexcept { return *frame_; }
  const FrameWriter& writer() const noexcept { return out_; }

  // The fresh value of the only series of the family that has these attributes. NaN: there is none.
  double Value(const MetricDesc& desc, Attributes attributes = {}) const {
    double value = std::nan("");
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      bool is_it = true;
      for (const auto& [key, wanted] : attributes) {
        is_it = is_it && info.attributes.Has(key) && info.attributes.Find(key, wanted) == wanted;
      }
      if (!is_it) continue;
      Cell cell = frame_->cells[info.first_cell];
      if (!std::isnan(value)) return std::numeric_limits<double>::infinity();  // not the only one
      value = desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return value;
  }
  bool Has(const MetricDesc& desc, Attributes attributes = {}) const {
    return !std::isnan(Value(desc, attributes));
  }
  // Whether the family has a series at all, fresh or not.
  size_t SeriesOf(const MetricDesc& desc) const {
    size_t count = 0;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      count += (*frame_->layout)[slot].desc == &desc;
    }
    return count;
  }

 private:
  ManualClock clock_;
  Env env_;
  std::unique_ptr<Analyzer> analyzer_;
  SeriesTable table_;
  FrameWriter out_{table_, std::chrono::seconds(10)};
  Snapshot snapshot_;
  std::vector<Ref<const Frame>> frames_;
  Ref<const Frame> frame_;
  Status status_;
};

}  // namespace windows
}  // namespace gpulens
