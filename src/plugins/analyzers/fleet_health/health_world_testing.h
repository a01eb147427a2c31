// A machine for tests of the fleet health analyzer: GPUs whose readings are set by hand, ticks, and what the
// analyzer exports.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "catalog/gpu.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const AnalyzerSpec fleet_health_analyzer;

namespace health_world {

using Attributes = std::initializer_list<AttributeSet::Attribute>;

// One source's frames of GPUs: every value set stays until it is set again or removed.
class Source {
 public:
  void Set(const EntityRef& gpu, const MetricDesc& desc, const AttributeSet& extra, double value) {
    Key key{gpu.get(), &desc, extra.hash()};
    auto [at, added] = series_.try_emplace(key);
    if (added) at->second.series = table_.Declare(desc, gpu, extra);
    at->second.value = value;
  }
  void Clear() {
    for (auto& [key, item] : series_) item.value = std::nan("");
  }
  void Retire(const EntityRef& gpu) {
    table_.Retire(gpu);
    std::erase_if(series_, [&](const auto& item) { return std::get<0>(item.first) == gpu.get(); });
  }
  Ref<const Frame> Run(Instant now) {
    writer_.Begin(now);
    for (auto& [key, item] : series_) {
      if (!std::isnan(item.value)) writer_.Set(item.series, item.value);
    }
    return writer_.Finish();
  }

 private:
  using Key = std::tuple<const Entity*, const MetricDesc*, uint64_t>;
  struct Item {
    Series series;
    double value = 0;
  };
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  std::map<Key, Item> series_;
};

inline EntityRef Gpu(int64_t index) {
  std::string uuid = "GPU-" + std::to_string(index);
  return MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", index}, {"gpu.uuid", std::string_view(uuid)}}));
}

// Not thread-safe. Ticks are as far apart as the test wants.
class World {
 public:
  explicit World(size_t gpus) {
    env_.clock = &clock_;
    env_.events = &queue_;
    Config config;
    config.Set("window", Duration(std::chrono::seconds(300)), {});
    analyzer_ = *fleet_health_analyzer.create(config, env_);
    for (size_t i = 0; i < gpus; ++i) gpus_.push_back(Gpu(static_cast<int64_t>(i)));
  }

  size_t size() const noexcept { return gpus_.size(); }
  void Set(size_t gpu, const MetricDesc& desc, const AttributeSet& extra, double value) {
    source_.Set(gpus_[gpu], desc, extra, value);
  }
  void Tick(Duration after) {
    clock_.Advance(after);
    snapshot_.frames.assign(1, {source_.Run(clock_.Now()), "nvidia", Precedence::kNative, false});
    snapshot_.closed_at = clock_.Now();
    out_.Begin(clock_.Now());
    static_cast<void>(analyzer_->Analyze(snapshot_, out_));
    frame_ = out_.Finish();
    Read();
    static_cast<void>(queue_.Take());
  }

  // The fresh results of a GPU in the last tick.
  struct Result {
    std::string state;
    double score = std::nan("");
    std::vector<std::string> conditions;
  };
  const Result& result(size_t gpu) const { return results_.at(gpu); }

 private:
  void Read() {
    results_.assign(gpus_.size(), {});
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (frame_->quality[slot] != Quality::kOk || !info.entity || info.entity->type != "gpu") continue;
      AttributeSet::Value index = info.attributes.Find("gpu.index", int64_t{0});
      Result& result = results_[static_cast<size_t>(std::get<int64_t>(index))];
      Cell cell = frame_->cells[info.first_cell];
      double value = info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
      if (info.desc == &kGpuHealthScore) result.score = value;
      if (value != 1) continue;
      if (info.desc == &kGpuHealthState) result.state = info.attributes.Text("gpu.health.state");
      if (info.desc == &kGpuHealthCondition)
        result.conditions.push_back(info.attributes.Text("gpu.health.reason"));
    }
  }

  ManualClock clock_;
  EventQueue queue_;
  Env env_;
  Source source_;
  Snapshot snapshot_;
  SeriesTable table_;
  FrameWriter out_{table_, std::chrono::seconds(10)};
  std::unique_ptr<Analyzer> analyzer_;
  std::vector<EntityRef> gpus_;
  Ref<const Frame> frame_;
  std::vector<Result> results_;
};

}  // namespace health_world
}  // namespace gpulens
