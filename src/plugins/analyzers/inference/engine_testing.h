// The analyzer with ticks of engines' pages, for tests.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "plugins/analyzers/inference/engine_page_testing.h"
#include "plugins/plugin.h"

namespace gpulens {

extern const AnalyzerSpec inference_analyzer;

namespace windows {

// The analyzer with a manual clock.
class AnalyzerRun {
 public:
  explicit AnalyzerRun(Duration window = std::chrono::seconds(60)) {
    Config config;
    config.Set("window", window, {});
    analyzer_ = *inference_analyzer.create(config, env_);
  }

  Instant now() const noexcept { return clock_.Now(); }
  void Wait(Duration time) noexcept { clock_.Advance(time); }
  // Reads the pages and closes a tick.
  void Scrape(std::initializer_list<EnginePage*> pages) {
    snapshot_.frames.clear();
    frames_.clear();
    for (EnginePage* page : pages) frames_.push_back(page->Run(now()));
    size_t i = 0;
    for (EnginePage* page : pages) {
      snapshot_.frames.push_back({frames_[i++], page->source(), Precedence::kNative, false});
    }
    Tick();
  }
  void Scrape(EnginePage& page) { Scrape({&page}); }
  // Closes a tick with the frames of the last one.
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
