// Ticks with the targets of simulated engines, for tests.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/inference.h"
#include "catalog/self.h"
#include "core/frame_writer.h"
#include "plugins/sinks/keda/scaler_state.h"

namespace gpulens::keda {

// One replica: a target with an engine.
class TestEngine {
 public:
  explicit TestEngine(const std::string& name, const std::string& model = "m",
                      const std::string& name_space = "ml")
      : target_(MakeRef<Entity>(
            "target", AttributeSet({{"target", std::string_view(name)}}), EntityRef{},
            AttributeSet({{"k8s.namespace.name", std::string_view(name_space)}, {"app", "chat"}}))),
        engine_(MakeRef<Entity>("engine", AttributeSet({{"target", std::string_view(name)},
                                                        {"app", "chat"},
                                                        {"k8s.namespace.name", std::string_view(name_space)},
                                                        {"inference.engine", "vllm"},
                                                        {"inference.layer", "engine"}}))),
        source_("targets/" + name),
        writer_(table_, std::chrono::seconds(30), source_),
        model_(model) {}

  double waiting = 0, running = 0, cache = 0;
  bool silent = false;      // it does not answer
  bool has_running = true;  // its page has that family
  bool has_latency = true;
  const std::string& source() const { return source_; }

  void Observe(double seconds, double times = 1) {
    for (size_t i = 0; i < std::size(kBounds); ++i) cells_[i] += seconds <= kBounds[i] ? times : 0;
    cells_[std::size(kBounds)] += seconds * times;
    cells_[std::size(kBounds) + 1] += times;
  }

  Ref<const Frame> Read(Instant now) {
    writer_.Begin(now);
    writer_.DeclareAndSet(up_, kSelfScrapeUp, target_, {}, silent ? 0 : 1);
    if (!silent) {
      const AttributeSet::Attribute model{"model.name", std::string_view(model_)};
      writer_.DeclareAndSet(waiting_, kInferenceRequestsWaiting, engine_, {model}, std::round(waiting));
      if (has_running)
        writer_.DeclareAndSet(running_, kInferenceRequestsRunning, engine_, {model}, std::round(running));
      writer_.DeclareAndSet(cache_, kInferenceKvCacheUsage, engine_, {model, {"cache.type", "gpu"}}, cache);
      if (has_latency) {
        if (!ttft_) {
          auto shape = MakeRef<Shape>();
          shape->bounds.assign(std::begin(kBounds), std::end(kBounds));
          ttft_ = table_.Declare(kInferenceTimeToFirstToken, engine_, AttributeSet({model}),
                                 {.shape = shape, .start_unix_ns = 0});
        }
        auto cells = writer_.Cells(ttft_);
        for (size_t i = 0; i < cells.size(); ++i) cells[i].d = cells_[i];
      }
    }
    return writer_.Finish();
  }

 private:
  static constexpr double kBounds[] = {0.1, 0.25, 0.5, 1, 2, 4, 8};
  const EntityRef target_, engine_;
  const std::string source_;
  SeriesTable table_;
  FrameWriter writer_;
  const std::string model_;
  double cells_[std::size(kBounds) + 2] = {};
  Series up_, waiting_, running_, cache_, ttft_;
};

// The agent with some targets: a tick each `interval`.
class TestTicks {
 public:
  TestEngine& Start(const std::string& name) {
    auto& engine = engines_[name];
    engine = std::make_unique<TestEngine>(name);
    return *engine;
  }
  TestEngine& Put(const std::string& name, std::unique_ptr<TestEngine> engine) {
    return *(engines_[name] = std::move(engine));
  }
  void Stop(const std::string& name) { engines_.erase(name); }
  TestEngine& operator[](const std::string& name) { return *engines_.at(name); }
  size_t size() const { return engines_.size(); }

  Ref<Snapshot> Close(Instant now) {
    auto snapshot = MakeRef<Snapshot>();
    snapshot->closed_at = now;
    frames_.clear();
    for (auto& [name, engine] : engines_) {
      if (!unread_.contains(name)) frames_.push_back(engine->Read(now));
    }
    own_.Begin(now);
    for (auto& [name, engine] : engines_) {
      auto& series = up_[name];
      if (!series)
        series = own_table_.Declare(
            kSelfCollectorUp,
            MakeRef<Entity>("collector", AttributeSet({{"collector", std::string_view(engine->source())}})));
      own_.Set(series, 1);
    }
    for (auto at = up_.begin(); at != up_.end();) {
      if (engines_.contains(at->first)) {
        ++at;
        continue;
      }
      own_table_.Retire(at->second);
      at = up_.erase(at);
    }
    frames_.push_back(own_.Finish());
    for (const auto& frame : frames_)
      snapshot->frames.push_back({frame, frame->source, Precedence::kNative, false});
    return snapshot;
  }
  // A target that was configured, and has not been read yet.
  std::map<std::string, bool> unread_;

 private:
  std::map<std::string, std::unique_ptr<TestEngine>> engines_;
  SeriesTable own_table_;
  FrameWriter own_{own_table_, std::chrono::seconds(30), "gpulens"};
  std::map<std::string, Series> up_;
  std::vector<Ref<const Frame>> frames_;
};

}  // namespace gpulens::keda
